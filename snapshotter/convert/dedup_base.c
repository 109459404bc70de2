// SPDX-License-Identifier: Apache-2.0
/*
 * The blocks that a new image is deduplicated against: those of artifacts in
 * its repository. docs/formats/artifact.md, "Sharing with earlier images".
 */
#include "snapshotter/convert/dedup_base.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "image/artifact/artifact.h"
#include "image/writer/block_table.h"
#include "recorder/recorder.h"
#include "snapshotter/convert/convert_priv.h"
#include "snapshotter/convert/index.h"

/* Does the store have the pack, with the size in the artifact?  Only readers of the new image
 * would notice that a block's bytes are missing. */
enum presence { PRESENCE_UNKNOWN, PRESENCE_YES, PRESENCE_NO };

struct dedup_base {
	struct dedup_index index;
	struct oci_store *store;
	const struct sign_terms *terms; /* NULL: the conversion signs nothing */
	struct trust_keys *own_keys;    /* the key of `terms` alone */
	struct digest *artifacts;
	size_t n_artifacts;
	struct block_table *blocks;
	enum presence *presence; /* for each pack, from one request */
	/* the pack that was read last, or NULL */
	struct block_source *open_pack;
	uint32_t open_pack_index;
};

/* Is the failure one of the artifact alone, not of the store? */
static bool is_artifact_fault(int rc)
{
	return rc == -ENOENT || rc == -EBADMSG || rc == -EINVAL ||
	       rc == -ENOTSUP || rc == -EFBIG;
}

/* ------------------------------------------------ --- choosing artifacts --- */

static void add_artifact(struct dedup_base *base, const struct digest *d)
{
	for (size_t i = 0; i < base->n_artifacts; i++)
		if (digest_equal(&base->artifacts[i], d))
			return;
	if (base->n_artifacts < DEDUP_BASE_ARTIFACTS_MAX)
		base->artifacts[base->n_artifacts++] = *d;
}

static int add_of_image(struct dedup_base *base, const struct digest *image,
			struct error *err)
{
	AUTO_FREE struct digest *list = NULL;
	size_t n = 0;
	int rc = oci_list_referrers(base->store, image, ARTIFACT_TYPE, &list,
				    &n, err);

	if (rc < 0)
		return is_artifact_fault(rc) ? 0 : rc;
	for (size_t i = 0; i < n; i++)
		add_artifact(base, &list[i]);
	return 0;
}

/* Add the artifacts of an index's images. */
static int add_of_index(struct dedup_base *base, const struct oci_manifest *m,
			struct error *err)
{
	AUTO_FREE struct index_entry *list = NULL;
	size_t n = 0;
	int rc = index_images(base->store, m, &list, &n, err);

	if (rc < 0)
		return is_artifact_fault(rc) ? 0 : rc;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_of_image(base, &list[i].digest, err);
	return rc;
}

/* Add the image, index or (form F1) artifact that a tag names. */
static int add_of_tag(struct dedup_base *base, const char *tag,
		      struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	struct oci_image image;
	int rc = oci_get_manifest(base->store, tag, &m, err);

	if (rc < 0)
		return is_artifact_fault(rc) ? 0 : rc;
	if (oci_media_type_is_index(m.media_type)) {
		rc = add_of_index(base, &m, err);
	} else if (oci_image_parse(m.body.data, m.body.len, &image, err) == 0) {
		if (strcmp(image.artifact_type, ARTIFACT_TYPE) == 0)
			add_artifact(base, &m.digest);
		else
			rc = add_of_image(base, &m.digest, err);
		oci_image_fini(&image);
	}
	return rc;
}

/* May the tag lead to an artifact?  Fallback tags of referrers are found by their image, and
 * traces have no blocks. */
static bool may_lead_to_blocks(const char *tag)
{
	if (strncmp(tag, TRACE_TAG_PREFIX, strlen(TRACE_TAG_PREFIX)) == 0)
		return false;
	return strncmp(tag, "sha256-", 7) != 0 || strchr(tag, '.');
}

static int list_artifacts(struct dedup_base *base, struct error *err)
{
	char **tags = NULL;
	size_t n = 0;
	int rc =
		oci_list_tags(base->store, DEDUP_BASE_TAGS_MAX, &tags, &n, err);

	/* Some registries list no tags, or not for everybody. */
	if (rc == -ENOENT || rc == -EACCES || rc == -ENOTSUP)
		return 0;
	if (rc < 0)
		return rc;
	base->artifacts =
		calloc(DEDUP_BASE_ARTIFACTS_MAX, sizeof(*base->artifacts));
	if (!base->artifacts)
		rc = error_nomem(err);
	for (size_t i = n;
	     rc == 0 && i > 0 && base->n_artifacts < DEDUP_BASE_ARTIFACTS_MAX;
	     i--)
		if (may_lead_to_blocks(tags[i - 1]))
			rc = add_of_tag(base, tags[i - 1], err);
	for (size_t i = 0; i < n; i++)
		free(tags[i]);
	free(tags);
	/* Sort by digest, so that the order of tags does not matter. */
	if (rc == 0)
		qsort(base->artifacts, base->n_artifacts,
		      sizeof(*base->artifacts), compare_digests);
	return rc;
}

/* --------------------------------------------- --- blocks of the artifacts --- */

