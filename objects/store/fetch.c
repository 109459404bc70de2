// SPDX-License-Identifier: Apache-2.0
/*
 * A read is cut into pieces; each is one request unless it fails. The reading thread waits for all
 * and watches the slowest. A hedge and its first request write the same bytes to the same place,
 * under the piece's lock, so that none writes after the read has returned.
 */
#include "objects/store/fetch.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/clock.h"
#include "common/compare.h"
#include "common/cond.h"

#define HISTORY 64u
#define HISTORY_MIN 8u /* samples needed to judge */
/* No piece is late before this time. */
#define HEDGE_MIN_NS (250 * 1000000LL)
/* The same while there are too few samples. */
#define HEDGE_BLIND_NS (3000 * 1000000LL)
#define HEDGE_SHARE 10u /* one hedge in this many pieces, */
#define HEDGE_SILENT 2u /* and this many more for pieces without any byte */

struct fetch_history {
	pthread_mutex_t lock; /* protects the rest */
	int64_t ns[HISTORY];  /* durations of the last pieces; a ring */
	uint64_t n, n_hedges;
};

struct range_read;

/* A contiguous part of the object, in one or more buffers. */
struct range_piece {
	struct range_read *read;
	uint64_t off, end;
	/* Range in which the piece begins. */
	const struct object_range *first;
	/* Bytes of that range before the piece. */
	size_t skip;
	int64_t begun_ns;     /* 0: not yet */
	int64_t moved_ns;     /* when its last bytes came; 0: never */
	unsigned int n_tries; /* tries running or waiting */
	bool is_hedged, is_done;
	uint64_t best; /* offset that the first try has reached */
};

/* State of one call of object_read(); lives until the last try has ended. */
struct range_read {
	struct object *object;
	struct fetch_history *history;
	fetch_fn *fn;
	int64_t deadline_ns;

	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t moved; /* a piece ended */
	unsigned int n_refs;  /* the reader and the tries */
	unsigned int n_open;  /* pieces that are not done */
	bool is_over;         /* the reader has returned: no byte is wanted */
	int rc;
	struct error err;
	size_t n_pieces;
	struct range_piece pieces[];
};

/* A try of a piece: its first request, or the hedge. */
struct piece_try {
	struct work work;
	struct fetch_try try;
	struct range_piece *piece;
	int64_t asked_ns;
};

/* ---------------------------------------------------------------- history --- */

int fetch_history_new(struct fetch_history **ret, struct error *err)
{
	struct fetch_history *h = calloc(1, sizeof(*h));

	if (!h)
		return error_nomem(err);
	(void)pthread_mutex_init(&h->lock, NULL);
	*ret = h;
	return 0;
}

void fetch_history_free(struct fetch_history *h)
{
	if (!h)
		return;
	(void)pthread_mutex_destroy(&h->lock);
	free(h);
}

static void history_add_duration(struct fetch_history *h, int64_t ns)
{
	(void)pthread_mutex_lock(&h->lock);
	h->ns[h->n++ % HISTORY] = ns;
	(void)pthread_mutex_unlock(&h->lock);
}

/* Time after which a piece is late: twice what 19 of 20 took; 0: not known yet. */
static int64_t get_late_time_ns(struct fetch_history *h)
{
	int64_t ns[HISTORY];
	size_t n;

	(void)pthread_mutex_lock(&h->lock);
	n = h->n < HISTORY ? (size_t)h->n : HISTORY;
	memcpy(ns, h->ns, n * sizeof(*ns));
	(void)pthread_mutex_unlock(&h->lock);
	if (n < HISTORY_MIN)
		return 0;
	qsort(ns, n, sizeof(*ns), compare_i64);
	ns[0] = 2 * ns[n * 19 / 20];
	return ns[0] > HEDGE_MIN_NS ? ns[0] : HEDGE_MIN_NS;
}

/* May another hedge start? Too many hedges would slow the store down themselves. */
static bool may_hedge(struct fetch_history *h, bool is_silent)
{
	bool may;

	(void)pthread_mutex_lock(&h->lock);
	may = h->n_hedges < h->n / HEDGE_SHARE + (is_silent ? HEDGE_SILENT : 0);
	h->n_hedges += may;
	(void)pthread_mutex_unlock(&h->lock);
	return may;
}

/* ------------------------------------------------------------------ pieces --- */

/* Copy bytes from offset `pos` on to the buffers where they belong. */
static void scatter_bytes(const struct range_piece *p, uint64_t pos,
			  const char *data, size_t len)
{
	const struct object_range *r = p->first;
	uint64_t at = pos - p->off + p->skip; /* from the start of `r` */

	while (len) {
		size_t n;

		for (; at >= r->len; r++)
			at -= r->len;
		n = r->len - (size_t)at < len ? r->len - (size_t)at : len;
		memcpy((char *)r->buf + at, data, n);
		data += n;
		len -= n;
		at += n;
	}
}

static bool range_piece_is_wanted(const struct range_piece *p)
{
	return !p->is_done && !p->read->is_over;
}

