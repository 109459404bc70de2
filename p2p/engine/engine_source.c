// SPDX-License-Identifier: Apache-2.0
/* Blocks of a pack for readers. */
#include <errno.h>
#include <inttypes.h>

#include "common/clock.h"
#include "common/cond.h"
#include "p2p/engine/engine.h"

#define TICK_NS (50 * NS_PER_MS) /* a stop is seen within this time */
/* Limit for requests without a deadline. */
#define PATIENCE_NS (30 * NS_PER_S)
#define PAUSE_NS (100 * NS_PER_MS) /* first pause before a retry; doubles */
#define PAUSE_MAX_NS (5 * NS_PER_S)
#define LAST_CHANCE_NS NS_PER_S /* time for an answer before the deadline */

struct peer_source {
	struct block_source base;
	struct p2p_image *i;
	uint32_t pack;
};

static void reader_begin(void *arg)
{
	want_ahead(arg);
}

static void begin_wanting_piece_again(void *arg)
{
	struct reader *r = arg;

	want_again(r, r->next);
}

static void begin_wanting_rest(void *arg)
{
	want_rest(arg);
}

static void reader_end(void *arg)
{
	want_no_read(arg);
}

/* Wait until block r->next has an answer. Returns 0, or why there will be none. */
static int reader_await(struct reader *r, struct error *err)
{
	enum answer a = ANSWER_NONE;
	int rc = 0;

	(void)pthread_mutex_lock(&r->lock);
	for (;;) {
		int64_t now = clock_now_ns(), until = now + TICK_NS;

		a = r->answers[r->next];
		if (a != ANSWER_NONE)
			break;
		rc = r->rc;
		if (rc < 0) {
			if (err)
				*err = r->err;
			break;
		}
		if (now >= r->deadline) {
			rc = error_set(err, ETIMEDOUT,
				       "image %s: a block did not come in time",
				       r->i->label);
			break;
		}
		if (pace_level(r->req->pace) == PACE_STOP) {
			rc = error_set(err, ECANCELED, "not wanted any more");
			break;
		}
		(void)cond_wait_until(&r->progress, &r->lock,
				      until < r->deadline ? until
							  : r->deadline);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return rc;
}

/* May the request be repeated? Also when it was cancelled as unwanted just before this reader
 * came, or found no memory. */
static bool read_error_may_pass(int rc)
{
	return source_may_pass(rc) || rc == -ECANCELED || rc == -ENOMEM;
}

/*
 * Repeat a request that failed though its reader still has time: after a pause that grows with
 * `n`, so that readers outlast the restart of a registry. 0, or the error for the reader.
 */
static int begin_once_more(struct reader *r, int rc, unsigned int n,
			   struct error *err)
{
	int64_t pause = n < 6 ? PAUSE_NS << n : PAUSE_MAX_NS;
	int64_t now = clock_now_ns(), until = now + pause;
	int64_t last = r->deadline - LAST_CHANCE_NS;

	if (!r->req->deadline_ns || !read_error_may_pass(rc) ||
	    pace_level(r->req->pace) == PACE_STOP)
		return rc;
	if (now >= last) {
		if (err)
			err->code = ETIMEDOUT; /* the message stays */
		return -ETIMEDOUT;
	}
	until = until < last ? until : last;
	(void)pthread_mutex_lock(&r->lock);
	for (; now < until; now = clock_now_ns()) {
		int64_t tick = now + TICK_NS;

		if (pace_level(r->req->pace) == PACE_STOP)
			break;
		(void)cond_wait_until(&r->progress, &r->lock,
				      tick < until ? tick : until);
	}
	(void)pthread_mutex_unlock(&r->lock);
	engine_run(r->i->p, begin_wanting_rest, r);
	return 0;
}

static int reader_put(struct reader *r, struct block_sink *sink,
		      const void *data, struct error *err)
{
	pace_moves(r->req->pace);
	return sink->put(sink, r->next, data, err);
}

static int put_cached(struct reader *r, struct block_sink *sink,
		      struct error *err)
{
	const struct block *b = &r->req->blocks[r->next];
	AUTO_FREE void *data = malloc(b->usize);
	int rc;

	if (!data)
		return error_nomem(err);
	rc = cache_read(r->i->p->cfg.cache, b, 0, data, b->usize, err);
	return rc < 0 ? rc : reader_put(r, sink, data, err);
}

static int pass_blocks_to_sink(struct reader *r, struct block_sink *sink,
			       struct error *err)
{
	struct p2p *p = r->i->p;
	unsigned int failed = 0;

	while (r->next < r->req->n_blocks) {
		struct bytes *b;
		int rc = reader_await(r, err);

		if (rc < 0) {
			rc = begin_once_more(r, rc, failed++, err);
			if (rc < 0)
				return rc;
			continue;
		}
		failed = 0;
		b = r->bytes[r->next];
		r->bytes[r->next] = NULL;
		rc = b ? reader_put(r, sink, b->data, err)
		       : put_cached(r, sink, err);
		bytes_unref(b);
		if (rc == -ENOENT && !b) {
			engine_run(p, begin_wanting_piece_again, r);
			continue;
		}
		if (rc < 0)
			return rc;
		(void)pthread_mutex_lock(&r->lock);
		r->taken += r->req->blocks[r->next++].usize;
		(void)pthread_mutex_unlock(&r->lock);
		if (want_more(r))
			engine_run(p, reader_begin, r);
	}
	return 0;
}

/* Find the piece of each block by its place, and check that the block map has the same block
 * there: its bytes are stored under its digest. */
static int find_pieces(struct reader *r, uint32_t pack, struct error *err)
{
	for (size_t k = 0; k < r->req->n_blocks; k++) {
		struct block b = r->req->blocks[k], piece;

		r->waiters[k].piece = PIECE_NONE;
		b.pack = pack;
		r->pieces[k] = image_piece(r->i, &b);
		if (r->pieces[k] == PIECE_NONE)
			return error_set(err, EINVAL,
					 "image %s: no block lies there",
					 r->i->label);
		image_block(r->i, r->pieces[k], &piece);
		if (!block_is_same(&b, &piece))
			return error_set(
				err, EBADMSG,
				"image %s: another block lies at %" PRIu64
				" of pack %" PRIu32 ": convert the image again",
				r->i->label, b.poff, pack);
	}
	return 0;
}

static int peer_read(struct block_source *s, const struct block_req *req,
		     struct block_sink *sink, struct error *err)
{
	struct peer_source *ps = container_of(s, struct peer_source, base);
	size_t n = req->n_blocks;
	AUTO_FREE uint32_t *pieces = calloc(n + 1, sizeof(*pieces));
	AUTO_FREE struct waiter *waiters = calloc(n + 1, sizeof(*waiters));
	AUTO_FREE struct bytes **bytes =
		(struct bytes **)calloc(n + 1, sizeof(struct bytes *));
	AUTO_FREE uint8_t *answers = calloc(n + 1, 1);
	struct reader r = {
		.i = ps->i,
		.req = req,
		.pieces = pieces,
		.waiters = waiters,
		.bytes = bytes,
		.answers = answers,
		.deadline = req->deadline_ns ? req->deadline_ns
					     : clock_now_ns() + PATIENCE_NS,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	int rc;

	if (!pieces || !waiters || !bytes || !answers)
		return error_nomem(err);
	rc = find_pieces(&r, ps->pack, err);
	if (rc < 0)
		return rc;
	cond_init(&r.progress);
	engine_run(ps->i->p, reader_begin, &r);
	rc = pass_blocks_to_sink(&r, sink, err);
	engine_run(ps->i->p, reader_end, &r);
	for (size_t k = 0; k < n; k++)
		bytes_unref(bytes[k]);
	(void)pthread_cond_destroy(&r.progress);
	(void)pthread_mutex_destroy(&r.lock);
	return rc;
}

static void peer_free(struct block_source *s)
{
	free(container_of(s, struct peer_source, base));
}

static const struct block_source_ops peer_ops = {
	.name = "peers",
	.read = peer_read,
	.free = peer_free,
};

int p2p_image_source(struct p2p_image *i, uint32_t pack,
		     struct block_source **ret, struct error *err)
{
	struct peer_source *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->base.ops = &peer_ops;
	s->i = i;
	s->pack = pack;
	*ret = &s->base;
	return 0;
}
