// SPDX-License-Identifier: Apache-2.0
/* Readers' side: a pack as a source of verified blocks. */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine.h"

#define TICK_NS (50 * NS_PER_MS)    /* how soon a stop is seen */
#define PATIENCE_NS (30 * NS_PER_S) /* where the request has no deadline */

struct peer_source {
	struct source base;
	struct p2p_image *i;
	uint32_t pack;
};

static void begin(void *arg)
{
	struct reader *r = arg;

	for (size_t k = 0; k < r->req->n_blocks; k++)
		want_read(r, k);
}

static void begin_again(void *arg)
{
	struct reader *r = arg;

	want_again(r, r->next);
}

static void end(void *arg)
{
	want_no_read(arg);
}

/* Until block r->next has an answer.  Returns 0 or why there will be none. */
static int await(struct reader *r, struct error *err)
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
		cond_wait_until(&r->progress, &r->lock,
				until < r->deadline ? until : r->deadline);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return rc;
}

static int put(struct reader *r, struct source_sink *sink, const void *data,
	       struct error *err)
{
	const struct block *b = &r->req->blocks[r->next];

	if (r->req->pace && r->req->pace->moves)
		r->req->pace->moves(r->req->pace);
	return sink->put(sink, r->next, data, b->usize, err);
}

static int put_cached(struct reader *r, struct source_sink *sink,
		      struct error *err)
{
	const struct block *b = &r->req->blocks[r->next];
	AUTO_FREE void *data = malloc(b->usize);
	int rc;

	if (!data)
		return error_nomem(err);
	rc = cache_read(r->i->p->cfg.cache, b, 0, data, b->usize, err);
	return rc < 0 ? rc : put(r, sink, data, err);
}

static int pass_on(struct reader *r, struct source_sink *sink,
		   struct error *err)
{
	struct p2p *p = r->i->p;

	while (r->next < r->req->n_blocks) {
		struct bytes *b;
		int rc = await(r, err);

		if (rc < 0)
			return rc;
		b = r->bytes[r->next];
		r->bytes[r->next] = NULL;
		rc = b ? put(r, sink, b->data, err) : put_cached(r, sink, err);
		bytes_unref(b);
		if (rc == -ENOENT && !b) {
			engine_run(p, begin_again, r);
			continue;
		}
		if (rc < 0)
			return rc;
		(void)pthread_mutex_lock(&r->lock);
		r->next++;
		(void)pthread_mutex_unlock(&r->lock);
	}
	return 0;
}

static int find_pieces(struct reader *r, uint32_t pack, struct error *err)
{
	for (size_t k = 0; k < r->req->n_blocks; k++) {
		struct block b = r->req->blocks[k];

		r->waiters[k].piece = PIECE_NONE;
		b.pack = pack;
		r->pieces[k] = image_piece(r->i, &b);
		if (r->pieces[k] == PIECE_NONE)
			return error_set(err, EINVAL,
					 "image %s: no block lies there",
					 r->i->label);
	}
	return 0;
}

static int peer_read(struct source *s, const struct source_req *req,
		     struct source_sink *sink, struct error *err)
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

	if (!req->blocks)
		return error_set(err, EINVAL, "only whole blocks are verified");
	if (!pieces || !waiters || !bytes || !answers)
		return error_nomem(err);
	rc = find_pieces(&r, ps->pack, err);
	if (rc < 0)
		return rc;
	cond_init(&r.progress);
	engine_run(ps->i->p, begin, &r);
	rc = pass_on(&r, sink, err);
	engine_run(ps->i->p, end, &r);
	for (size_t k = 0; k < n; k++)
		bytes_unref(bytes[k]);
	(void)pthread_cond_destroy(&r.progress);
	(void)pthread_mutex_destroy(&r.lock);
	return rc;
}

static void peer_free(struct source *s)
{
	free(container_of(s, struct peer_source, base));
}

static const struct source_ops peer_ops = {
	.name = "peers",
	.read = peer_read,
	.free = peer_free,
	.is_verified = true,
};

int p2p_image_source(struct p2p_image *i, uint32_t pack, struct source **ret,
		     struct error *err)
{
	struct peer_source *s = calloc(1, sizeof(*s));
	struct pack p;

	if (!s)
		return error_nomem(err);
	blockmap_pack(i->map, pack, &p);
	s->base.ops = &peer_ops;
	s->base.size = p.size;
	s->i = i;
	s->pack = pack;
	*ret = &s->base;
	return 0;
}