int fetch_put(struct fetch_try *t, const void *data, size_t len,
	      struct error *err)
{
	struct piece_try *own = container_of(t, struct piece_try, try);
	struct range_piece *p = own->piece;
	bool wanted;

	if (len > t->end - t->pos)
		return error_set(err, EPROTO,
				 "the server sent more bytes than were asked "
				 "for");
	(void)pthread_mutex_lock(&p->read->lock);
	wanted = range_piece_is_wanted(p);
	if (wanted) {
		store_note_answer(p->read->object->store);
		scatter_bytes(p, t->pos, data, len);
		t->pos += len;
		if (t->pos > p->best)
			p->best = t->pos;
		p->moved_ns = clock_now_ns();
	}
	(void)pthread_mutex_unlock(&p->read->lock);
	return wanted ? 0 : error_set(err, ECANCELED, "not wanted any more");
}

static enum pace_level try_level(struct pace *pace)
{
	struct fetch_try *t = container_of(pace, struct fetch_try, pace);
	struct range_piece *p = container_of(t, struct piece_try, try)->piece;
	bool wanted;

	(void)pthread_mutex_lock(&p->read->lock);
	wanted = range_piece_is_wanted(p);
	(void)pthread_mutex_unlock(&p->read->lock);
	return wanted ? PACE_GO : PACE_STOP;
}

/* Drop a reference; called with the lock held, and releases it. */
static void read_unref(struct range_read *r)
{
	bool last = --r->n_refs == 0;

	(void)pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	(void)pthread_cond_destroy(&r->moved);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}

/* ------------------------------------------------------------------- tries --- */

static int retry_piece(struct piece_try *own, struct error *err)
{
	struct range_read *r = own->piece->read;
	struct fetch_try *t = &own->try;
	struct retry_budget retry;

	retry_init(&retry, r->object->store, r->deadline_ns);
	retry.pace = &t->pace;
	for (;;) {
		struct retry_verdict v = { .can_retry = false };
		uint64_t before = t->pos;
		int rc;

		t->until_ns = r->deadline_ns;
		atomic_fetch_add(&r->object->store->count.n_requests, 1);
		rc = r->fn(t, &v, err);
		if (rc == 0)
			return 0;
		if (t->pos > before)
			retry_progress(&retry);
		if (!retry_again(&retry, &v, err))
			return rc;
	}
}

static void try_run(struct work *w)
{
	struct piece_try *own = container_of(w, struct piece_try, work);
	struct range_piece *p = own->piece;
	struct range_read *r = p->read;
	struct error err = ERROR_INIT;
	int64_t begun = clock_now_ns();
	struct object *o;
	bool wanted, won = false;
	int rc = 0;

	store_count_queue(r->object->store, &r->object->store->count.read_waits,
			  own->asked_ns);
	(void)pthread_mutex_lock(&r->lock);
	wanted = range_piece_is_wanted(p) && r->rc == 0;
	if (wanted && !p->begun_ns)
		p->begun_ns = begun;
	/* A hedge begins where the first try is. */
	own->try.pos = p->best;
	(void)pthread_mutex_unlock(&r->lock);
	if (wanted)
		rc = retry_piece(own, &err);
	(void)pthread_mutex_lock(&r->lock);
	p->n_tries--;
	if (!p->is_done && (rc == 0 || p->n_tries == 0)) {
		won = wanted && rc == 0;
		p->is_done = true;
		r->n_open--;
		if (rc < 0 && r->rc == 0) {
			r->rc = rc;
			r->err = err;
		}
		(void)pthread_cond_signal(&r->moved);
	}
	begun = p->begun_ns;
	if (won && own->try.is_hedge)
		atomic_fetch_add(&r->object->store->count.n_hedges_won, 1);
	if (won && r->history)
		history_add_duration(r->history, clock_now_ns() - begun);
	free(own);
	o = r->object;
	read_unref(r);
	object_close(o);
}

/* Start a try. Called with the lock held, or before other threads know the read. */
static int try_start(struct range_piece *p, bool is_hedge, struct error *err)
{
	struct range_read *r = p->read;
	struct piece_try *own = calloc(1, sizeof(*own));
	int rc;

	if (!own)
		return error_nomem(err);
	own->piece = p;
	own->asked_ns = clock_now_ns();
	own->work.run = try_run;
	own->try = (struct fetch_try){
		.object = r->object,
		.end = p->end,
		.is_hedge = is_hedge,
		.pace = { .level = try_level, .is_urgent = true },
	};
	rc = store_submit(r->object->store, &own->work, is_hedge, err);
	if (rc < 0) {
		free(own);
		return rc;
	}
	store_object_ref(r->object);
	r->n_refs++;
	p->n_tries++;
	return 0;
}

/* ------------------------------------------------------------------ reader --- */

/* Remaining time of a piece, at the rate of its bytes so far. */
static int64_t piece_left_ns(const struct range_piece *p, int64_t now)
{
	const double pace =
		(double)(p->best - p->off) / (double)(now - p->begun_ns + 1);

	return pace > 0 ? (int64_t)((double)(p->end - p->best) / pace)
			: INT64_MAX;
}

