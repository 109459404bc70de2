// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/earlier.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "recorder/recorder.h"
#include "snapshotter/artifact.h"
#include "snapshotter/convert/index.h"

struct known {
	struct digest digest;
	uint64_t poff;
	uint32_t csize, usize;
	uint32_t pack;
	enum block_codec codec;
};

/* Is the pack in the store, with the size that an artifact says?  A block whose
 * bytes are not there would be noticed by the image's readers only. */
enum presence { PRESENCE_UNKNOWN, PRESENCE_YES, PRESENCE_NO };

struct known_pack {
	struct pack pack;
	enum presence presence; /* as asked once */
};

struct earlier {
	struct pack_index index;
	struct oci_store *store;
	struct digest *artifacts;
	size_t n_artifacts;
	struct known *blocks;
	size_t n_blocks, cap_blocks;
	uint32_t *table; /* block + 1, open addressing, at most half full */
	size_t cap_table;
	struct known_pack *packs;
	size_t n_packs;
};

/* A failure of one artifact that is no failure of the store. */
static bool is_passed_over(int rc)
{
	return rc == -ENOENT || rc == -EBADMSG || rc == -EINVAL ||
	       rc == -ENOTSUP || rc == -EFBIG;
}

/* ------------------------------------------------------------ which ones --- */

static void add_artifact(struct earlier *e, const struct digest *d)
{
	for (size_t i = 0; i < e->n_artifacts; i++)
		if (digest_equal(&e->artifacts[i], d))
			return;
	if (e->n_artifacts < EARLIER_ARTIFACTS_MAX)
		e->artifacts[e->n_artifacts++] = *d;
}

static int add_of_image(struct earlier *e, const struct digest *image,
			struct error *err)
{
	AUTO_FREE struct digest *list = NULL;
	size_t n = 0;
	int rc = oci_list_referrers(e->store, image, ARTIFACT_TYPE, &list, &n,
				    err);

	if (rc < 0)
		return is_passed_over(rc) ? 0 : rc;
	for (size_t i = 0; i < n; i++)
		add_artifact(e, &list[i]);
	return 0;
}

/* Artifacts of the images of an index. */
static int add_of_index(struct earlier *e, const struct oci_manifest *m,
			struct error *err)
{
	AUTO_FREE struct index_entry *list = NULL;
	size_t n = 0;
	int rc = index_parse(m->body.data, m->body.len, &list, &n, err);

	if (rc < 0)
		return is_passed_over(rc) ? 0 : rc;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_of_image(e, &list[i].digest, err);
	return rc;
}

/* What a tag names: an image, an index, or (form F1) an artifact. */
static int add_of_tag(struct earlier *e, const char *tag, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image;
	int rc = oci_get_manifest(e->store, tag, &m, err);

	if (rc < 0)
		return is_passed_over(rc) ? 0 : rc;
	if (oci_media_type_is_index(m.media_type)) {
		rc = add_of_index(e, &m, err);
	} else if (oci_image_parse(m.body.data, m.body.len, &image, err) == 0) {
		if (strcmp(image.artifact_type, ARTIFACT_TYPE) == 0)
			add_artifact(e, &m.digest);
		else
			rc = add_of_image(e, &m.digest, err);
		oci_image_fini(&image);
	}
	oci_manifest_fini(&m);
	return rc;
}

static int compare_digests(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct digest));
}

/* The tag fallback of referrers is found by its image, traces have none. */
static bool may_lead_to_blocks(const char *tag)
{
	if (strncmp(tag, TRACE_TAG_PREFIX, strlen(TRACE_TAG_PREFIX)) == 0)
		return false;
	return strncmp(tag, "sha256-", 7) != 0 || strchr(tag, '.');
}

