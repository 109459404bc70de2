// SPDX-License-Identifier: Apache-2.0
/*
 * The user's thread hashes each block and decides, in order, whether it is new; so the decision
 * does not depend on the threads. New blocks go through an ordered pool: its threads compress
 * them, and they are appended to packs in order.
 */
#include "image/writer/packer.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <zstd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "image/spans/spans.h"
#include "image/writer/dedup_index.h"
#include "image/writer/ordered_pool.h"

/* A block is stored raw unless compression saves 1/64 of it: reading raw is cheaper. */
#define RAW_SHARE 64
/* Limit of a map's entries: each takes 64 bytes. */
#define ENTRIES_MAX (BLOCKMAP_BYTES_MAX / 64u)

/* A stored block: its place in a pack. Several blocks of the device may refer to it. */
struct stored_block {
	struct digest digest;
	uint64_t poff;
	uint32_t csize, usize;
	uint32_t pack; /* of the index when `old`, else of this conversion */
	enum block_codec codec;
	bool old;
};

struct map_entry {
	uint64_t voff;
	uint32_t stored;
};

struct packer {
	struct chunk_sink sink;
	struct packer_config cfg;
	struct ordered_pool *pool;
	struct pack_writer *writer;
	struct map_entry *entries;
	size_t n_entries, cap_entries;
	uint32_t *table; /* stored index + 1 by digest; open addressing */
	size_t cap_table;
	struct packer_stats stats;
	/* bytes of new blocks, when they lie in layers and are not stored */
	uint64_t content;
	size_t n_stored, cap_stored;
	/* protects the array `stored`, except the digests in it */
	pthread_mutex_t lock;
	struct stored_block *stored;
};

static void *packer_worker_new(void *arg)
{
	return ZSTD_createCCtx();
}

static void packer_worker_free(void *worker)
{
	ZSTD_freeCCtx(worker);
}

/* Compress a block; out_len 0: store it raw. */
static int packer_compress(void *arg, void *worker, struct ordered_pool_item *i,
			   struct error *err)
{
	const struct packer *p = arg;
	size_t n = ZSTD_compressCCtx(worker, i->out,
				     ZSTD_compressBound(
					     chunk_buffer_size(p->cfg.params)),
				     i->in, i->in_len, p->cfg.level);

	if (ZSTD_isError(n))
		return error_set(err, EIO, "zstd: %s", ZSTD_getErrorName(n));
	i->out_len = n < i->in_len - i->in_len / RAW_SHARE ? (uint32_t)n : 0;
	return 0;
}

static int packer_append(void *arg, struct ordered_pool_item *i,
			 struct error *err)
{
	struct packer *p = arg;
	bool raw = i->out_len == 0;
	uint32_t len = raw ? i->in_len : i->out_len, pack = 0;
	struct stored_block *st;
	uint64_t off = 0;
	int rc = pack_writer_add(p->writer, raw ? i->in : i->out, len, &pack,
				 &off, err);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&p->lock);
	st = &p->stored[i->tag];
	st->pack = pack;
	st->poff = off;
	st->csize = len;
	st->codec = raw ? BLOCK_CODEC_RAW : BLOCK_CODEC_ZSTD;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static size_t table_slot(const struct packer *p, const uint32_t *table,
			 size_t cap, const struct digest *d)
{
	size_t at = (size_t)get_le64(d->b) & (cap - 1);

	while (table[at] && !digest_equal(&p->stored[table[at] - 1].digest, d))
		at = (at + 1) & (cap - 1);
	return at;
}

static int table_grow(struct packer *p, struct error *err)
{
	size_t cap = p->cap_table ? p->cap_table * 2 : 4096;
	uint32_t *table;

	if ((p->n_stored + 1) * 2 <= p->cap_table)
		return 0;
	table = calloc(cap, sizeof(*table));
	if (!table)
		return error_nomem(err);
	for (size_t i = 0; i < p->n_stored; i++)
		table[table_slot(p, table, cap, &p->stored[i].digest)] =
			(uint32_t)i + 1;
	free(p->table);
	p->table = table;
	p->cap_table = cap;
	return 0;
}

