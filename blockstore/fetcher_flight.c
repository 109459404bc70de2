// SPDX-License-Identifier: Apache-2.0
/* Blocks that are being fetched, and the readers that wait for them. */
#include <string.h>
#include <time.h>

#include "blockstore/fetcher_pace.h"
#include "blockstore/fetcher_share.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/cond.h"

/* Time after which a healthy registry has sent something. */
#define HANGS_NS NS_PER_S

void device_failed(struct device *dev, const struct error *err)
{
	atomic_fetch_add_explicit(&dev->errors, 1, memory_order_relaxed);
	(void)pthread_mutex_lock(&dev->error_lock);
	dev->error = *err;
	dev->error_at = time(NULL);
	(void)pthread_mutex_unlock(&dev->error_lock);
}

bool transfer_hangs(struct transfer *t)
{
	return clock_now_ns() - atomic_load(&t->moved_ns) >= HANGS_NS &&
	       pace_level(&t->pace) != PACE_WAIT;
}

void share_watch(struct fetcher *f)
{
	if (f->look_ns)
		return;
	f->look_ns = clock_now_ns() + NS_PER_S;
	(void)pthread_cond_signal(&f->timer);
}

void detour_watch(struct fetcher *f)
{
	if (f->has_guests)
		return;
	f->has_guests = true;
	(void)pthread_cond_signal(&f->timer);
}

/* Keyed hash, since a map may name any digests. */
struct flight **flight_bucket(struct fetcher *f, const struct block *b)
{
	uint64_t h = hash_seeded(&f->seed, b->digest.b, sizeof(b->digest.b));

	return &f->buckets[h % FLIGHT_BUCKETS];
}

bool flight_is_of(const struct flight *fl, const struct block *b)
{
	return fl->b.usize == b->usize &&
	       digest_equal(&fl->b.digest, &b->digest);
}

struct flight *flight_find(struct fetcher *f, const struct block *b)
{
	struct flight *fl = *flight_bucket(f, b);

	while (fl && !flight_is_of(fl, b))
		fl = fl->hnext;
	return fl;
}

/* The flight that a read through `dev` joins: one of its own device, or one whose transfer
 * does not hang. */
static struct flight *find_joinable(struct fetcher *f, const struct device *dev,
				    const struct block *b)
{
	struct flight *fl, *best = NULL;

	for (fl = *flight_bucket(f, b); fl; fl = fl->hnext) {
		if (!flight_is_of(fl, b))
			continue;
		if (fl->dev == dev)
			return fl;
		if (!fl->transfer || !transfer_hangs(fl->transfer))
			best = fl;
	}
	return best;
}

struct flight *flight_new(struct fetcher *f, struct device *dev, size_t index,
			  const struct block *b)
{
	struct flight **to = flight_bucket(f, b);
	struct flight *fl = calloc(1, sizeof(*fl));

	if (!fl)
		return NULL;
	fl->b = *b;
	fl->dev = dev;
	fl->index = index;
	TAILQ_INIT(&fl->pieces);
	fl->hnext = *to;
	*to = fl;
	return fl;
}

void flight_drop(struct fetcher *f, struct flight *fl)
{
	struct flight **at = flight_bucket(f, &fl->b);

	while (*at != fl)
		at = &(*at)->hnext;
	*at = fl->hnext;
	free(fl);
}

/* Does its neighbour in the queue have the same range number? */
static bool is_in_same_range(const struct flight *fl,
			     const struct flight *other)
{
	return fl->range && other && other->range == fl->range;
}

void flight_enqueue(struct fetcher *f, struct flight *fl, bool first)
{
	struct flight_queue *q = &f->queue[fl->priority];
	bool is_more;

	fl->transfer = NULL;
	if (first) {
		is_more = is_in_same_range(fl, TAILQ_FIRST(q));
		TAILQ_INSERT_HEAD(q, fl, queue);
	} else {
		is_more = is_in_same_range(fl, TAILQ_LAST(q, flight_queue));
		TAILQ_INSERT_TAIL(q, fl, queue);
	}
	if (fl->priority == SOURCE_DEMAND && f->n_idle == 0)
		share_watch(f);
	/* A woken thread takes a whole range, so a signal for its first flight
	 * is enough. */
	if (!is_more)
		(void)pthread_cond_signal(&f->work);
}

void flight_dequeue(struct fetcher *f, struct flight *fl)
{
	TAILQ_REMOVE(&f->queue[fl->priority], fl, queue);
}

void flight_move(struct flight *fl, const struct block_wait *p)
{
	fl->dev = p->owner->dev;
	fl->index = p->index;
	blockmap_block(fl->dev->map, fl->index, &fl->b);
}

void flight_rehome(struct flight *fl)
{
	flight_move(fl, TAILQ_FIRST(&fl->pieces));
}

