// SPDX-License-Identifier: Apache-2.0
/* Waiting for pieces: a reader for single pieces, a list for many. */
#include <errno.h>

#include "common/clock.h"
#include "p2p/engine/engine.h"

/* Share of the memory for bytes that are unpacked before a reader takes them: 1/8 for one
 * reader, so that a slow disk slows its reader down; 1/2 for all. */
#define AHEAD_SHARE 8
#define AHEAD_ALL 2

static struct waiter_list *waiters_of_piece(struct p2p_image *i, uint32_t piece)
{
	return &i->wants.waiters[piece % WAITER_BUCKETS];
}

static bool bit_is_set(const uint8_t *bits, uint32_t k)
{
	return bits[k / 8] >> k % 8 & 1;
}

void wants_init(struct p2p_image *i)
{
	LIST_INIT(&i->wants.listers);
	for (size_t k = 0; k < WAITER_BUCKETS; k++)
		LIST_INIT(&i->wants.waiters[k]);
}

/* ------------------------------------------------------------- readers --- */

/* Give the reader an answer; takes `b`. */
static void reader_answer(struct reader *r, size_t index, enum answer a,
			  struct bytes *b)
{
	(void)pthread_mutex_lock(&r->lock);
	r->answers[index] = (uint8_t)a;
	r->bytes[index] = b;
	if (index == r->next)
		(void)pthread_cond_signal(&r->progress);
	(void)pthread_mutex_unlock(&r->lock);
}

static void fail_reader(struct reader *r, int rc, const struct error *err)
{
	(void)pthread_mutex_lock(&r->lock);
	if (r->rc == 0) {
		r->rc = rc;
		r->err = *err;
	}
	(void)pthread_cond_signal(&r->progress);
	(void)pthread_mutex_unlock(&r->lock);
}

static void waiter_unwait(struct waiter *w)
{
	if (w->piece == PIECE_NONE)
		return;
	LIST_REMOVE(w, link);
	w->piece = PIECE_NONE;
}

/* Wait for a piece's bytes, from peer or origin. */
static void reader_await_piece(struct reader *r, size_t index, int64_t now)
{
	struct waiter *w = &r->waiters[index];
	struct p2p_image *i = r->i;
	struct error err = ERROR_INIT;
	int rc;

	w->reader = r;
	w->index = index;
	w->piece = r->pieces[index];
	LIST_INSERT_HEAD(waiters_of_piece(i, w->piece), w, link);
	rc = swarm_demand(i->swarm, w->piece, now, r->deadline);
	if (rc < 0) {
		(void)error_set(&err, -rc, "image %s: too many readers wait",
				i->label);
		fail_reader(r, rc, &err);
	}
	image_settle(i);
}

static void want_read(struct reader *r, size_t index)
{
	int64_t now = clock_now_ns();

	waiter_unwait(&r->waiters[index]);
	if (image_look(r->i, r->pieces[index], now))
		reader_answer(r, index, ANSWER_CACHED, NULL);
	else
		reader_await_piece(r, index, now);
}

static uint64_t max_ahead_bytes(const struct reader *r)
{
	return r->i->p->cfg.memory / AHEAD_SHARE;
}

static void subtract_taken_bytes(struct reader *r)
{
	r->ahead -= r->taken;
	r->i->p->ahead -= r->taken;
	r->taken = 0;
}

void want_ahead(struct reader *r)
{
	struct p2p *p = r->i->p;

	subtract_taken_bytes(r);
	while (r->wanted < r->req->n_blocks) {
		uint32_t size = r->req->blocks[r->wanted].usize;

		if (r->wanted > r->next &&
		    (r->ahead + size > max_ahead_bytes(r) ||
		     p->ahead + size > p->cfg.memory / AHEAD_ALL))
			break;
		r->ahead += size;
		p->ahead += size;
		want_read(r, r->wanted++);
	}
}

bool want_more(const struct reader *r)
{
	return r->wanted < r->req->n_blocks &&
	       (r->wanted == r->next ||
		r->ahead - r->taken <= max_ahead_bytes(r) / 2);
}

