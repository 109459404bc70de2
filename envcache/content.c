// SPDX-License-Identifier: Apache-2.0
/* Read all blocks in a snapshot's map, each once, and pass on the pieces of files in them. */
#include "envcache/content.h"

#include <stdlib.h>

#include "envcache/given.h"
#include "envcache/runs.h"
#include "objects/oci.h"

struct content {
	const struct loaded *l;
	const struct unpack_plan *plan;
	content_put_fn *put;
	void *arg;
	uint32_t *order;     /* blocks sorted by pack, offset, voff */
	struct given *given; /* NULL: all blocks come from the store */
	struct block_source **packs;
};

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct blockmap *m = arg;
	struct block x, y;

	blockmap_block(m, *(const uint32_t *)a, &x);
	blockmap_block(m, *(const uint32_t *)b, &y);
	return runs_compare(&x, &y);
}

static void content_block(const void *arg, size_t i, struct block *ret)
{
	const struct content *c = arg;

	blockmap_block(&c->l->map, c->order[i], ret);
}

static int sort_blocks(struct content *c, struct error *err)
{
	size_t n = c->l->map.n_blocks;
	struct blockmap map = c->l->map;

	c->order = calloc(n + 1, sizeof(*c->order));
	if (!c->order)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++)
		c->order[i] = (uint32_t)i;
	qsort_r(c->order, n, sizeof(*c->order), compare_places, &map);
	return 0;
}

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

static int content_put(void *arg, size_t i, const void *data, struct error *err)
{
	const struct content *c = arg;

	return put_pieces(c, c->order[i], data, err);
}

static int content_open(void *arg, size_t pack, struct block_source **ret,
			struct error *err)
{
	const struct content *c = arg;
	const struct oci_descriptor *d = &c->l->artifact.packs[pack];
	struct source *s;
	int rc = oci_open_blob(c->l->blobs, &d->digest, d->size, &s, err);

	return rc < 0 ? rc : verify_source_new(s, ret, err);
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
	for (size_t i = 0; rc == 0 && i < a->n_packs; i++)
		rc = c->given ? given_source_new(c->given, i, &c->packs[i], err)
			      : content_open(c, i, &c->packs[i], err);
	return rc;
}

int content_read(const struct loaded *l, const struct unpack_plan *p,
		 unsigned int threads, content_put_fn *put, void *arg,
		 struct error *err)
{
	struct content c = { .l = l, .plan = p, .put = put, .arg = arg };
	struct block_runs runs = { .n = l->map.n_blocks,
				   .block = content_block,
				   .put = content_put,
				   .arg = &c };
	int rc = sort_blocks(&c, err);

	if (rc == 0 && l->giver)
		rc = given_new(l->giver, content_open, &c, &c.given, err);
	if (rc == 0)
		rc = open_packs(&c, err);
	if (rc == 0) {
		runs.packs = c.packs;
		rc = runs_read(&runs, threads, err);
	}
	for (size_t i = 0; c.packs && i < l->artifact.n_packs; i++)
		block_source_free(c.packs[i]);
	given_free(c.given);
	free((void *)c.packs);
	free(c.order);
	return rc;
}