int flight_join(struct fetcher *f, struct device *dev, struct block_wait *p,
		const struct block *b, enum source_priority priority,
		uint64_t range, struct error *err)
{
	struct flight *fl = find_joinable(f, dev, b);

	if (!fl) {
		fl = flight_new(f, dev, p->index, b);
		if (!fl)
			return error_nomem(err);
		fl->priority = priority;
		fl->range = range;
		flight_enqueue(f, fl, false);
	} else if (priority < fl->priority) {
		if (fl->transfer)
			fl->transfer->joined = true;
		else
			flight_dequeue(f, fl);
		fl->priority = priority;
		fl->range = range;
		if (!fl->transfer)
			flight_enqueue(f, fl, false);
	}
	/* Also for a transfer that began for a reader: the rest of its window gives way to
	 * others until it is awaited again. */
	if (priority == SOURCE_DEMAND && fl->transfer && !fl->data)
		pace_await(fl->transfer, true);
	p->flight = fl;
	TAILQ_INSERT_TAIL(&fl->pieces, p, link);
	if (fl->dev != dev) {
		if (fl->transfer)
			detour_watch(f);
		else /* perhaps the flight may begin through this piece's device */
			(void)pthread_cond_signal(&f->work);
	}
	return 0;
}

struct pending *pending_new(struct device *dev, struct device_read *r,
			    size_t n_pieces)
{
	struct pending *p;

	p = calloc(1, sizeof(*p) + n_pieces * sizeof(p->pieces[0]));
	if (!p)
		return NULL;
	p->dev = dev;
	p->read = r;
	p->n_pieces = n_pieces;
	TAILQ_INIT(&p->done);
	cond_init(&p->progress);
	return p;
}

void pending_free(struct pending *p)
{
	if (!p)
		return;
	(void)pthread_cond_destroy(&p->progress);
	free(p);
}

void pending_add(struct fetcher *f, struct pending *p)
{
	int64_t now;

	p->dev->n_reads++;
	if (!p->read)
		return;
	now = clock_now_ns();
	if (p->dev->n_waits++ == 0)
		p->dev->waits_since_ns = now;
	p->deadline_ns = now + f->cfg.demand_timeout_ns;
	/* All deadlines are equally far away, so the tail is the right place; only threads
	 * that raced for the lock may be slightly out of order. */
	TAILQ_INSERT_TAIL(&f->deadlines, p, by_deadline);
	if (TAILQ_FIRST(&f->deadlines) == p)
		(void)pthread_cond_signal(&f->timer);
}

/* The read is over: call its owner. Releases. */
static void pending_end(struct fetcher *f, struct pending *p)
{
	struct device *dev = p->dev;

	if (!p->has_expired)
		TAILQ_REMOVE(&f->deadlines, p, by_deadline);
	if (--dev->n_waits == 0)
		dev->waited_ns += clock_now_ns() - dev->waits_since_ns;
	(void)pthread_mutex_unlock(&f->lock);
	if (p->rc < 0)
		device_failed(dev, &p->err);
	p->read->done(p->read, p->rc, p->rc < 0 ? &p->err : NULL);
	pending_free(p);
	(void)pthread_mutex_lock(&f->lock);
	dev->n_reads--;
	(void)pthread_cond_broadcast(&f->quiet);
}

static void piece_detach(struct fetcher *f, struct block_wait *p)
{
	struct flight *fl = p->flight;

	TAILQ_REMOVE(&fl->pieces, p, link);
	p->flight = NULL;
	p->owner->n_left--;
	if (!p->owner->read)
		TAILQ_INSERT_TAIL(&p->owner->done, p, link);
	/* Nothing needs this queued flight any more. */
	if (!fl->transfer && TAILQ_EMPTY(&fl->pieces) && !fl->ahead) {
		flight_dequeue(f, fl);
		flight_drop(f, fl);
	}
}

void pending_detach(struct fetcher *f, struct pending *p)
{
	for (size_t i = 0; i < p->n_pieces; i++)
		if (p->pieces[i].flight)
			piece_detach(f, &p->pieces[i]);
}

void pending_fail(struct fetcher *f, struct pending *p, int rc,
		  const struct error *err)
{
	if (p->rc == 0) {
		p->rc = rc;
		p->err = *err;
	}
	pending_detach(f, p);
	/* Its buffer is being written: the writing thread ends it. */
	if (p->n_copying == 0)
		pending_end(f, p);
}

void pending_copied(struct fetcher *f, struct pending *p)
{
	p->n_copying--;
	if (p->n_copying == 0 && (p->n_left == 0 || p->rc < 0))
		pending_end(f, p);
}

/* A taken piece was copied. Releases when it was the last one. */
static void piece_done(struct fetcher *f, struct block_wait *p)
{
	p->owner->n_left--;
	pending_copied(f, p->owner);
}

bool flight_has_reader(const struct flight *fl)
{
	const struct block_wait *p;

	TAILQ_FOREACH(p, &fl->pieces, link)
	if (p->dst)
		return true;
	return false;
}

int64_t flight_deadline(const struct flight *fl)
{
	const struct block_wait *p;
	int64_t last = 0;

	TAILQ_FOREACH(p, &fl->pieces, link)
	if (p->owner->read && p->owner->deadline_ns > last)
		last = p->owner->deadline_ns;
	return last;
}

