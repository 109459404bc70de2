// SPDX-License-Identifier: Apache-2.0
/* The image of a platform in an index, and in the indexes that it lists. */
#include "objects/oci.h"

#include <errno.h>

#define LOOKS_MAX 64 /* manifests that are fetched for one search */

struct index_search {
	struct oci_store *store;
	const char *platform;
	unsigned int looks;
	struct buf others; /* what there is besides, for the message */
};

static int find_choice(struct index_search *s, const struct oci_manifest *index,
		       unsigned int depth, struct digest *ret,
		       struct error *err);

static int get_manifest(struct index_search *s, const struct digest *d,
			struct oci_manifest *ret, struct error *err)
{
	char text[DIGEST_STR_MAX];

	if (s->looks++ == LOOKS_MAX)
		return error_set(err, E2BIG,
				 "the index has no image for %s among the "
				 "first %d manifests",
				 s->platform, LOOKS_MAX);
	digest_format(d, text);
	return oci_get_manifest(s->store, text, ret, err);
}

/* An entry that names no platform: what is it?  1: not the one. */
static int try_nameless(struct index_search *s, const struct oci_manifest *m,
			struct digest *ret, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = oci_check_platform(s->store, m, s->platform, &why);

	if (rc == 0) {
		*ret = m->digest;
		return 0;
	}
	/* An image for another platform, or no image at all. */
	if (rc == -ENOENT || rc == -EINVAL || rc == -EBADMSG || rc == -EFBIG) {
		(void)!buf_printf(&s->others, "%s%s", s->others.len ? ", " : "",
				  "something without a platform");
		return 1;
	}
	if (err)
		*err = why;
	return rc;
}

static int try_choice(struct index_search *s, const struct oci_index_choice *c,
		      unsigned int depth, struct digest *ret, struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	int rc;

	if (c->matches && !c->is_index) {
		*ret = c->digest;
		return 0;
	}
	rc = get_manifest(s, &c->digest, &m, err);
	if (rc < 0)
		return rc;
	if (oci_media_type_is_index(m.media_type))
		rc = find_choice(s, &m, depth + 1, ret, err);
	else
		rc = try_nameless(s, &m, ret, err);
	return rc;
}

/* 1: it has none. */
static int find_choice(struct index_search *s, const struct oci_manifest *index,
		       unsigned int depth, struct digest *ret,
		       struct error *err)
{
	struct oci_choices choices;
	int rc;

	if (depth == OCI_INDEX_DEPTH_MAX)
		return error_set(err, ELOOP,
				 "more than %d indexes in each other",
				 OCI_INDEX_DEPTH_MAX);
	rc = oci_index_choices(index->body.data, index->body.len, s->platform,
			       &choices, &s->others, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < choices.n; i++) {
		rc = try_choice(s, &choices.list[i], depth, ret, err);
		if (rc <= 0)
			return rc;
	}
	return 1;
}

int oci_index_find(struct oci_store *store, const struct oci_manifest *index,
		   const char *platform, struct digest *ret, struct error *err)
{
	char own[OCI_PLATFORM_MAX];
	struct index_search s = {
		.store = store,
		.platform = platform ? platform : oci_own_platform(own),
		.others = { .limit = ERROR_MSG_MAX / 2 },
	};
	int rc = find_choice(&s, index, 0, ret, err);

	if (rc == 1)
		rc = error_set(err, ENOENT,
			       "the index has no image for %s, but for: %s",
			       s.platform,
			       s.others.len ? s.others.data : "nothing");
	buf_fini(&s.others);
	return rc;
}

int oci_resolve(struct oci_store *s, const struct oci_ref *ref,
		const char *platform, struct digest *ret, struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	char text[DIGEST_STR_MAX];
	int rc = oci_get_manifest(s, oci_ref_name(ref, text), &m, err);

	if (rc < 0)
		return rc;
	*ret = m.digest;
	if (oci_media_type_is_index(m.media_type))
		rc = oci_index_find(s, &m, platform, ret, err);
	else if (platform)
		rc = oci_check_platform(s, &m, platform, err);
	return rc;
}
