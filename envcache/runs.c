// SPDX-License-Identifier: Apache-2.0
#include "envcache/runs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/side_by_side.h"

#define RUN_BYTES (4 * MIB)
#define RUN_BLOCKS 1024u

/* Blocks [first, first + n), all of one pack. */
struct runs_one {
	size_t first, n;
};

struct runs_reading {
	const struct block_runs *of;
	struct runs_one *runs;
	size_t n_runs, cap_runs;
	atomic_size_t next;
	atomic_bool has_failed;
};

int runs_compare(const struct block *a, const struct block *b)
{
	if (a->pack != b->pack)
		return a->pack < b->pack ? -1 : 1;
	if (a->poff != b->poff)
		return a->poff < b->poff ? -1 : 1;
	return a->voff < b->voff ? -1 : a->voff > b->voff;
}

static void block_at(const struct block_runs *r, size_t i, struct block *ret)
{
	r->block(r->arg, i, ret);
}

/* Are the stored bytes of block `i` the same as those of the block before? */
static bool is_same_stored_block(const struct block_runs *r, size_t i)
{
	struct block a, b;

	if (i == 0)
		return false;
	block_at(r, i - 1, &a);
	block_at(r, i, &b);
	return a.pack == b.pack && a.poff == b.poff && block_is_same(&a, &b);
}

static int cut_runs(struct runs_reading *c, struct error *err)
{
	uint64_t end = 0, bytes = 0;
	uint32_t pack = 0;
	size_t blocks = 0;

	for (size_t i = 0; i < c->of->n; i++) {
		struct block b;

		block_at(c->of, i, &b);
		if (c->n_runs && is_same_stored_block(c->of, i)) {
			c->runs[c->n_runs - 1].n++;
			continue;
		}
		if (!c->n_runs || b.pack != pack || b.poff != end ||
		    bytes + b.csize > RUN_BYTES || blocks == RUN_BLOCKS) {
			if (array_grow(&c->runs, c->n_runs, &c->cap_runs, 64) <
			    0)
				return error_nomem(err);
			c->runs[c->n_runs++] = (struct runs_one){ .first = i };
			bytes = blocks = 0;
		}
		c->runs[c->n_runs - 1].n++;
		blocks++;
		pack = b.pack;
		bytes += b.csize;
		end = b.poff + b.csize;
	}
	return 0;
}

struct run_sink {
	struct block_sink base;
	const struct block_runs *of;
	size_t at, end;
};

/* Pass a block on, once for each place in the device that has it. */
static int run_put(struct block_sink *sink, size_t index, const void *data,
		   struct error *err)
{
	struct run_sink *s = container_of(sink, struct run_sink, base);
	int rc;

	do
		rc = s->of->put(s->of->arg, s->at++, data, err);
	while (rc == 0 && s->at < s->end && is_same_stored_block(s->of, s->at));
	return rc;
}

static int read_run(const struct block_runs *r, const struct runs_one *run,
		    uint32_t *ret_pack, struct error *err)
{
	AUTO_FREE struct block *blocks = calloc(run->n, sizeof(*blocks));
	struct run_sink sink = { .base.put = run_put,
				 .of = r,
				 .at = run->first,
				 .end = run->first + run->n };
	struct block_req req = { .blocks = blocks, .priority = SOURCE_DEMAND };

	if (!blocks)
		return error_nomem(err);
	for (size_t i = run->first; i < sink.end; i++)
		if (i == run->first || !is_same_stored_block(r, i))
			block_at(r, i, &blocks[req.n_blocks++]);
	*ret_pack = blocks[0].pack;
	return r->packs[*ret_pack]
		       ? block_source_read(r->packs[*ret_pack], &req,
					   &sink.base, err)
		       : error_set(err, ENOENT, "there is no such pack");
}

static int read_runs(void *arg, unsigned int index, struct error *err)
{
	struct runs_reading *c = arg;
	int rc = 0;

	while (rc == 0 && !atomic_load(&c->has_failed)) {
		size_t i = atomic_fetch_add(&c->next, 1);
		uint32_t pack = 0;

		if (i >= c->n_runs)
			return 0;
		rc = read_run(c->of, &c->runs[i], &pack, err);
		if (rc < 0 && rc != -ENOMEM && c->of->failed)
			rc = c->of->failed(c->of->arg, pack, rc);
	}
	if (rc < 0)
		atomic_store(&c->has_failed, true);
	return rc;
}

int runs_read(const struct block_runs *r, unsigned int threads,
	      struct error *err)
{
	struct runs_reading c = { .of = r };
	int rc = cut_runs(&c, err);

	if (rc == 0)
		rc = side_by_side(threads, read_runs, &c, err);
	free(c.runs);
	return rc;
}
