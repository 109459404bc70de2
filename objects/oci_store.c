// SPDX-License-Identifier: Apache-2.0
/* Entry points of the stores: what every kind would otherwise repeat. */
#include "objects/oci_store.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/fs.h"

void oci_store_free(struct oci_store *s)
{
	if (s)
		s->ops->free(s);
}

/* Check the manifest that a store gave, whatever kind it is. */
static int check_manifest(const struct oci_manifest *m, const char *ref,
			  struct error *err)
{
	char want[DIGEST_STR_MAX], have[DIGEST_STR_MAX];
	struct digest d;
	int rc = digest_of(m->body.data, m->body.len, &d);

	if (rc < 0)
		return error_set(err, -rc, "hash the manifest");
	digest_format(&d, have);
	digest_format(&m->digest, want);
	if (!digest_equal(&d, &m->digest))
		return error_set(err, EBADMSG,
				 "manifest '%s' is damaged: it should be %s "
				 "but is %s",
				 ref ? ref : "", want, have);
	return 0;
}

int oci_store_with_pace(struct oci_store *s, struct pace *pace,
			struct oci_store **ret, struct error *err)
{
	if (!s->ops->with_pace)
		return error_set(err, ENOTSUP, "a %s has no requests",
				 s->ops->name);
	return s->ops->with_pace(s, pace, ret, err);
}

int oci_get_manifest(struct oci_store *s, const char *ref,
		     struct oci_manifest *ret, struct error *err)
{
	struct oci_manifest m = { .body = { .limit = OCI_MANIFEST_MAX } };
	int rc = s->ops->get_manifest(s, ref, &m, err);

	if (rc == 0)
		rc = check_manifest(&m, ref, err);
	if (rc < 0) {
		oci_manifest_fini(&m);
		return rc;
	}
	*ret = m;
	return 0;
}

const char *oci_ref_name(const struct oci_ref *r, char text[DIGEST_STR_MAX])
{
	if (!r->has_digest)
		return r->tag;
	digest_format(&r->digest, text);
	return text;
}

/* A manifest does not say what its image runs on, but its config does. */
int oci_check_platform(struct oci_store *s, const struct oci_manifest *m,
		       const char *platform, struct error *err)
{
	AUTO_FINI(oci_image) image = { .n_layers = 0 };
	AUTO_BUF config = BUF_INIT;
	int rc = oci_image_parse(m->body.data, m->body.len, &image, err);

	if (rc == 0)
		rc = oci_get_blob(s, &image.config.digest, image.config.size,
				  OCI_CONFIG_MAX, &config, err);
	if (rc == 0)
		rc = oci_config_check_platform(config.data, config.len,
					       platform, err);
	return rc;
}

int oci_open_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		  struct source **ret, struct error *err)
{
	return s->ops->open_blob(s, d, size, ret, err);
}

static int get_whole(struct oci_store *s, const struct digest *d, uint64_t size,
		     const char *name, struct buf *ret, struct error *err)
{
	AUTO(source) src = NULL;
	int rc;

	if (s->ops->get_blob)
		return s->ops->get_blob(s, d, size, ret, err);
	rc = oci_open_blob(s, d, size, &src, err);
	if (rc < 0)
		return rc;
	if (buf_reserve(ret, size) < 0)
		return error_nomem(err);
	rc = source_read_buf(src, 0, ret->data, size, err);
	if (rc < 0)
		return error_wrap(err, rc, "blob %s", name);
	ret->len = size;
	return 0;
}

int oci_get_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		 size_t max, struct buf *ret, struct error *err)
{
	AUTO_BUF whole = BUF_INIT;
	char name[DIGEST_STR_MAX];
	struct digest have;
	int rc;

	digest_format(d, name);
	if (size > max)
		return error_set(err, EFBIG,
				 "blob %s has %llu bytes, more than the %zu "
				 "that are allowed here",
				 name, (unsigned long long)size, max);
	rc = get_whole(s, d, size, name, &whole, err);
	if (rc < 0)
		return rc;
	if (digest_of(whole.data, whole.len, &have) < 0)
		return error_nomem(err);
	if (!digest_equal(&have, d))
		return error_set(err, EBADMSG,
				 "blob %s is damaged: its bytes have another "
				 "digest",
				 name);
	return buf_append(ret, whole.data, whole.len) < 0 ? error_nomem(err)
							  : 0;
}

