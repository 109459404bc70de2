// SPDX-License-Identifier: Apache-2.0
#include "image/writer/block_table.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <zstd.h>

#include "common/array.h"
#include "blockstore/span_map.h"
#include "common/bytes.h"
#include "objects/oci.h"

struct known_block {
	struct digest digest;
	uint64_t poff;
	uint32_t csize, usize;
	uint32_t pack;
	enum block_codec codec;
	bool is_own;
};

struct block_table {
	struct known_block *blocks;
	size_t n_blocks, cap_blocks;
	uint32_t *table; /* block + 1, open addressing, at most half full */
	size_t cap_table;
	struct pack *packs;
	size_t n_packs, cap_packs;
	uint32_t *pack_table; /* as `table`, of twice cap_packs */
	uint64_t seed;        /* key of hash_of() */
};

/* Keyed hash: anybody who may push chooses the digests, and could choose colliding ones. */
static size_t hash_of(const struct block_table *t, const struct digest *d)
{
	uint64_t h = t->seed;

	for (size_t i = 0; i < sizeof(d->b); i += 8) {
		h = (h ^ get_le64(d->b + i)) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	return (size_t)h;
}

static size_t table_slot(const struct block_table *t, const uint32_t *table,
			 size_t cap, const struct digest *d)
{
	size_t at = hash_of(t, d) & (cap - 1);

	while (table[at] && !digest_equal(&t->blocks[table[at] - 1].digest, d))
		at = (at + 1) & (cap - 1);
	return at;
}

static int block_table_grow(struct block_table *t, struct error *err)
{
	if (array_grow(&t->blocks, t->n_blocks, &t->cap_blocks, 1024) < 0)
		return error_nomem(err);
	if ((t->n_blocks + 1) * 2 > t->cap_table) {
		size_t cap = t->cap_table ? t->cap_table * 2 : 4096;
		uint32_t *table = calloc(cap, sizeof(*table));

		if (!table)
			return error_nomem(err);
		for (size_t i = 0; i < t->n_blocks; i++)
			table[table_slot(t, table, cap, &t->blocks[i].digest)] =
				(uint32_t)i + 1;
		free(t->table);
		t->table = table;
		t->cap_table = cap;
	}
	return 0;
}

static size_t pack_slot(const struct block_table *t, const uint32_t *table,
			size_t cap, const struct pack *p)
{
	size_t at = hash_of(t, &p->digest) & (cap - 1);

	for (; table[at]; at = (at + 1) & (cap - 1)) {
		const struct pack *have = &t->packs[table[at] - 1];

		/* Artifacts may name a pack of one digest with several sizes, of which only
		 * one is right. */
		if (digest_equal(&have->digest, &p->digest) &&
		    have->size == p->size)
			break;
	}
	return at;
}

static int grow_packs(struct block_table *t, struct error *err)
{
	size_t cap = t->cap_packs ? t->cap_packs * 2 : 64;
	struct pack *v;
	uint32_t *table;

	if (t->n_packs < t->cap_packs)
		return 0;
	v = realloc(t->packs, cap * sizeof(*v));
	if (!v)
		return error_nomem(err);
	t->packs = v;
	table = calloc(cap * 2, sizeof(*table));
	if (!table)
		return error_nomem(err);
	for (size_t i = 0; i < t->n_packs; i++)
		table[pack_slot(t, table, cap * 2, &v[i])] = (uint32_t)i + 1;
	free(t->pack_table);
	t->pack_table = table;
	t->cap_packs = cap;
	return 0;
}

/* Find or add a pack; `*ret` is its number in the table. */
static int add_pack(struct block_table *t, const struct pack *p, uint32_t *ret,
		    struct error *err)
{
	int rc = grow_packs(t, err);
	size_t at;

	if (rc < 0)
		return rc;
	at = pack_slot(t, t->pack_table, t->cap_packs * 2, p);
	if (!t->pack_table[at]) {
		t->packs[t->n_packs++] = *p;
		t->pack_table[at] = (uint32_t)t->n_packs;
	}
	*ret = t->pack_table[at] - 1;
	return 0;
}

/* Add a block of a map. A block with several places gets the first, or the first that
 * is_own. */
static int add_block(struct block_table *t, const struct known_block *k,
		     struct error *err)
{
	int rc = block_table_grow(t, err);
	size_t at;

	if (rc < 0)
		return rc;
	at = table_slot(t, t->table, t->cap_table, &k->digest);
	if (t->table[at] == 0) {
		t->blocks[t->n_blocks++] = *k;
		t->table[at] = (uint32_t)t->n_blocks;
	} else if (k->is_own && !t->blocks[t->table[at] - 1].is_own) {
		t->blocks[t->table[at] - 1] = *k;
	}
	return 0;
}

static int add_blocks(struct block_table *t, const struct blockmap *m,
		      bool is_own, struct error *err)
{
	AUTO_FREE uint32_t *packs = calloc(m->n_packs + 1, sizeof(*packs));
	int rc = packs ? 0 : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < m->n_packs; i++) {
		struct pack p;

		blockmap_pack(m, i, &p);
		rc = add_pack(t, &p, &packs[i], err);
	}
	for (size_t i = 0;
	     rc == 0 && i < m->n_blocks && t->n_blocks < BLOCK_TABLE_BLOCKS_MAX;
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
		rc = add_block(t, &k, err);
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

int block_table_add(struct block_table *t, struct oci_store *store,
		    const struct artifact *a, bool is_own, struct error *err)
{
	AUTO_BUF stored = BUF_INIT;
	AUTO_FREE void *data = NULL;
	struct blockmap map;
	int rc;

	if (a->map_size > BLOCK_TABLE_MAP_MAX ||
	    a->map.size > BLOCK_TABLE_MAP_MAX)
		return error_set(err, EFBIG, "a large block map");
	rc = oci_get_blob(store, &a->map.digest, a->map.size,
			  BLOCK_TABLE_MAP_MAX, &stored, err);
	if (rc == 0)
		rc = unpack_map(a, &stored, &data, err);
	if (rc == 0)
		rc = blockmap_open(data, a->map_size, &map, err);
	/* Blocks of an index lie in layers, so there are no stored blocks to share. */
	if (rc == 0 && blockmap_is_index(&map))
		rc = error_set(err, ENOTSUP, "its blocks lie in layers");
	/* The numbers must agree: a manifest can name far fewer packs than a map. */
	if (rc == 0 && map.n_packs != a->n_packs)
		rc = error_set(err, EBADMSG,
			       "a block map of other packs than its artifact");
	return rc < 0 ? rc : add_blocks(t, &map, is_own, err);
}

bool block_table_find(const struct block_table *t, const struct digest *d,
		      struct block *ret, bool *ret_is_own)
{
	const struct known_block *k;
	size_t at;

	if (t->n_blocks == 0)
		return false;
	at = table_slot(t, t->table, t->cap_table, d);
	if (t->table[at] == 0)
		return false;
	k = &t->blocks[t->table[at] - 1];
	*ret_is_own = k->is_own;
	*ret = (struct block){ .digest = k->digest,
			       .poff = k->poff,
			       .csize = k->csize,
			       .usize = k->usize,
			       .pack = k->pack,
			       .codec = k->codec };
	return true;
}

size_t block_table_n_packs(const struct block_table *t)
{
	return t->n_packs;
}

const struct pack *block_table_pack(const struct block_table *t, size_t i)
{
	return &t->packs[i];
}

int block_table_new(struct block_table **ret, struct error *err)
{
	AUTO(block_table) t = calloc(1, sizeof(*t));

	if (!t)
		return error_nomem(err);
	if (getrandom(&t->seed, sizeof(t->seed), 0) != sizeof(t->seed))
		return error_set(err, EIO, "getrandom: %s", strerror(errno));
	*ret = steal_ptr(&t);
	return 0;
}

void block_table_free(struct block_table *t)
{
	if (!t)
		return;
	free(t->blocks);
	free(t->table);
	free(t->packs);
	free(t->pack_table);
	free(t);
}
