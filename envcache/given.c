// SPDX-License-Identifier: Apache-2.0
#include "envcache/given.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct given {
	struct env_giver *giver;
	given_open_fn *open;
	void *arg;
	pthread_mutex_t lock; /* protects giver, and `store` of its sources */
};

struct given_source {
	struct block_source base;
	struct given *given;
	size_t pack;
	struct block_source *store; /* NULL: not opened yet */
};

int given_new(struct env_giver *giver, given_open_fn *open, void *arg,
	      struct given **ret, struct error *err)
{
	struct given *g = calloc(1, sizeof(*g));

	if (!g)
		return error_nomem(err);
	g->giver = giver;
	g->open = open;
	g->arg = arg;
	(void)pthread_mutex_init(&g->lock, NULL);
	*ret = g;
	return 0;
}

void given_free(struct given *g)
{
	if (!g)
		return;
	(void)pthread_mutex_destroy(&g->lock);
	free(g);
}

/* Stop using the giver after an error. */
static void stop_asking_giver(struct given *g, const struct error *why)
{
	(void)pthread_mutex_lock(&g->lock);
	if (!g->giver->failed.code)
		g->giver->failed = *why;
	(void)pthread_mutex_unlock(&g->lock);
}

/* Request ranges from the giver.  -ENODATA: it failed before. */
static int ask_giver(struct given *g, const struct env_range *e, size_t n,
		     void *buf, struct error *err)
{
	int rc;

	(void)pthread_mutex_lock(&g->lock);
	rc = g->giver->failed.code ? -ENODATA
				   : g->giver->give(g->giver, e, n, buf, err);
	(void)pthread_mutex_unlock(&g->lock);
	if (rc < 0 && rc != -ENODATA)
		stop_asking_giver(g, err);
	return rc;
}

static void count_given(struct given *g, uint64_t bytes)
{
	(void)pthread_mutex_lock(&g->lock);
	g->giver->given += bytes;
	(void)pthread_mutex_unlock(&g->lock);
}

/* How many of the blocks fit into one request. */
static size_t count_fitting_blocks(const struct block *blocks, size_t n,
				   size_t *ret_len)
{
	size_t len = 0, k = 0;

	while (k < n && k < ENV_GIVE_RANGES &&
	       len + blocks[k].usize <= ENV_GIVE_BYTES)
		len += blocks[k++].usize;
	*ret_len = len;
	return k;
}

/* Make ranges of the blocks; adjacent blocks become one range. */
static size_t make_ranges(const struct block *blocks, size_t n,
			  struct env_range *ret)
{
	size_t n_ret = 0;

	for (size_t k = 0; k < n; k++) {
		struct env_range *e = n_ret ? &ret[n_ret - 1] : NULL;

		if (e && e->off + e->len == blocks[k].voff)
			e->len += blocks[k].usize;
		else
			ret[n_ret++] = (struct env_range){ blocks[k].voff,
							   blocks[k].usize };
	}
	return n_ret;
}

/* Verify blocks and pass them to the sink, up to the first wrong one; *ret_n is their number.
 * Only errors of the sink are returned. */
static int verify_and_pass_blocks(struct given *g, const struct block_req *req,
				  size_t first, size_t n, const char *data,
				  struct block_sink *sink, size_t *ret_n,
				  struct error *err)
{
	struct error wrong = ERROR_INIT;
	size_t at = 0;
	int rc = 0;

	for (*ret_n = 0; rc == 0 && *ret_n < n; (*ret_n)++) {
		const struct block *b = &req->blocks[first + *ret_n];

		if (block_check(b, data + at, &wrong) < 0) {
			stop_asking_giver(g, &wrong);
			break;
		}
		rc = sink->put(sink, first + *ret_n, data + at, err);
		at += b->usize;
	}
	count_given(g, at);
	return rc;
}

/* Get blocks from `first` on by one request; none if it fails. */
static int pass_given_blocks(struct given *g, const struct block_req *req,
			     size_t first, struct block_sink *sink,
			     size_t *ret_n, struct error *err)
{
	const struct block *blocks = req->blocks + first;
	struct error why = ERROR_INIT;
	size_t len,
		n = count_fitting_blocks(blocks, req->n_blocks - first, &len);
	AUTO_FREE struct env_range *ranges = calloc(n + 1, sizeof(*ranges));
	AUTO_FREE char *data = malloc(len + 1);

	*ret_n = 0;
	if (!ranges || !data)
		return error_nomem(err);
	if (ask_giver(g, ranges, make_ranges(blocks, n, ranges), data, &why) <
	    0)
		return 0;
	return verify_and_pass_blocks(g, req, first, n, data, sink, ret_n, err);
}

/* A sink for the rest of a request, which converts block numbers to those of the whole request. */
struct rest_sink {
	struct block_sink base;
	struct block_sink *next;
	size_t first;
};

static int rest_put(struct block_sink *sink, size_t index, const void *data,
		    struct error *err)
{
	struct rest_sink *r = container_of(sink, struct rest_sink, base);

	return r->next->put(r->next, r->first + index, data, err);
}

static int open_store(struct given_source *s, struct block_source **ret,
		      struct error *err)
{
	struct given *g = s->given;
	int rc = 0;

	(void)pthread_mutex_lock(&g->lock);
	if (!s->store)
		rc = g->open(g->arg, s->pack, &s->store, err);
	*ret = s->store;
	(void)pthread_mutex_unlock(&g->lock);
	return rc;
}

static int given_read(struct block_source *s, const struct block_req *req,
		      struct block_sink *sink, struct error *err)
{
	struct given_source *g = container_of(s, struct given_source, base);
	struct rest_sink rest = { .base.put = rest_put, .next = sink };
	struct block_source *store;
	struct block_req left = *req;
	size_t n = 1;
	int rc = 0;

	while (rc == 0 && n && rest.first < req->n_blocks) {
		rc = pass_given_blocks(g->given, req, rest.first, sink, &n,
				       err);
		rest.first += n;
	}
	left.blocks += rest.first;
	left.n_blocks -= rest.first;
	if (rc < 0 || !left.n_blocks)
		return rc;
	rc = open_store(g, &store, err);
	return rc < 0 ? rc : block_source_read(store, &left, &rest.base, err);
}

static void given_source_free(struct block_source *s)
{
	struct given_source *g = container_of(s, struct given_source, base);

	block_source_free(g->store);
	free(g);
}

static const struct block_source_ops given_ops = {
	.name = "given",
	.read = given_read,
	.free = given_source_free,
};

int given_source_new(struct given *given, size_t pack,
		     struct block_source **ret, struct error *err)
{
	struct given_source *g = calloc(1, sizeof(*g));

	if (!g)
		return error_nomem(err);
	g->base.ops = &given_ops;
	g->given = given;
	g->pack = pack;
	*ret = &g->base;
	return 0;
}