/* Take the block's place from the dedup index, if that has the block. */
static void find_known_block(struct packer *p, struct stored_block *st)
{
	struct block b;

	if (!p->cfg.index ||
	    !p->cfg.index->find(p->cfg.index, &st->digest, &b) ||
	    b.usize != st->usize)
		return;
	st->old = true;
	st->pack = b.pack;
	st->poff = b.poff;
	st->csize = b.csize;
	st->codec = b.codec;
	p->stats.old_bytes += b.csize;
}

/* Add a block that is new in this image. */
static int add_stored(struct packer *p, struct stored_block *st, uint8_t **buf,
		      struct error *err)
{
	int rc;

	if (p->cfg.spans) {
		st->poff = p->content;
		st->csize = st->usize;
		p->content += st->usize;
	} else {
		find_known_block(p, st);
	}
	pthread_mutex_lock(&p->lock);
	rc = array_grow(&p->stored, p->n_stored, &p->cap_stored, 1024);
	if (rc == 0)
		p->stored[p->n_stored++] = *st;
	pthread_mutex_unlock(&p->lock);
	if (rc < 0)
		return error_nomem(err);
	if (st->old || p->cfg.spans)
		return 0;
	p->stats.new_blocks++;
	return ordered_pool_put(p->pool, buf, st->usize,
				(uint32_t)p->n_stored - 1, err);
}

static int packer_put(struct chunk_sink *sink, uint64_t voff, uint8_t **buf,
		      uint32_t len, struct error *err)
{
	struct packer *p = container_of(sink, struct packer, sink);
	struct stored_block st = { .usize = len };
	size_t at;
	int rc;

	if (p->n_entries >= ENTRIES_MAX)
		return error_set(err, E2BIG, "more than %u blocks",
				 ENTRIES_MAX);
	rc = digest_of(*buf, len, &st.digest);
	if (rc < 0)
		return error_errno(err, -rc, "hash");
	rc = table_grow(p, err);
	if (rc < 0)
		return rc;
	if (array_grow(&p->entries, p->n_entries, &p->cap_entries, 1024) < 0)
		return error_nomem(err);
	at = table_slot(p, p->table, p->cap_table, &st.digest);
	if (p->table[at] == 0) {
		rc = add_stored(p, &st, buf, err);
		if (rc < 0)
			return rc;
		p->table[at] = (uint32_t)p->n_stored;
	}
	p->entries[p->n_entries++] =
		(struct map_entry){ .voff = voff, .stored = p->table[at] - 1 };
	p->stats.blocks++;
	return 0;
}

int packer_new(const struct packer_config *cfg, struct packer **ret,
	       struct error *err)
{
	AUTO(packer) p = calloc(1, sizeof(*p));
	size_t size = chunk_buffer_size(cfg->params);
	struct ordered_pool_config pool = {
		.jobs = cfg->jobs,
		.in_cap = size,
		.out_cap = ZSTD_compressBound(size),
		.worker_new = packer_worker_new,
		.worker_free = packer_worker_free,
		.work = packer_compress,
		.write = packer_append,
	};
	int rc;

	if (!p)
		return error_nomem(err);
	pthread_mutex_init(&p->lock, NULL);
	p->cfg = *cfg;
	if (!p->cfg.level)
		p->cfg.level = cfg->params->level;
	if (!p->cfg.packs.max)
		p->cfg.packs.max = cfg->params->pack_max;
	p->sink.put = packer_put;
	pool.arg = p;
	rc = pack_writer_new(cfg->temp_dir, &p->cfg.packs, cfg->upload,
			     &p->writer, err);
	if (rc == 0)
		rc = ordered_pool_new(&pool, &p->pool, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&p);
	return 0;
}

