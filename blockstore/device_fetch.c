// SPDX-License-Identifier: Apache-2.0
/*
 * Prefetching: fetches lists of blocks that nobody reads yet.
 *
 * The calling thread cuts the list into requests and keeps the wanted number of them running;
 * the fetcher's threads perform them. A request is a range of neighbouring *places* in a pack.
 * Each of its blocks is a flight like any other, so a reader that needs one gets it first.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "blockstore/device_priv.h"
#include "blockstore/fetcher_pace.h"
#include "blockstore/span_map.h"
#include "common/clock.h"
#include "common/cond.h"

#define PIECES_MAX 16384u /* blocks under way for one list */
#define LOOK_AHEAD \
	4096u /* list entries within which a neighbour of the next block is fetched too */
/* Longest request where blocks come slowly: nodes with fewer requests then get each sooner. */
#define SLOW_RANGE (512u << 10)
/* A request may be as long as an eighth of all requested before it: blocks of the first
 * requests are wanted soon, later there is time (docs/decisions/0020). */
#define RANGE_SHARE 8u
/* But no longer than it brings in this time: for a reader that waits for its last block it
 * would be cut, and bytes on their way would come twice. */
#define GROWN_NS 350000000LL
#define TICK_NS 50000000LL /* longest delay until a cancel is noticed */
#define NONE UINT32_MAX

enum place_state {
	PLACE_OPEN,
	PLACE_ASKED, /* a flight for it exists */
	PLACE_DONE,  /* it is in the cache, or will not be tried again */
};

struct fetch_run {
	struct device *dev;
	const struct device_list *list;
	const struct places *places;
	struct pending *p;
	/* for each place: its first position in the list, or NONE */
	uint32_t *first;
	/* for each position: the next one with the same place, or NONE */
	uint32_t *same;
	uint8_t *state; /* for each place: enum place_state */
	size_t next;    /* all positions before it are no longer PLACE_OPEN */
	/* for each running request: pieces not yet seen done */
	uint32_t *slots;
	unsigned int n_slots_used;
	uint64_t asked;         /* stored bytes of all requests so far */
	size_t n_out;           /* pieces in use */
	struct piece_list idle; /* free pieces */
	int64_t resume_ns;      /* no request begins before this time */
};

/* Places [first, end) of one pack. */
struct device_range {
	uint32_t first, end;
	uint64_t bytes;
};

static bool is_cancelled(const struct fetch_run *r)
{
	return r->list->cancel &&
	       __atomic_load_n(r->list->cancel, __ATOMIC_RELAXED);
}

static void block_at(const struct fetch_run *r, uint32_t place,
		     struct block *ret)
{
	blockmap_block(r->dev->map, r->places->entry[place], ret);
}

static bool is_block_in_cache(const struct fetch_run *r, const struct block *b)
{
	return cache_has(r->dev->f->cfg.cache, &b->digest);
}

static void device_fetch_tell(const struct fetch_run *r, uint32_t place,
			      uint32_t cost)
{
	r->state[place] = PLACE_DONE;
	if (r->first[place] == NONE && cost && r->list->have)
		r->list->have(r->list->arg, r->places->entry[place], cost);
	for (uint32_t pos = r->first[place]; pos != NONE; pos = r->same[pos]) {
		if (r->list->have)
			r->list->have(r->list->arg, r->list->blocks[pos], cost);
		cost = 0;
	}
}

/* Move on to the next block to request; false: there is none. */
static bool device_fetch_advance(struct fetch_run *r)
{
	for (; r->next < r->list->n; r->next++) {
		uint32_t place = r->places->of[r->list->blocks[r->next]];
		struct block b;

		if (r->state[place] != PLACE_OPEN)
			continue;
		block_at(r, place, &b);
		if (!is_block_in_cache(r, &b))
			return true;
		device_fetch_tell(r, place, 0);
	}
	return false;
}

static bool is_wanted(const struct fetch_run *r, uint32_t place)
{
	uint32_t pos = r->first[place];

	return pos != NONE && pos - r->next < LOOK_AHEAD;
}

static uint32_t range_max(const struct fetch_run *r)
{
	uint32_t max = r->list->range_max ? r->list->range_max
					  : r->dev->f->cfg.window_max;
	uint64_t grown = max + r->asked / RANGE_SHARE;
	uint64_t soon = pace_bytes(r->dev, GROWN_NS);

	if (grown > soon)
		grown = soon;
	if (grown > r->list->range_grown)
		grown = r->list->range_grown;
	if (grown > max)
		max = (uint32_t)grown;
	return atomic_load(&r->dev->is_slow) && max > SLOW_RANGE ? SLOW_RANGE
								 : max;
}

