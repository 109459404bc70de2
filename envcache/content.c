// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks by their place in the packs, in runs that lie one behind the other: a run is
 * one request.  Threads take runs; the verify filter compares each block with its digest
 * before anybody sees a byte of it.
 */
#include "envcache/content.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/side_by_side.h"
#include "objects/oci.h"

#define RUN_BYTES (4 * MIB)
#define RUN_BLOCKS 1024u

/* Places [first, first + n) of the order, of one pack. */
struct content_run {
	size_t first, n;
};

struct content {
	const struct loaded *l;
	const struct unpack_plan *plan;
	content_put_fn *put;
	void *arg;
	uint32_t *order; /* blocks by pack, offset, voff */
	struct content_run *runs;
	size_t n_runs;
	struct block_source **packs;
	atomic_size_t next;
	atomic_bool has_failed;
};

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct blockmap *m = arg;
	struct block x, y;

	blockmap_block(m, *(const uint32_t *)a, &x);
	blockmap_block(m, *(const uint32_t *)b, &y);
	if (x.pack != y.pack)
		return x.pack < y.pack ? -1 : 1;
	if (x.poff != y.poff)
		return x.poff < y.poff ? -1 : 1;
	return x.voff < y.voff ? -1 : x.voff > y.voff;
}

static void block_at(const struct content *c, size_t i, struct block *ret)
{
	blockmap_block(&c->l->map, c->order[i], ret);
}

/* Is the block at `i` the same stored bytes as that before it? */
static bool is_again(const struct content *c, size_t i)
{
	struct block a, b;

	if (i == 0)
		return false;
	block_at(c, i - 1, &a);
	block_at(c, i, &b);
	return a.pack == b.pack && a.poff == b.poff && block_is_same(&a, &b);
}

static int sort_blocks(struct content *c, struct error *err)
{
	size_t n = c->l->map.n_blocks;
	struct blockmap map = c->l->map;

	c->order = calloc(n + 1, sizeof(*c->order));
	c->runs = calloc(n + 1, sizeof(*c->runs));
	if (!c->order || !c->runs)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		c->order[i] = (uint32_t)i;
	qsort_r(c->order, n, sizeof(*c->order), compare_places, &map);
	return 0;
}

static void cut_runs(struct content *c)
{
	struct content_run *run = NULL;
	uint64_t end = 0, bytes = 0;
	uint32_t pack = 0;
	size_t blocks = 0;

	for (size_t i = 0; i < c->l->map.n_blocks; i++) {
		struct block b;

		block_at(c, i, &b);
		if (run && is_again(c, i)) {
			run->n++;
			continue;
		}
		if (!run || b.pack != pack || b.poff != end ||
		    bytes + b.csize > RUN_BYTES || blocks == RUN_BLOCKS) {
			run = &c->runs[c->n_runs++];
			*run = (struct content_run){ .first = i };
			bytes = blocks = 0;
		}
		run->n++;
		blocks++;
		pack = b.pack;
		bytes += b.csize;
		end = b.poff + b.csize;
	}
}

/* --------------------------------------------------------------------- one run --- */

struct run_sink {
	struct block_sink base;
	struct content *c;
	size_t at, end; /* of the order */
};

static int put_pieces(const struct content *c, size_t block, const char *data,
		      struct error *err)
{
	size_t first, n = unpack_plan_pieces(c->plan, block, &first);
	int rc = 0;

	for (size_t i = first; rc == 0 && i < first + n; i++) {
		const struct unpack_piece *p = &c->plan->pieces[i];

		rc = c->put(c->arg, p->node, p->off, data + p->from, p->len,
			    err);
	}
	return rc;
}

/* A block, for each place of the device that it has. */
static int run_put(struct block_sink *sink, size_t index, const void *data,
		   struct error *err)
{
	struct run_sink *s = container_of(sink, struct run_sink, base);
	int rc;

	do
		rc = put_pieces(s->c, s->c->order[s->at++], data, err);
	while (rc == 0 && s->at < s->end && is_again(s->c, s->at));
	return rc;
}

static int read_run(struct content *c, const struct content_run *run,
		    struct error *err)
{
	AUTO_FREE struct block *blocks = calloc(run->n, sizeof(*blocks));
	struct run_sink sink = { .base.put = run_put,
				 .c = c,
				 .at = run->first,
				 .end = run->first + run->n };
	struct block_req req = { .blocks = blocks, .priority = SOURCE_DEMAND };

	if (!blocks)
		return error_nomem(err);
	for (size_t i = run->first; i < sink.end; i++)
		if (i == run->first || !is_again(c, i))
			block_at(c, i, &blocks[req.n_blocks++]);
	return block_source_read(c->packs[blocks[0].pack], &req, &sink.base,
				 err);
}

static int content_side(void *arg, unsigned int index, struct error *err)
{
	struct content *c = arg;
	int rc = 0;

	while (rc == 0 && !atomic_load(&c->has_failed)) {
		size_t i = atomic_fetch_add(&c->next, 1);

		if (i >= c->n_runs)
			return 0;
		rc = read_run(c, &c->runs[i], err);
	}
	if (rc < 0)
		atomic_store(&c->has_failed, true);
	return rc;
}

static int open_packs(struct content *c, struct error *err)
{
	const struct artifact *a = &c->l->artifact;
	int rc = 0;

	c->packs =
		(struct block_source **)calloc(a->n_packs + 1,
					       sizeof(struct block_source *));
	if (!c->packs)
		return error_nomem(err);
	for (size_t i = 0; rc == 0 && i < a->n_packs; i++) {
		struct source *s;

		rc = oci_open_blob(c->l->blobs, &a->packs[i].digest,
				   a->packs[i].size, &s, err);
		if (rc == 0)
			rc = verify_source_new(s, &c->packs[i], err);
	}
	return rc;
}

int content_read(const struct loaded *l, const struct unpack_plan *p,
		 unsigned int threads, content_put_fn *put, void *arg,
		 struct error *err)
{
	struct content c = { .l = l, .plan = p, .put = put, .arg = arg };
	int rc = sort_blocks(&c, err);

	if (rc == 0)
		rc = open_packs(&c, err);
	if (rc == 0) {
		cut_runs(&c);
		rc = side_by_side(threads, content_side, &c, err);
	}
	for (size_t i = 0; c.packs && i < l->artifact.n_packs; i++)
		block_source_free(c.packs[i]);
	free((void *)c.packs);
	free(c.order);
	free(c.runs);
	return rc;
}