int oci_get_config(struct oci_store *s, const struct oci_image *m, size_t max,
		   struct buf *ret, struct error *err)
{
	if (m->config_data.len == 0 || m->config_data.len > max)
		return oci_get_blob(s, &m->config.digest, m->config.size, max,
				    ret, err);
	return buf_append(ret, m->config_data.data, m->config_data.len) < 0
		       ? error_nomem(err)
		       : 0;
}

int oci_has_blob(struct oci_store *s, const struct digest *d, bool *ret,
		 struct error *err)
{
	uint64_t size;

	return s->ops->find_blob(s, d, ret, &size, err);
}

int oci_find_blob(struct oci_store *s, const struct digest *d, bool *ret,
		  uint64_t *ret_size, struct error *err)
{
	return s->ops->find_blob(s, d, ret, ret_size, err);
}

int oci_authorization(struct oci_store *s, const struct digest *d,
		      struct pace *pace, char **ret, struct error *err)
{
	*ret = NULL;
	if (!s->ops->authorization)
		return 0;
	return s->ops->authorization(s, d, pace, ret, err);
}

int oci_put_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		 int fd, struct oci_progress *p, struct error *err)
{
	return s->ops->put_blob(s, d, size, fd, p, err);
}

int oci_put_bytes(struct oci_store *s, const void *data, size_t len,
		  struct digest *ret, struct error *err)
{
	AUTO_CLOSE int fd = memfd_create("blob", MFD_CLOEXEC);
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "memfd_create");
	rc = fs_pwrite_full(fd, data, len, 0);
	if (rc == 0)
		rc = digest_of(data, len, ret);
	if (rc < 0)
		return error_errno(err, -rc, "blob");
	return oci_put_blob(s, ret, len, fd, NULL, err);
}

int oci_put_manifest(struct oci_store *s, const char *ref,
		     const char *media_type, const void *body, size_t len,
		     struct error *err)
{
	struct digest named, have;

	if (len > OCI_MANIFEST_MAX)
		return error_set(err, EFBIG,
				 "a manifest of %zu bytes is larger than "
				 "registries take",
				 len);
	if (ref && digest_parse(ref, &named, NULL) == 0 &&
	    (digest_of(body, len, &have) < 0 || !digest_equal(&named, &have)))
		return error_set(err, EINVAL,
				 "the manifest has another digest than %s",
				 ref);
	return s->ops->put_manifest(s, ref, media_type, body, len, err);
}

int oci_remove_manifest(struct oci_store *s, const struct digest *d,
			struct error *err)
{
	return s->ops->remove_manifest(s, d, err);
}

int oci_list_tags(struct oci_store *s, size_t max, char ***ret, size_t *ret_n,
		  struct error *err)
{
	return s->ops->list_tags(s, max, ret, ret_n, err);
}

int oci_list_referrers(struct oci_store *s, const struct digest *d,
		       const char *artifact_type, struct digest **ret,
		       size_t *ret_n, struct error *err)
{
	return s->ops->list_referrers(s, d, artifact_type, ret, ret_n, err);
}

int oci_list_noted(struct oci_store *s, const struct oci_referrers_query *q,
		   struct oci_referrers *ret, struct error *err)
{
	struct oci_referrers r = { .n = 0 };
	int rc;

	if (s->ops->list_noted)
		return s->ops->list_noted(s, q, ret, err);
	rc = oci_list_referrers(s, q->subject, q->artifact_type, &r.digests,
				&r.n, err);
	if (rc == 0)
		*ret = r;
	return rc;
}

void oci_referrers_fini(struct oci_referrers *r)
{
	for (size_t i = 0; r->notes && i < r->n; i++)
		free(r->notes[i]);
	free(r->notes);
	free(r->digests);
	*r = (struct oci_referrers){ .n = 0 };
}