/* Extend the range by neighbours on one side. */
static void device_fetch_grow(const struct fetch_run *r, struct device_range *g,
			      int step)
{
	uint32_t max = range_max(r);
	uint32_t at = step > 0 ? g->end - 1 : g->first;
	uint64_t bytes = g->bytes, unasked = 0;
	struct block last, b;

	block_at(r, at, &last);
	for (size_t n = g->end - g->first; n < TRANSFER_BLOCKS_MAX; n++) {
		if (step > 0 ? at + 1 >= r->places->n : at == 0)
			return;
		at += (uint32_t)step;
		block_at(r, at, &b);
		bytes += b.csize;
		if (b.pack != last.pack ||
		    blockmap_sent(r->dev->map, bytes) > max ||
		    (step > 0 ? last.poff + last.csize != b.poff
			      : b.poff + b.csize != last.poff))
			return;
		/* A block that is fetched or held already ends the range, so that nothing is
		 * fetched twice. */
		if (r->state[at] != PLACE_OPEN || is_block_in_cache(r, &b))
			return;
		last = b;
		if (!is_wanted(r, at)) {
			unasked += b.csize;
			if (blockmap_sent(r->dev->map, unasked) > r->list->gap)
				return;
			continue;
		}
		unasked = 0;
		g->bytes = bytes;
		if (step > 0)
			g->end = at + 1;
		else
			g->first = at;
	}
}

/* Add one block of a request. With the lock. */
static int add_block_to_request(struct fetch_run *r, uint32_t place,
				unsigned int slot, uint64_t range)
{
	struct fetcher *f = r->dev->f;
	struct block_wait *piece = TAILQ_FIRST(&r->idle);
	struct block b;
	bool is_ours;
	int rc;

	block_at(r, place, &b);
	is_ours = !flight_find(f, &b);
	/* The block arrived since the range was chosen, or is one between wanted blocks that
	 * another reader fetches. */
	if (is_ours ? is_block_in_cache(r, &b) : r->first[place] == NONE)
		return 0;
	piece->index = r->places->entry[place];
	piece->place = place;
	piece->slot = slot;
	piece->cost = is_ours ? b.csize : 0;
	piece->unasked = r->first[place] == NONE;
	piece->kept = false;
	TAILQ_REMOVE(&r->idle, piece, link);
	rc = flight_join(f, r->dev, piece, &b, r->list->priority, range,
			 &r->p->err);
	if (rc < 0) {
		TAILQ_INSERT_TAIL(&r->idle, piece, link);
		return rc;
	}
	r->p->n_left++;
	r->state[place] = PLACE_ASKED;
	r->n_out++;
	r->n_slots_used += r->slots[slot]++ == 0;
	return 0;
}

/* Add all blocks of a request with the lock held, so that the thread that takes the first
 * flight finds the others. */
static void device_fetch_ask(struct fetch_run *r, const struct device_range *g)
{
	struct fetcher *f = r->dev->f;
	unsigned int slot = 0;
	uint64_t range;
	int rc = 0;

	while (r->slots[slot])
		slot++;
	(void)pthread_mutex_lock(&f->lock);
	range = ++f->n_ranges;
	for (uint32_t at = g->first; at < g->end && rc == 0; at++)
		if (!TAILQ_EMPTY(&r->idle))
			rc = add_block_to_request(r, at, slot, range);
	if (rc < 0 && r->p->rc == 0)
		r->p->rc = rc;
	(void)pthread_mutex_unlock(&f->lock);
}

/* May a request of so many bytes begin? */
static bool may_begin(struct fetch_run *r, uint64_t bytes)
{
	int64_t now = clock_now_ns(), pause_ns;

	if (now < r->resume_ns)
		return false;
	if (!r->list->pause)
		return true;
	pause_ns = r->list->pause(r->list->arg, bytes);
	r->resume_ns = now + pause_ns;
	return pause_ns <= 0;
}

/* May more requests run at the same time? */
static bool may_run_more_requests(const struct fetch_run *r)
{
	return r->n_slots_used < r->list->streams &&
	       r->n_slots_used < atomic_load(&r->dev->width);
}

/* Begin the requests that may be begun now. */
static void device_fetch_begin(struct fetch_run *r)
{
	while (!is_cancelled(r) && may_run_more_requests(r) &&
	       !TAILQ_EMPTY(&r->idle) && device_fetch_advance(r)) {
		uint32_t place = r->places->of[r->list->blocks[r->next]];
		struct device_range g = { .first = place, .end = place + 1 };
		struct block b;

		block_at(r, place, &b);
		g.bytes = b.csize;
		device_fetch_grow(r, &g, 1);
		device_fetch_grow(r, &g, -1);
		if (!may_begin(r, g.bytes))
			break;
		device_fetch_ask(r, &g);
		r->asked += g.bytes;
	}
}