void want_again(struct reader *r, size_t index)
{
	struct swarm *s = r->i->swarm;

	waiter_unwait(&r->waiters[index]);
	if (swarm_has(s, r->pieces[index]))
		swarm_drop(s, r->pieces[index]);
	reader_answer(r, index, ANSWER_NONE, NULL);
	reader_await_piece(r, index, clock_now_ns());
}

void want_rest(struct reader *r)
{
	(void)pthread_mutex_lock(&r->lock);
	r->rc = 0;
	(void)pthread_mutex_unlock(&r->lock);
	/* Only this thread answers and fails readers. */
	for (size_t k = r->next; k < r->wanted; k++)
		if (r->answers[k] == ANSWER_NONE &&
		    r->waiters[k].piece == PIECE_NONE)
			want_read(r, k);
}

int64_t want_deadline(const struct p2p_image *i, uint32_t piece)
{
	const struct waiter *w;
	int64_t last = 0;

	LIST_FOREACH(w, &i->wants.waiters[piece % WAITER_BUCKETS], link)
	if (w->piece == piece && w->reader->deadline > last)
		last = w->reader->deadline;
	return last;
}

void want_no_read(struct reader *r)
{
	struct p2p_image *i = r->i;

	i->p->ahead -= r->ahead;
	r->ahead = r->taken = 0;
	for (size_t k = 0; k < r->req->n_blocks; k++) {
		uint32_t piece = r->waiters[k].piece;

		waiter_unwait(&r->waiters[k]);
		if (piece != PIECE_NONE && !want_deadline(i, piece))
			swarm_undemand(i->swarm, piece);
	}
	image_settle(i);
}

/* --------------------------------------------------------------- lists --- */

/* Append an arrived piece; with the list's lock held. */
static void list_push(struct lister *l, uint32_t piece, uint32_t cost)
{
	l->came[l->n_came++] = (struct came){ piece, cost };
	l->came_bytes += cost;
	(void)pthread_cond_signal(&l->progress);
}

static bool lister_is_of_kind(const struct lister *l, int k)
{
	return l->list->priority == (k == 0 ? SOURCE_HOT : SOURCE_COLD);
}

static void update_pause(struct p2p_image *i)
{
	const struct lister *l;
	bool some = false, all = true;

	LIST_FOREACH(l, &i->wants.listers, link)
	{
		some = true;
		all = all && l->is_paused;
	}
	swarm_pause(i->swarm, some && all, clock_now_ns());
}

static void change_wants(struct p2p_image *i, const struct device_list *list)
{
	i->wants.is_changed[list->priority == SOURCE_COLD] = true;
	image_settle(i);
}

void want_list(struct lister *l)
{
	struct p2p_image *i = l->i;
	int64_t now = clock_now_ns();

	(void)pthread_mutex_lock(&l->lock);
	for (size_t k = 0; k < l->n; k++) {
		uint32_t piece = l->pieces[k];

		if (bit_is_set(l->held, piece) && !swarm_has(i->swarm, piece)) {
			swarm_have(i->swarm, piece, now);
			want_came(i, piece, NULL, 0, 0, NULL);
		}
		/* The piece may have come or gone since the cache was checked. */
		if (bit_is_set(l->held, piece) || image_look(i, piece, now))
			list_push(l, piece, 0);
		else
			l->awaited[piece / 8] |= (uint8_t)(1u << piece % 8);
	}
	(void)pthread_mutex_unlock(&l->lock);
	LIST_INSERT_HEAD(&i->wants.listers, l, link);
	update_pause(i);
	change_wants(i, l->list);
}

void want_no_list(struct lister *l)
{
	struct p2p_image *i = l->i;

	LIST_REMOVE(l, link);
	change_wants(i, l->list);
	/* The core must know before it goes on. */
	want_update(i, clock_now_ns());
	update_pause(i);
}

void want_pause(struct lister *l, bool is_paused)
{
	l->is_paused = is_paused;
	update_pause(l->i);
	image_settle(l->i);
}

static size_t count_wants(const struct p2p_image *i, int k)
{
	const struct lister *l;
	size_t n = 0;

	LIST_FOREACH(l, &i->wants.listers, link)
	n += lister_is_of_kind(l, k) ? l->n : 0;
	return n;
}