/*
 * The moment from which the piece is late.  Where a link is what makes pieces slow, bytes of all of
 * them come, and a hedge takes from the others what it brings.  So a piece whose bytes come is late
 * only when the rest, at its pace, takes longer than others took in all, and never while nothing is
 * known of others.
 */
static int64_t piece_late_at(const struct range_piece *p, int64_t late,
			     int64_t now, bool *ret_is_silent)
{
	const int64_t heard =
		p->moved_ns > p->begun_ns ? p->moved_ns : p->begun_ns;
	const int64_t silent = late ? late : HEDGE_BLIND_NS;
	int64_t left;

	*ret_is_silent = now - heard >= silent;
	if (*ret_is_silent || !late)
		return heard + silent;
	if (now - p->begun_ns < late)
		return p->begun_ns + late;
	left = piece_left_ns(p, now);
	return left > late ? now : now + late;
}

/* Start a hedge for each late piece; returns when to check again. */
static int64_t hedge_late_pieces(struct range_read *r)
{
	const int64_t late = get_late_time_ns(r->history), now = clock_now_ns();
	int64_t next = now + (late ? late : HEDGE_BLIND_NS);

	for (size_t i = 0; i < r->n_pieces; i++) {
		struct range_piece *p = &r->pieces[i];
		bool is_silent;
		int64_t at;

		if (p->is_done || p->is_hedged || !p->begun_ns)
			continue;
		at = piece_late_at(p, late, now, &is_silent);
		if (at > now) {
			next = at < next ? at : next;
			continue;
		}
		if (!may_hedge(r->history, is_silent))
			continue;
		p->is_hedged = true;
		if (try_start(p, true, NULL) == 0)
			atomic_fetch_add(&r->object->store->count.n_hedges, 1);
	}
	return next;
}

/* Wait until all pieces are here, or one failed. Called with the lock held. */
static int wait_for_all(struct range_read *r, struct error *err)
{
	while (r->n_open && r->rc == 0) {
		int64_t now = clock_now_ns(), until = now + NS_PER_S;

		if (r->deadline_ns && now >= r->deadline_ns)
			return error_set(err, ETIMEDOUT,
					 "the deadline is over");
		if (r->history)
			until = hedge_late_pieces(r);
		if (r->deadline_ns && r->deadline_ns < until)
			until = r->deadline_ns;
		(void)cond_wait_until(&r->moved, &r->lock, until);
	}
	if (r->rc < 0 && err)
		*err = r->err;
	return r->rc;
}

/* Does range `b` follow `a` in the object? */
static bool range_follows(const struct object_range *a,
			  const struct object_range *b)
{
	return a->off + a->len == b->off;
}

/* Cut the ranges into pieces of at most `most` bytes; `ret` NULL: count them. */
static size_t cut_pieces(const struct object_range *ranges, size_t n,
			 uint64_t most, struct range_piece *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < n;) {
		size_t first = i, at = 0;
		uint64_t off = ranges[i].off, end = off + ranges[i].len;

		for (i++; i < n && range_follows(&ranges[i - 1], &ranges[i]);
		     i++)
			end += ranges[i].len;
		/* Even pieces, because a short last one would be mostly latency. */
		for (uint64_t k = (end - off + most - 1) / most; k; k--) {
			uint64_t len = (end - off + k - 1) / k;

			while (at >= ranges[first].len)
				at -= ranges[first++].len;
			if (ret)
				ret[count] = (struct range_piece){
					.off = off,
					.end = off + len,
					.best = off,
					.first = &ranges[first],
					.skip = at,
				};
			count++;
			off += len;
			at += len;
		}
	}
	return count;
}

static struct range_read *read_new(struct object *o, struct fetch_history *h,
				   fetch_fn *fn,
				   const struct object_range *ranges, size_t n,
				   int64_t deadline_ns)
{
	uint64_t most = o->store->caps.read_size;
	size_t count = cut_pieces(ranges, n, most, NULL);
	struct range_read *r =
		calloc(1, sizeof(*r) + count * sizeof(r->pieces[0]));

	if (!r)
		return NULL;
	r->object = o;
	r->history = h;
	r->fn = fn;
	r->deadline_ns = deadline_ns;
	r->n_refs = 1;
	r->n_pieces = cut_pieces(ranges, n, most, r->pieces);
	(void)pthread_mutex_init(&r->lock, NULL);
	cond_init(&r->moved);
	return r;
}

int fetch_ranges(struct object *o, struct fetch_history *h, fetch_fn *fn,
		 const struct object_range *ranges, size_t n,
		 int64_t deadline_ns, struct error *err)
{
	struct range_read *r = read_new(o, h, fn, ranges, n, deadline_ns);
	int rc = 0;

	if (!r)
		return error_nomem(err);
	(void)pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->n_pieces && rc == 0; i++) {
		r->pieces[i].read = r;
		rc = try_start(&r->pieces[i], false, err);
		r->n_open += rc == 0;
	}
	if (rc == 0)
		rc = wait_for_all(r, err);
	r->is_over = true;
	read_unref(r);
	return rc;
}