void packer_free(struct packer *p)
{
	if (!p)
		return;
	ordered_pool_free(p->pool); /* first: its threads use the rest */
	pack_writer_free(p->writer);
	free(p->entries);
	free(p->stored);
	free(p->table);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct chunk_sink *packer_sink(struct packer *p)
{
	return &p->sink;
}

/* Numbers the packs of the map; a pack is added when the first block refers to it. */
struct pack_numbers {
	uint32_t *of_new, *of_old; /* map index + 1 */
	size_t n_old;
};

static int number_pack(struct packer *p, struct blockmap_writer *w,
		       struct pack_numbers *n, const struct stored_block *st,
		       uint32_t *ret, struct error *err)
{
	uint32_t **of = st->old ? &n->of_old : &n->of_new;
	struct pack pack;
	size_t n_new;
	int rc;

	if (st->old && st->pack >= n->n_old) {
		size_t want = (size_t)st->pack * 2 + 16;
		uint32_t *a = realloc(*of, want * sizeof(*a));

		if (!a)
			return error_nomem(err);
		memset(a + n->n_old, 0, (want - n->n_old) * sizeof(*a));
		*of = a;
		n->n_old = want;
	}
	if ((*of)[st->pack] == 0) {
		if (st->old)
			p->cfg.index->pack(p->cfg.index, st->pack, &pack);
		else
			pack = pack_writer_packs(p->writer, &n_new)[st->pack];
		rc = blockmap_writer_pack(w, &pack, ret, err);
		if (rc < 0)
			return rc;
		(*of)[st->pack] = *ret + 1;
	}
	*ret = (*of)[st->pack] - 1;
	return 0;
}

static struct block block_of(const struct packer *p, size_t entry)
{
	const struct stored_block *st = &p->stored[p->entries[entry].stored];

	return (struct block){ .digest = st->digest,
			       .voff = p->entries[entry].voff,
			       .poff = st->poff,
			       .usize = st->usize,
			       .csize = st->csize,
			       .codec = st->codec };
}

/* Write the map of blocks that lie in layers and are not stored in packs. */
static int write_index(struct packer *p, struct blockmap_writer *w,
		       struct error *err)
{
	AUTO_FREE struct block *first = calloc(p->n_stored + 1, sizeof(*first));
	size_t n = 0;
	int rc = first ? 0 : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < p->n_entries; i++) {
		struct block b = block_of(p, i);

		/* Stored blocks are numbered in the order in which they came, so number n is
		 * seen first here. */
		if (p->entries[i].stored == n)
			first[n++] = b;
		rc = blockmap_writer_block(w, &b, err);
	}
	return rc < 0 ? rc : span_set_finish(p->cfg.spans, w, first, n, err);
}

static int write_map(struct packer *p, struct blockmap_writer *w,
		     struct pack_numbers *n, struct error *err)
{
	for (size_t i = 0; i < p->n_entries; i++) {
		struct block b = block_of(p, i);
		int rc = number_pack(p, w, n, &p->stored[p->entries[i].stored],
				     &b.pack, err);

		if (rc == 0)
			rc = blockmap_writer_block(w, &b, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int packer_finish(struct packer *p, uint64_t device_size, void **ret_map,
		  size_t *ret_len, struct packer_stats *ret_stats,
		  struct error *err)
{
	AUTO(blockmap_writer) w = blockmap_writer_new();
	struct pack_numbers n = { 0 };
	const struct pack *packs;
	size_t n_packs;
	int rc;

	if (!w)
		return error_nomem(err);
	rc = ordered_pool_finish(p->pool, err);
	if (rc == 0)
		rc = pack_writer_finish(p->writer, err);
	if (rc < 0)
		return rc;
	packs = pack_writer_packs(p->writer, &n_packs);
	n.of_new = calloc(n_packs + 1, sizeof(uint32_t));
	if (!n.of_new)
		return error_nomem(err);
	rc = p->cfg.spans ? write_index(p, w, err) : write_map(p, w, &n, err);
	free(n.of_new);
	free(n.of_old);
	if (rc == 0)
		rc = blockmap_writer_finish(w, device_size, ret_map, ret_len,
					    err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n_packs; i++)
		p->stats.new_bytes += packs[i].size;
	*ret_stats = p->stats;
	return 0;
}