static int list_artifacts(struct earlier *e, struct error *err)
{
	char **tags = NULL;
	size_t n = 0;
	int rc = oci_list_tags(e->store, EARLIER_TAGS_MAX, &tags, &n, err);

	/* Not every registry lists tags, or for everybody. */
	if (rc == -ENOENT || rc == -EACCES || rc == -ENOTSUP)
		return 0;
	if (rc < 0)
		return rc;
	e->artifacts = calloc(EARLIER_ARTIFACTS_MAX, sizeof(*e->artifacts));
	if (!e->artifacts)
		rc = error_nomem(err);
	for (size_t i = n;
	     rc == 0 && i > 0 && e->n_artifacts < EARLIER_ARTIFACTS_MAX; i--)
		if (may_lead_to_blocks(tags[i - 1]))
			rc = add_of_tag(e, tags[i - 1], err);
	for (size_t i = 0; i < n; i++)
		free(tags[i]);
	free(tags);
	/* By digest, so that the order of tags decides nothing. */
	if (rc == 0)
		qsort(e->artifacts, e->n_artifacts, sizeof(*e->artifacts),
		      compare_digests);
	return rc;
}

/* ------------------------------------------------------------ their blocks --- */

static size_t table_slot(const struct earlier *e, const uint32_t *table,
			 size_t cap, const struct digest *d)
{
	size_t at = (size_t)get_le64(d->b) & (cap - 1);

	while (table[at] && !digest_equal(&e->blocks[table[at] - 1].digest, d))
		at = (at + 1) & (cap - 1);
	return at;
}

static int grow(struct earlier *e, struct error *err)
{
	if (e->n_blocks == e->cap_blocks) {
		size_t cap = e->cap_blocks ? e->cap_blocks * 2 : 1024;
		struct known *p = realloc(e->blocks, cap * sizeof(*p));

		if (!p)
			return error_nomem(err);
		e->blocks = p;
		e->cap_blocks = cap;
	}
	if ((e->n_blocks + 1) * 2 > e->cap_table) {
		size_t cap = e->cap_table ? e->cap_table * 2 : 4096;
		uint32_t *t = calloc(cap, sizeof(*t));

		if (!t)
			return error_nomem(err);
		for (size_t i = 0; i < e->n_blocks; i++)
			t[table_slot(e, t, cap, &e->blocks[i].digest)] =
				(uint32_t)i + 1;
		free(e->table);
		e->table = t;
		e->cap_table = cap;
	}
	return 0;
}

/* Number of a pack among those of all artifacts. */
static int add_pack(struct earlier *e, const struct pack *p, uint32_t *ret,
		    struct error *err)
{
	struct known_pack *packs;

	for (size_t i = 0; i < e->n_packs; i++) {
		/* Of several sizes at most one is right. */
		if (digest_equal(&e->packs[i].pack.digest, &p->digest) &&
		    e->packs[i].pack.size == p->size) {
			*ret = (uint32_t)i;
			return 0;
		}
	}
	packs = realloc(e->packs, (e->n_packs + 1) * sizeof(*packs));
	if (!packs)
		return error_nomem(err);
	packs[e->n_packs] = (struct known_pack){ .pack = *p };
	*ret = (uint32_t)e->n_packs++;
	e->packs = packs;
	return 0;
}

static int add_blocks(struct earlier *e, const struct blockmap *m,
		      struct error *err)
{
	AUTO_FREE uint32_t *packs = calloc(m->n_packs + 1, sizeof(*packs));
	int rc = packs ? 0 : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < m->n_packs; i++) {
		struct pack p;

		blockmap_pack(m, i, &p);
		rc = add_pack(e, &p, &packs[i], err);
	}
	for (size_t i = 0;
	     rc == 0 && i < m->n_blocks && e->n_blocks < EARLIER_BLOCKS_MAX;
	     i++) {
		struct block b;
		size_t at;

		rc = grow(e, err);
		if (rc < 0)
			break;
		blockmap_block(m, i, &b);
		at = table_slot(e, e->table, e->cap_table, &b.digest);
		if (e->table[at])
			continue;
		e->blocks[e->n_blocks++] = (struct known){
			.digest = b.digest,
			.poff = b.poff,
			.csize = b.csize,
			.usize = b.usize,
			.pack = packs[b.pack],
			.codec = b.codec,
		};
		e->table[at] = (uint32_t)e->n_blocks;
	}
	return rc;
}

