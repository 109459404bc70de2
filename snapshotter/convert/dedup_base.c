// SPDX-License-Identifier: Apache-2.0
/*
 * What a new image is deduplicated against: the blocks of artifacts in its
 * repository.  docs/formats/artifact.md, "Sharing with earlier images".
 */
#include "snapshotter/convert/dedup_base.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <zstd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "image/artifact/artifact.h"
#include "recorder/recorder.h"
#include "snapshotter/convert/convert_priv.h"
#include "snapshotter/convert/index.h"

struct known_block {
	struct digest digest;
	uint64_t poff;
	uint32_t csize, usize;
	uint32_t pack;
	enum block_codec codec;
	bool is_own; /* a signed map of ours says so */
};

/* Is the pack in the store, with the size that an artifact says?  A block whose
 * bytes are not there would be noticed by the image's readers only. */
enum presence { PRESENCE_UNKNOWN, PRESENCE_YES, PRESENCE_NO };

struct known_pack {
	struct pack pack;
	enum presence presence; /* as asked once */
};

struct dedup_base {
	struct dedup_index index;
	struct oci_store *store;
	const struct sign_terms *terms; /* NULL: nothing is signed */
	struct trust_keys *own_keys;    /* the key of `terms` alone */
	struct digest *artifacts;
	size_t n_artifacts;
	struct known_block *blocks;
	size_t n_blocks, cap_blocks;
	uint32_t *table; /* block + 1, open addressing, at most half full */
	size_t cap_table;
	struct known_pack *packs;
	size_t n_packs, cap_packs;
	uint32_t *pack_table;           /* as `table`, of twice cap_packs */
	uint64_t seed;                  /* of hash_of() */
	struct block_source *open_pack; /* that was read last, or NULL */
	uint32_t open_pack_index;
};

/* A failure of one artifact that is no failure of the store. */
static bool is_passed_over(int rc)
{
	return rc == -ENOENT || rc == -EBADMSG || rc == -EINVAL ||
	       rc == -ENOTSUP || rc == -EFBIG;
}

/* ------------------------------------------------------------ which ones --- */

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
		return is_passed_over(rc) ? 0 : rc;
	for (size_t i = 0; i < n; i++)
		add_artifact(base, &list[i]);
	return 0;
}

/* Artifacts of the images of an index. */
static int add_of_index(struct dedup_base *base, const struct oci_manifest *m,
			struct error *err)
{
	AUTO_FREE struct index_entry *list = NULL;
	size_t n = 0;
	int rc = index_images(base->store, m, &list, &n, err);

	if (rc < 0)
		return is_passed_over(rc) ? 0 : rc;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_of_image(base, &list[i].digest, err);
	return rc;
}