/* Did our key sign the artifact?  If that cannot be found out, no: its blocks are read and
 * checked. */
static bool is_own(const struct dedup_base *base, const struct artifact *a)
{
	char repository[TRUST_PATTERN_MAX + 2];
	struct trust_query q = { .artifact = &a->digest,
				 .subject = &a->image,
				 .repository = repository,
				 .claim = TRUST_CLAIM_SIGNED };
	struct trust_result r;

	if (!base->own_keys)
		return false;
	sign_example(base->terms->repository, repository);
	return trust_find(base->store, base->own_keys, &q, (int64_t)time(NULL),
			  NULL, &r, NULL, NULL) == 0;
}

static int load_artifact(struct dedup_base *base, const struct digest *d,
			 struct error *err)
{
	struct artifact a;
	int rc = artifact_get(base->store, d, &a, err);

	if (rc < 0)
		return is_artifact_fault(rc) ? 0 : rc;
	rc = block_table_add(base->blocks, base->store, &a, is_own(base, &a),
			     err);
	artifact_fini(&a);
	return is_artifact_fault(rc) ? 0 : rc;
}

/* --------------------------------------------------------------- interface --- */

static bool is_present(struct dedup_base *base, uint32_t pack)
{
	const struct pack *p = block_table_pack(base->blocks, pack);
	enum presence *known = &base->presence[pack];

	if (*known == PRESENCE_UNKNOWN) {
		uint64_t size = 0;
		bool has = false;

		*known = oci_find_blob(base->store, &p->digest, &has, &size,
				       NULL) == 0 &&
					 has && size == p->size
				 ? PRESENCE_YES
				 : PRESENCE_NO;
	}
	return *known == PRESENCE_YES;
}

/* Open a pack and close the last one: blocks are asked for roughly in the order of the packs. */
static int load_pack(struct dedup_base *base, uint32_t pack, struct error *err)
{
	const struct pack *p = block_table_pack(base->blocks, pack);
	struct source *stored;
	int rc;

	if (base->open_pack && base->open_pack_index == pack)
		return 0;
	block_source_free(steal_ptr(&base->open_pack));
	rc = oci_open_blob(base->store, &p->digest, p->size, &stored, err);
	if (rc == 0)
		rc = verify_source_new(stored, &base->open_pack, err);
	base->open_pack_index = pack;
	return rc;
}

static int dedup_base_drop(struct block_sink *sink, size_t index,
			   const void *data, struct error *err)
{
	return 0;
}

/* Does the pack have the block's bytes where the map says?  If not, for whatever reason, the
 * block is stored again. */
static bool has_right_bytes(struct dedup_base *base, const struct block *b)
{
	struct block_req req = { .blocks = b,
				 .n_blocks = 1,
				 .priority = SOURCE_COLD };
	struct block_sink sink = { .put = dedup_base_drop };
	struct error why = ERROR_INIT;

	return load_pack(base, b->pack, &why) == 0 &&
	       block_source_read(base->open_pack, &req, &sink, &why) == 0;
}

static bool dedup_base_find(struct dedup_index *x, const struct digest *d,
			    struct block *ret)
{
	struct dedup_base *base = container_of(x, struct dedup_base, index);
	struct block b;
	bool is_own;

	if (!block_table_find(base->blocks, d, &b, &is_own) ||
	    !is_present(base, b.pack) ||
	    (!is_own && !has_right_bytes(base, &b)))
		return false;
	*ret = b;
	return true;
}

static void dedup_base_pack(struct dedup_index *x, uint32_t pack,
			    struct pack *ret)
{
	struct dedup_base *base = container_of(x, struct dedup_base, index);

	*ret = *block_table_pack(base->blocks, pack);
}

static int load_artifacts(struct dedup_base *base, struct error *err)
{
	int rc = block_table_new(&base->blocks, err);

	if (rc == 0)
		rc = list_artifacts(base, err);
	for (size_t i = 0; rc == 0 && i < base->n_artifacts; i++)
		rc = load_artifact(base, &base->artifacts[i], err);
	if (rc < 0)
		return rc;
	base->presence = calloc(block_table_n_packs(base->blocks) + 1,
				sizeof(*base->presence));
	return base->presence ? 0 : error_nomem(err);
}

int dedup_base_load(struct oci_store *store, const struct sign_terms *own,
		    struct dedup_base **ret, struct error *err)
{
	AUTO(dedup_base) base = calloc(1, sizeof(*base));
	int rc = 0;

	if (!base)
		return error_nomem(err);
	base->store = store;
	base->index.find = dedup_base_find;
	base->index.pack = dedup_base_pack;
	base->terms = own;
	if (own)
		rc = sign_own_list(own->key, &base->own_keys, err);
	if (rc == 0)
		rc = load_artifacts(base, err);
	if (rc < 0)
		return error_wrap(err, rc, "look for earlier images");
	*ret = steal_ptr(&base);
	return 0;
}

void dedup_base_free(struct dedup_base *base)
{
	if (!base)
		return;
	block_source_free(base->open_pack);
	trust_keys_free(base->own_keys);
	free(base->artifacts);
	block_table_free(base->blocks);
	free(base->presence);
	free(base);
}

struct dedup_index *dedup_base_index(struct dedup_base *base)
{
	return &base->index;
}