/* Take the pieces of readers off the flight. */
static void take_reader_pieces(struct flight *fl, struct piece_list *taken)
{
	struct block_wait *p = TAILQ_FIRST(&fl->pieces), *next;

	for (; p; p = next) {
		next = TAILQ_NEXT(p, link);
		if (!p->dst)
			continue;
		TAILQ_REMOVE(&fl->pieces, p, link);
		p->flight = NULL;
		p->owner->n_copying++;
		TAILQ_INSERT_TAIL(taken, p, link);
	}
}

bool flight_deliver(struct fetcher *f, struct flight *fl, const uint8_t *data)
{
	struct piece_list taken;
	struct block_wait *p;
	int rc = 0;

	for (;;) {
		TAILQ_INIT(&taken);
		take_reader_pieces(fl, &taken);
		if (TAILQ_EMPTY(&taken))
			return true;
		(void)pthread_mutex_unlock(&f->lock);
		TAILQ_FOREACH(p, &taken, link)
		{
			if (data)
				memcpy(p->dst, data + p->off, p->len);
			else
				rc = cache_read(f->cfg.cache, &fl->b, p->off,
						p->dst, p->len, NULL);
			if (rc < 0)
				break;
		}
		(void)pthread_mutex_lock(&f->lock);
		while (TAILQ_FIRST(&taken) != p) {
			struct block_wait *done = TAILQ_FIRST(&taken);

			TAILQ_REMOVE(&taken, done, link);
			piece_done(f, done);
		}
		if (rc < 0)
			break;
	}
	while ((p = TAILQ_FIRST(&taken))) {
		struct pending *owner = p->owner;

		TAILQ_REMOVE(&taken, p, link);
		owner->n_copying--;
		if (owner->rc < 0) { /* failed while it was copied */
			owner->n_left--;
			if (owner->n_copying == 0)
				pending_end(f, owner);
			continue;
		}
		p->flight = fl;
		TAILQ_INSERT_TAIL(&fl->pieces, p, link);
	}
	return false;
}

void flight_deliver_early(struct fetcher *f, struct flight *fl)
{
	fl->n_copying++;
	(void)flight_deliver(f, fl, fl->data);
	if (--fl->n_copying == 0)
		(void)pthread_cond_broadcast(&f->copied);
}

void flight_end_early(struct fetcher *f, struct flight *fl)
{
	fl->data = NULL;
	while (fl->n_copying)
		(void)pthread_cond_wait(&f->copied, &f->lock);
}

/* End a piece that only wanted the block in the cache and is off its flight. */
static void end_cache_only_piece(struct block_wait *p, int rc,
				 const struct error *err)
{
	struct pending *owner = p->owner;

	p->flight = NULL;
	p->kept = rc == 0;
	if (rc < 0 && owner->rc == 0 && !p->unasked) {
		owner->rc = rc;
		owner->err = *err;
	}
	owner->n_left--;
	TAILQ_INSERT_TAIL(&owner->done, p, link);
	(void)pthread_cond_signal(&owner->progress);
}

void flight_kept(struct flight *fl, int rc, const struct error *err)
{
	struct block_wait *p = TAILQ_FIRST(&fl->pieces), *next;

	for (; p; p = next) {
		next = TAILQ_NEXT(p, link);
		if (p->dst)
			continue;
		TAILQ_REMOVE(&fl->pieces, p, link);
		end_cache_only_piece(p, rc, err);
	}
}

/* Take the pieces that wait through `dev` off the flight, to fail them. */
static void take_failed_pieces(struct flight *fl, const struct device *dev,
			       int rc, const struct error *err,
			       struct piece_list *taken)
{
	struct block_wait *p = TAILQ_FIRST(&fl->pieces), *next;

	for (; p; p = next) {
		struct pending *owner = p->owner;

		next = TAILQ_NEXT(p, link);
		if (owner->dev != dev)
			continue;
		TAILQ_REMOVE(&fl->pieces, p, link);
		if (!p->dst) {
			end_cache_only_piece(p, rc, err);
			continue;
		}
		p->flight = NULL;
		if (owner->rc == 0) {
			owner->rc = rc;
			owner->err = *err;
		}
		/* Counted as being copied, so that nobody else ends the reader. */
		owner->n_copying++;
		TAILQ_INSERT_TAIL(taken, p, link);
	}
}

void flight_fail(struct fetcher *f, struct flight *fl, int rc,
		 const struct error *err)
{
	struct piece_list taken;
	struct block_wait *p;

	TAILQ_INIT(&taken);
	take_failed_pieces(fl, fl->dev, rc, err, &taken);
	/* Free the flight before waiters are told: a reader that tries again must not meet
	 * the failed flight. */
	if (TAILQ_EMPTY(&fl->pieces)) {
		flight_drop(f, fl);
	} else {
		flight_rehome(fl);
		fl->range = 0;
		flight_enqueue(f, fl, true);
	}
	while ((p = TAILQ_FIRST(&taken))) {
		struct pending *owner = p->owner;

		TAILQ_REMOVE(&taken, p, link);
		pending_detach(f, owner);
		piece_done(f, p);
	}
}