/* What a tag names: an image, an index, or (form F1) an artifact. */
static int add_of_tag(struct dedup_base *base, const char *tag,
		      struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image;
	int rc = oci_get_manifest(base->store, tag, &m, err);

	if (rc < 0)
		return is_passed_over(rc) ? 0 : rc;
	if (oci_media_type_is_index(m.media_type)) {
		rc = add_of_index(base, &m, err);
	} else if (oci_image_parse(m.body.data, m.body.len, &image, err) == 0) {
		if (strcmp(image.artifact_type, ARTIFACT_TYPE) == 0)
			add_artifact(base, &m.digest);
		else
			rc = add_of_image(base, &m.digest, err);
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

static int list_artifacts(struct dedup_base *base, struct error *err)
{
	char **tags = NULL;
	size_t n = 0;
	int rc =
		oci_list_tags(base->store, DEDUP_BASE_TAGS_MAX, &tags, &n, err);

	/* Not every registry lists tags, or for everybody. */
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
	/* By digest, so that the order of tags decides nothing. */
	if (rc == 0)
		qsort(base->artifacts, base->n_artifacts,
		      sizeof(*base->artifacts), compare_digests);
	return rc;
}

/* ------------------------------------------------------------ their blocks --- */

/* Keyed: whoever may push chooses digests, also of what is not there. */
static size_t hash_of(const struct dedup_base *base, const struct digest *d)
{
	uint64_t h = base->seed;

	for (size_t i = 0; i < sizeof(d->b); i += 8) {
		h = (h ^ get_le64(d->b + i)) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return (size_t)h;
}

static size_t table_slot(const struct dedup_base *base, const uint32_t *table,
			 size_t cap, const struct digest *d)
{
	size_t at = hash_of(base, d) & (cap - 1);

	while (table[at] &&
	       !digest_equal(&base->blocks[table[at] - 1].digest, d))
		at = (at + 1) & (cap - 1);
	return at;
}

static int grow(struct dedup_base *base, struct error *err)
{
	if (array_grow(&base->blocks, base->n_blocks, &base->cap_blocks, 1024) <
	    0)
		return error_nomem(err);
	if ((base->n_blocks + 1) * 2 > base->cap_table) {
		size_t cap = base->cap_table ? base->cap_table * 2 : 4096;
		uint32_t *t = calloc(cap, sizeof(*t));

		if (!t)
			return error_nomem(err);
		for (size_t i = 0; i < base->n_blocks; i++)
			t[table_slot(base, t, cap, &base->blocks[i].digest)] =
				(uint32_t)i + 1;
		free(base->table);
		base->table = t;
		base->cap_table = cap;
	}
	return 0;
}

static size_t pack_slot(const struct dedup_base *base, const uint32_t *table,
			size_t cap, const struct pack *p)
{
	size_t at = hash_of(base, &p->digest) & (cap - 1);

	for (; table[at]; at = (at + 1) & (cap - 1)) {
		const struct pack *have = &base->packs[table[at] - 1].pack;

		/* Of several sizes at most one is right. */
		if (digest_equal(&have->digest, &p->digest) &&
		    have->size == p->size)
			break;
	}
	return at;
}

static int grow_packs(struct dedup_base *base, struct error *err)
{
	size_t cap = base->cap_packs ? base->cap_packs * 2 : 64;
	struct known_pack *v;
	uint32_t *t;

	if (base->n_packs < base->cap_packs)
		return 0;
	v = realloc(base->packs, cap * sizeof(*v));
	if (!v)
		return error_nomem(err);
	base->packs = v;
	t = calloc(cap * 2, sizeof(*t));
	if (!t)
		return error_nomem(err);
	for (size_t i = 0; i < base->n_packs; i++)
		t[pack_slot(base, t, cap * 2, &v[i].pack)] = (uint32_t)i + 1;
	free(base->pack_table);
	base->pack_table = t;
	base->cap_packs = cap;
	return 0;
}

/* Number of a pack among those of all artifacts. */
static int add_pack(struct dedup_base *base, const struct pack *p,
		    uint32_t *ret, struct error *err)
{
	int rc = grow_packs(base, err);
	size_t at;

	if (rc < 0)
		return rc;
	at = pack_slot(base, base->pack_table, base->cap_packs * 2, p);
	if (!base->pack_table[at]) {
		base->packs[base->n_packs++] =
			(struct known_pack){ .pack = *p };
		base->pack_table[at] = (uint32_t)base->n_packs;
	}
	*ret = base->pack_table[at] - 1;
	return 0;
}

/* A block of a map; of several places the one that we answer for is taken. */
static int add_block(struct dedup_base *base, const struct known_block *k,
		     struct error *err)
{
	int rc = grow(base, err);
	size_t at;

	if (rc < 0)
		return rc;
	at = table_slot(base, base->table, base->cap_table, &k->digest);
	if (base->table[at] == 0) {
		base->blocks[base->n_blocks++] = *k;
		base->table[at] = (uint32_t)base->n_blocks;
	} else if (k->is_own && !base->blocks[base->table[at] - 1].is_own) {
		base->blocks[base->table[at] - 1] = *k;
	}
	return 0;
}

static int add_blocks(struct dedup_base *base, const struct blockmap *m,
		      bool is_own, struct error *err)
{
	AUTO_FREE uint32_t *packs = calloc(m->n_packs + 1, sizeof(*packs));
	int rc = packs ? 0 : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < m->n_packs; i++) {
		struct pack p;

		blockmap_pack(m, i, &p);
		rc = add_pack(base, &p, &packs[i], err);
	}
	for (size_t i = 0; rc == 0 && i < m->n_blocks &&
			   base->n_blocks < DEDUP_BASE_BLOCKS_MAX;
	     i++) {
		struct known_block k = { .is_own = is_own };
		struct block b;

		blockmap_block(m, i, &b);
		k.digest = b.digest;
		k.poff = b.poff;
		k.csize = b.csize;
		k.usize = b.usize;
		k.pack = packs[b.pack];
		k.codec = b.codec;
		rc = add_block(base, &k, err);
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

/* Did our key sign it?  When that cannot be found out, its blocks are read. */
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

static int load_map(struct dedup_base *base, const struct artifact *a,
		    struct error *err)
{
	AUTO_BUF stored = BUF_INIT;
	AUTO_FREE void *data = NULL;
	struct blockmap map;
	int rc;

	if (a->map_size > DEDUP_BASE_MAP_MAX ||
	    a->map.size > DEDUP_BASE_MAP_MAX)
		return error_set(err, EFBIG, "a large block map");
	rc = oci_get_blob(base->store, &a->map.digest, a->map.size,
			  DEDUP_BASE_MAP_MAX, &stored, err);
	if (rc == 0)
		rc = unpack_map(a, &stored, &data, err);
	if (rc == 0)
		rc = blockmap_open(data, a->map_size, &map, err);
	/* A manifest has far fewer than a map could name. */
	if (rc == 0 && map.n_packs != a->n_packs)
		rc = error_set(err, EBADMSG,
			       "a block map of other packs than its artifact");
	return rc < 0 ? rc : add_blocks(base, &map, is_own(base, a), err);
}

static int load_artifact(struct dedup_base *base, const struct digest *d,
			 struct error *err)
{
	struct artifact a;
	int rc = artifact_get(base->store, d, &a, err);

	if (rc < 0)
		return is_passed_over(rc) ? 0 : rc;
	rc = load_map(base, &a, err);
	artifact_fini(&a);
	return is_passed_over(rc) ? 0 : rc;
}

/* --------------------------------------------------------------- interface --- */

static bool is_present(struct dedup_base *base, struct known_pack *p)
{
	if (p->presence == PRESENCE_UNKNOWN) {
		uint64_t size = 0;
		bool has = false;

		p->presence = oci_find_blob(base->store, &p->pack.digest, &has,
					    &size, NULL) == 0 &&
					      has && size == p->pack.size
				      ? PRESENCE_YES
				      : PRESENCE_NO;
	}
	return p->presence == PRESENCE_YES;
}

/* One pack is open at a time: blocks are asked for about as they lie there. */
static int load_pack(struct dedup_base *base, uint32_t pack, struct error *err)
{
	const struct pack *p = &base->packs[pack].pack;
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

/* Are the bytes at the block's place the block?  One that cannot be read is
 * stored anew, so why does not matter. */
static bool is_right(struct dedup_base *base, const struct block *b)
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
	const struct known_block *k;
	struct block b;
	size_t at;

	if (base->n_blocks == 0)
		return false;
	at = table_slot(base, base->table, base->cap_table, d);
	if (base->table[at] == 0)
		return false;
	k = &base->blocks[base->table[at] - 1];
	if (!is_present(base, &base->packs[k->pack]))
		return false;
	b = (struct block){ .digest = k->digest,
			    .poff = k->poff,
			    .csize = k->csize,
			    .usize = k->usize,
			    .pack = k->pack,
			    .codec = k->codec };
	if (!k->is_own && !is_right(base, &b))
		return false;
	*ret = b;
	return true;
}

static void dedup_base_pack(struct dedup_index *x, uint32_t pack,
			    struct pack *ret)
{
	struct dedup_base *base = container_of(x, struct dedup_base, index);

	*ret = base->packs[pack].pack;
}

int dedup_base_load(struct oci_store *store, const struct sign_terms *own,
		    struct dedup_base **ret, struct error *err)
{
	AUTO(dedup_base) base = calloc(1, sizeof(*base));
	int rc = 0;

	if (!base)
		return error_nomem(err);
	if (getrandom(&base->seed, sizeof(base->seed), 0) != sizeof(base->seed))
		return error_set(err, EIO, "getrandom: %s", strerror(errno));
	base->store = store;
	base->index.find = dedup_base_find;
	base->index.pack = dedup_base_pack;
	base->terms = own;
	if (own)
		rc = sign_own_list(own->key, &base->own_keys, err);
	if (rc == 0)
		rc = list_artifacts(base, err);
	for (size_t i = 0; rc == 0 && i < base->n_artifacts; i++)
		rc = load_artifact(base, &base->artifacts[i], err);
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
	free(base->blocks);
	free(base->table);
	free(base->packs);
	free(base->pack_table);
	free(base);
}

struct dedup_index *dedup_base_index(struct dedup_base *base)
{
	return &base->index;
}