/* Report pieces that are done. Returns the first failure. */
static int device_fetch_collect(struct fetch_run *r)
{
	struct fetcher *f = r->dev->f;
	struct piece_list done = TAILQ_HEAD_INITIALIZER(done);
	struct block_wait *piece;
	int rc;

	(void)pthread_mutex_lock(&f->lock);
	TAILQ_CONCAT(&done, &r->p->done, link);
	rc = r->p->rc;
	(void)pthread_mutex_unlock(&f->lock);
	while ((piece = TAILQ_FIRST(&done))) {
		TAILQ_REMOVE(&done, piece, link);
		r->n_out--;
		r->n_slots_used -= --r->slots[piece->slot] == 0;
		r->state[piece->place] = PLACE_DONE;
		if (piece->kept)
			device_fetch_tell(r, piece->place, piece->cost);
		TAILQ_INSERT_TAIL(&r->idle, piece, link);
	}
	return rc;
}

/* Wait until a piece is done, or for a short time. */
static void wait_progress(struct fetch_run *r)
{
	struct fetcher *f = r->dev->f;
	int64_t now = clock_now_ns(), until = now + TICK_NS;

	if (r->resume_ns > now && r->resume_ns < until)
		until = r->resume_ns;
	(void)pthread_mutex_lock(&f->lock);
	if (TAILQ_EMPTY(&r->p->done) && r->p->rc == 0)
		(void)cond_wait_until(&r->p->progress, &f->lock, until);
	(void)pthread_mutex_unlock(&f->lock);
}

static int fetch_device(struct fetch_run *r, struct error *err)
{
	struct fetcher *f = r->dev->f;
	bool cancelled = false;
	int rc;

	(void)pthread_mutex_lock(&f->lock);
	pending_add(f, r->p);
	(void)pthread_mutex_unlock(&f->lock);
	while ((rc = device_fetch_collect(r)) == 0) {
		cancelled = is_cancelled(r);
		if (cancelled)
			break;
		device_fetch_begin(r);
		if (!r->n_out && r->next == r->list->n)
			break;
		wait_progress(r);
	}
	(void)pthread_mutex_lock(&f->lock);
	pending_detach(f, r->p);
	r->dev->n_reads--;
	(void)pthread_cond_broadcast(&f->quiet);
	(void)pthread_mutex_unlock(&f->lock);
	rc = device_fetch_collect(r);
	if (rc < 0 && err)
		*err = r->p->err;
	if (rc == 0 && cancelled)
		return error_set(err, ECANCELED, "image %s: prefetch stopped",
				 r->dev->label);
	return rc;
}

static int check_list(const struct device *d, const struct device_list *l,
		      struct error *err)
{
	if (l->streams < 1 || l->streams > d->f->cfg.threads)
		return error_set(err, EINVAL, "%u streams, want 1 to %u",
				 l->streams, d->f->cfg.threads);
	if (l->n >= NONE)
		return error_set(err, EINVAL, "a list of %zu blocks", l->n);
	for (size_t i = 0; i < l->n; i++)
		if (l->blocks[i] >= d->map->n_blocks)
			return error_set(err, EINVAL,
					 "image %s: block %u of %zu", d->label,
					 l->blocks[i], d->map->n_blocks);
	return 0;
}

/* Find the positions in the list of each place. */
static void find_positions(struct fetch_run *r)
{
	memset(r->first, 0xff, r->places->n * sizeof(*r->first));
	for (uint32_t i = (uint32_t)r->list->n; i-- > 0;) {
		uint32_t place = r->places->of[r->list->blocks[i]];

		r->same[i] = r->first[place];
		r->first[place] = i;
	}
}

int device_fetch_list(struct device *d, const struct device_list *list,
		      struct error *err)
{
	AUTO_FREE uint32_t *first = NULL, *same = NULL, *slots = NULL;
	AUTO_FREE uint8_t *state = NULL;
	struct fetch_run r = { .dev = d, .list = list };
	size_t n_pieces = PIECES_MAX;
	int rc = check_list(d, list, err);

	if (rc == 0)
		rc = places_get(d, &r.places, err);
	if (rc < 0 || list->n == 0)
		return rc;
	/* Blocks between the wanted ones need pieces, too. */
	if (n_pieces > r.places->n)
		n_pieces = r.places->n;
	r.first = first = malloc(r.places->n * sizeof(*first));
	r.same = same = malloc(list->n * sizeof(*same));
	r.state = state = calloc(r.places->n, sizeof(*state));
	r.slots = slots = calloc(list->streams, sizeof(*slots));
	r.p = pending_new(d, NULL, n_pieces);
	if (!first || !same || !state || !slots || !r.p) {
		pending_free(r.p);
		return error_nomem(err);
	}
	TAILQ_INIT(&r.idle);
	for (size_t i = 0; i < n_pieces; i++) {
		r.p->pieces[i].owner = r.p;
		TAILQ_INSERT_TAIL(&r.idle, &r.p->pieces[i], link);
	}
	find_positions(&r);
	rc = fetch_device(&r, err);
	pending_free(r.p);
	return rc;
}