static int unpack_map(const struct artifact *a, const struct buf *stored,
		      void **ret, struct error *err)
{
	AUTO_FREE uint8_t *data = malloc(a->map_size + 1);
	struct digest d;
	size_t n;

	if (!data)
		return error_nomem(err);
	n = ZSTD_decompress(data, a->map_size, stored->data, stored->len);
	if (ZSTD_isError(n) || n != a->map_size || digest_of(data, n, &d) < 0 ||
	    !digest_equal(&d, &a->map_raw))
		return error_set(err, EBADMSG, "damaged block map");
	*ret = steal_ptr(&data);
	return 0;
}

static int load_map(struct earlier *e, const struct artifact *a,
		    struct error *err)
{
	AUTO_BUF stored = BUF_INIT;
	AUTO_FREE void *data = NULL;
	struct blockmap map;
	int rc;

	if (a->map_size > EARLIER_MAP_MAX || a->map.size > EARLIER_MAP_MAX)
		return error_set(err, EFBIG, "a large block map");
	rc = oci_get_blob(e->store, &a->map.digest, a->map.size,
			  EARLIER_MAP_MAX, &stored, err);
	if (rc == 0)
		rc = unpack_map(a, &stored, &data, err);
	if (rc == 0)
		rc = blockmap_open(data, a->map_size, &map, err);
	return rc < 0 ? rc : add_blocks(e, &map, err);
}

static int load_artifact(struct earlier *e, const struct digest *d,
			 struct error *err)
{
	struct artifact a;
	int rc = artifact_get(e->store, d, &a, err);

	if (rc < 0)
		return is_passed_over(rc) ? 0 : rc;
	rc = load_map(e, &a, err);
	artifact_fini(&a);
	return is_passed_over(rc) ? 0 : rc;
}

/* --------------------------------------------------------------- interface --- */

static bool is_present(struct earlier *e, struct known_pack *p)
{
	if (p->presence == PRESENCE_UNKNOWN) {
		uint64_t size = 0;
		bool has = false;

		p->presence = oci_find_blob(e->store, &p->pack.digest, &has,
					    &size, NULL) == 0 &&
					      has && size == p->pack.size
				      ? PRESENCE_YES
				      : PRESENCE_NO;
	}
	return p->presence == PRESENCE_YES;
}

static bool find(struct pack_index *x, const struct digest *d,
		 struct block *ret)
{
	struct earlier *e = container_of(x, struct earlier, index);
	const struct known *k;
	size_t at;

	if (e->n_blocks == 0)
		return false;
	at = table_slot(e, e->table, e->cap_table, d);
	if (e->table[at] == 0)
		return false;
	k = &e->blocks[e->table[at] - 1];
	if (!is_present(e, &e->packs[k->pack]))
		return false;
	*ret = (struct block){ .digest = k->digest,
			       .poff = k->poff,
			       .csize = k->csize,
			       .usize = k->usize,
			       .pack = k->pack,
			       .codec = k->codec };
	return true;
}

static void get_pack(struct pack_index *x, uint32_t pack, struct pack *ret)
{
	struct earlier *e = container_of(x, struct earlier, index);

	*ret = e->packs[pack].pack;
}

int earlier_load(struct oci_store *store, struct earlier **ret,
		 struct error *err)
{
	AUTO(earlier) e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return error_nomem(err);
	e->store = store;
	e->index.find = find;
	e->index.pack = get_pack;
	rc = list_artifacts(e, err);
	for (size_t i = 0; rc == 0 && i < e->n_artifacts; i++)
		rc = load_artifact(e, &e->artifacts[i], err);
	if (rc < 0)
		return error_wrap(err, rc, "look for earlier images");
	*ret = steal_ptr(&e);
	return 0;
}

void earlier_free(struct earlier *e)
{
	if (!e)
		return;
	free(e->artifacts);
	free(e->blocks);
	free(e->table);
	free(e->packs);
	free(e);
}

struct pack_index *earlier_index(struct earlier *e)
{
	return &e->index;
}