static void fail_list(struct lister *l, int rc, const struct error *err)
{
	(void)pthread_mutex_lock(&l->lock);
	if (l->rc == 0) {
		l->rc = rc;
		l->err = *err;
	}
	(void)pthread_cond_signal(&l->progress);
	(void)pthread_mutex_unlock(&l->lock);
}

static void fail_lists(struct p2p_image *i, int k, int rc,
		       const struct error *err)
{
	struct lister *l;

	LIST_FOREACH(l, &i->wants.listers, link)
	{
		if (lister_is_of_kind(l, k))
			fail_list(l, rc, err);
	}
}

static int update_wants(struct p2p_image *i, int k, size_t room, int64_t now)
{
	enum source_priority priority = k == 0 ? SOURCE_HOT : SOURCE_COLD;
	AUTO_FREE uint32_t *pieces = malloc(room * sizeof(*pieces));
	const struct lister *l;
	size_t n = 0;

	if (!pieces)
		return -ENOMEM;
	LIST_FOREACH(l, &i->wants.listers, link)
	{
		if (!lister_is_of_kind(l, k))
			continue;
		for (size_t at = 0; at < l->n; at++)
			if (bit_is_set(l->awaited, l->pieces[at]))
				pieces[n++] = l->pieces[at];
	}
	return swarm_want(i->swarm, priority, pieces, n, now);
}

void want_update(struct p2p_image *i, int64_t now)
{
	struct error err = ERROR_INIT;

	for (int k = 0; k < 2; k++) {
		size_t n;
		int rc;

		if (!i->wants.is_changed[k])
			continue;
		i->wants.is_changed[k] = false;
		n = count_wants(i, k);
		if (n == 0) {
			swarm_forget(i->swarm,
				     k == 0 ? SOURCE_HOT : SOURCE_COLD, now);
			continue;
		}
		rc = update_wants(i, k, n, now);
		if (rc < 0) {
			(void)error_errno(&err, -rc, "image %s: want pieces",
					  i->label);
			fail_lists(i, k, rc, &err);
		}
	}
}

/* ------------------------------------------------------------- answers --- */

void want_came(struct p2p_image *i, uint32_t piece, struct bytes *bytes,
	       uint32_t cost, int kept, const struct error *err)
{
	struct waiter *w = LIST_FIRST(waiters_of_piece(i, piece)), *next;
	struct lister *l;

	for (; w; w = next) {
		next = LIST_NEXT(w, link);
		if (w->piece != piece)
			continue;
		waiter_unwait(w);
		reader_answer(w->reader, w->index,
			      bytes ? ANSWER_BYTES : ANSWER_CACHED,
			      bytes ? bytes_ref(bytes) : NULL);
	}
	LIST_FOREACH(l, &i->wants.listers, link)
	{
		if (!bit_is_set(l->awaited, piece))
			continue;
		l->awaited[piece / 8] &= (uint8_t) ~(1u << piece % 8);
		(void)pthread_mutex_lock(&l->lock);
		if (kept == 0) {
			list_push(l, piece, cost);
		} else if (l->rc == 0) {
			l->rc = kept;
			l->err = *err;
			(void)pthread_cond_signal(&l->progress);
		}
		(void)pthread_mutex_unlock(&l->lock);
	}
}

void want_failed(struct p2p_image *i, uint32_t piece, int rc,
		 const struct error *err)
{
	struct waiter *w = LIST_FIRST(waiters_of_piece(i, piece)), *next;
	bool had_reader = false;
	struct lister *l;

	for (; w; w = next) {
		next = LIST_NEXT(w, link);
		if (w->piece != piece)
			continue;
		waiter_unwait(w);
		fail_reader(w->reader, rc, err);
		had_reader = true;
	}
	LIST_FOREACH(l, &i->wants.listers, link)
	{
		if (!bit_is_set(l->awaited, piece))
			continue;
		/* The reader's deadline is not the list's: for the list, the piece is wanted
		 * again. */
		if (rc == -ETIMEDOUT && had_reader) {
			change_wants(i, l->list);
			continue;
		}
		fail_list(l, rc, err);
	}
}
