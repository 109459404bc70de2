// SPDX-License-Identifier: Apache-2.0
/*
 * Performs requests to a source: the wanted block first, then the blocks behind it in the pack,
 * so that the next misses are already on their way. Each block goes to its waiters as soon as it
 * is verified.
 */
#include <errno.h>

#include "blockstore/device_priv.h"
#include "blockstore/fetcher_pace.h"
#include "blockstore/fetcher_share.h"
#include "blockstore/span_map.h"
#include "common/clock.h"

#define SKIP_MAX 64 /* entries stored elsewhere that a range may skip */
/* A range unpacks to at most so many times window_max, not counting its first block: a
 * source may unpack faster than the cache takes it. */
#define UNPACKED_TIMES 8
/* Shortest time in which another request could bring its first block behind the running
 * ones. */
#define CUT_NS (30 * NS_PER_MS)

static void fetcher_transfer_add(struct transfer *t, struct flight *fl)
{
	const struct block_wait *p;

	fl->transfer = t;
	fl->ahead = false;
	TAILQ_FOREACH(p, &fl->pieces, link)
	if (p->owner->dev != t->dev)
		detour_watch(t->f);
	t->flights[t->n] = fl;
	t->blocks[t->n] = fl->b;
	t->n++;
	t->unpacked += fl->b.usize;
}

static bool has_room(const struct transfer *t, const struct block *b)
{
	return t->n < TRANSFER_BLOCKS_MAX &&
	       t->unpacked + b->usize <=
		       UNPACKED_TIMES * (uint64_t)t->f->cfg.window_max;
}

/* Is this stored place part of the range already? */
static bool is_inside(const struct transfer *t, const struct block *b,
		      uint64_t end)
{
	return b->pack == t->blocks[0].pack && b->poff >= t->blocks[0].poff &&
	       b->poff + b->csize <= end;
}

/*
 * Add the flight of a block that lies right behind the range, or make one if it may be fetched
 * along. False when the range ends here.
 */
static bool add_next(struct fetcher *f, struct transfer *t, size_t index,
		     const struct block *b, uint64_t bytes, uint32_t window)
{
	struct flight *fl = flight_find(f, b);

	if (fl) {
		/* A flight that is waited for may extend the range up to window_max. */
		if (fl->transfer || bytes > f->cfg.window_max)
			return false;
		flight_dequeue(f, fl);
		/* The flight may have been queued for another place with the same content. */
		fl->dev = t->dev;
		fl->index = index;
		fl->b = *b;
		fetcher_transfer_add(t, fl);
		return true;
	}
	if (bytes > window || cache_has(f->cfg.cache, &b->digest))
		return false;
	fl = flight_new(f, t->dev, index, b);
	if (!fl)
		return false;
	fl->priority = t->priority;
	fetcher_transfer_add(t, fl);
	return true;
}

/* Extend the range behind its last block. Returns the entry behind the range. */
static size_t fetcher_transfer_extend(struct fetcher *f, struct transfer *t,
				      uint32_t window)
{
	const struct blockmap *m = t->dev->map;
	uint64_t start = t->blocks[0].poff;
	uint64_t end = start + t->blocks[0].csize;
	size_t i = t->flights[0]->index + 1, covered = i;

	for (size_t skipped = 0; i < m->n_blocks && skipped < SKIP_MAX &&
				 t->n < TRANSFER_BLOCKS_MAX;
	     i++) {
		struct block b;

		blockmap_block(m, i, &b);
		if (is_inside(t, &b, end)) {
			covered = i + 1;
			continue;
		}
		/* Deduplicated blocks lie elsewhere; the blocks after them often continue
		 * the range. */
		if (b.pack != t->blocks[0].pack || b.poff != end) {
			skipped++;
			continue;
		}
		if (!has_room(t, &b) ||
		    !add_next(f, t, i, &b,
			      blockmap_sent(m, end + b.csize - start), window))
			break;
		end += b.csize;
		covered = i + 1;
	}
	return covered;
}

/* Take the other flights with the same range number from the queue. */
static void take_range(struct fetcher *f, struct transfer *t,
		       struct flight *next)
{
	uint64_t range = t->flights[0]->range;
	uint64_t end = t->blocks[0].poff + t->blocks[0].csize;

	while (next && next->range == range && next->dev == t->dev &&
	       next->b.pack == t->blocks[0].pack && next->b.poff == end &&
	       has_room(t, &next->b)) {
		struct flight *fl = next;

		next = TAILQ_NEXT(fl, queue);
		flight_dequeue(f, fl);
		fetcher_transfer_add(t, fl);
		end += fl->b.csize;
	}
}

/* Bytes that may come before a reader's block without a new request. Where the link is the
 * limit, all other bulk gives way, so these bytes come no later than a new request would bring
 * the block. Where each request has a limit of its own, the reader waits for one window. */
static uint64_t get_bytes_worth_waiting(const struct transfer *t)
{
	uint64_t one = pace_bytes(t->dev, CUT_NS);
	uint64_t all = one == UINT64_MAX ? 0 : one * t->dev->n_bulk;

	return all > t->f->cfg.window ? all : t->f->cfg.window;
}

/* Must the transfer stop? It must when a reader would wait long for the bulk in it, or when
 * its device is being freed. */
static bool must_cut(const struct transfer *t)
{
	struct fetcher *f = t->f;
	uint64_t before = 0;

	if (t->next == t->n)
		return false;
	if (atomic_load(&t->stop))
		return true;
	if (atomic_load(&t->is_awaited) && t->priority == SOURCE_DEMAND)
		return false;
	if (f->n_idle == 0 && share_next_demand(f))
		return true;
	if (!t->joined || t->priority == SOURCE_DEMAND)
		return false;
	for (size_t i = t->next; i < t->n; i++) {
		if (t->flights[i]->priority == SOURCE_DEMAND)
			return before > get_bytes_worth_waiting(t);
		before += t->blocks[i].csize;
	}
	return false;
}

/* Does a reader wait for a flight that is not delivered yet? */
static bool is_awaited(const struct transfer *t)
{
	for (size_t i = t->next; atomic_load(&t->is_awaited) && i < t->n; i++)
		if (t->flights[i]->priority == SOURCE_DEMAND &&
		    flight_has_reader(t->flights[i]))
			return true;
	return false;
}

void transfers_stop(struct fetcher *f, const struct device *dev)
{
	for (unsigned int i = 0; i < f->n_threads; i++) {
		struct transfer *t = &f->threads[i].transfer;

		if (t->dev == dev)
			atomic_store(&t->stop, true);
	}
}

/* Receives block `index` of the transfer. */
static int transfer_put(struct block_sink *sink, size_t index, const void *data,
			struct error *err)
{
	struct transfer *t = container_of(sink, struct transfer, sink);
	struct flight *fl = t->flights[index];
	struct fetcher *f = t->f;
	struct error put_err = ERROR_INIT;
	enum source_priority why;
	int rc;

	(void)pthread_mutex_lock(&f->lock);
	(void)flight_deliver(f, fl, data);
	why = fl->priority;
	/* Readers that come now copy the data from here, without waiting for the disk. */
	fl->data = data;
	/* Count the bytes before the block is in the cache, so that a caller who finds the
	 * block there finds it counted. */
	t->dev->fetched_bytes += t->blocks[index].csize;
	(void)pthread_mutex_unlock(&f->lock);
	rc = cache_put(f->cfg.cache, &t->blocks[index], data, why, &put_err);
	(void)pthread_mutex_lock(&f->lock);
	flight_end_early(f, fl);
	/* Readers may have joined since: the flight serves them until the block is in the
	 * cache. */
	(void)flight_deliver(f, fl, data);
	flight_kept(fl, rc, &put_err);
	flight_drop(f, fl);
	t->next = index + 1;
	/* Note progress here too, as not every source reports it. */
	atomic_store(&t->moved_ns, clock_now_ns());
	atomic_store(&t->dev->host->moved_ns, clock_now_ns());
	pace_brought(t, t->blocks[index].csize);
	pace_await(t, is_awaited(t));
	t->cut = must_cut(t);
	rc = t->cut ? error_set(err, ECANCELED, "not wanted any more") : 0;
	(void)pthread_mutex_unlock(&f->lock);
	return rc;
}

/* Queue again the blocks that a transfer did not bring. Releases. */
static void requeue_rest(struct fetcher *f, struct transfer *t)
{
	for (size_t i = t->n; i-- > t->next;) {
		struct flight *fl = t->flights[i];

		if (TAILQ_EMPTY(&fl->pieces)) {
			flight_drop(f, fl);
			continue;
		}
		flight_rehome(fl);
		fl->window = 0;
		flight_enqueue(f, fl, true);
	}
}

/* Should the block be requested again after this failure? */
static bool may_retry(struct flight *fl, int rc, int64_t deadline_ns)
{
	switch (rc) {
	case -EBADMSG:
	case -ENOMEM:
		/* A proxy on the way may have damaged it; or memory was short only for a
		 * moment. */
		return ++fl->wrong < FLIGHT_ATTEMPTS &&
		       !TAILQ_EMPTY(&fl->pieces);
	case -ETIMEDOUT:
		/* The transfer used the deadline of the readers that waited when it began;
		 * readers with later deadlines have joined since. */
		return flight_deadline(fl) >
		       (deadline_ns ? deadline_ns : clock_now_ns());
	default:
		/* Bulk gives up after a few attempts, whatever the reason; for a reader that
		 * has joined it, try again within the reader's own time. */
		return !deadline_ns && flight_deadline(fl) > clock_now_ns();
	}
}

static void fail_current(struct fetcher *f, struct transfer *t, int rc,
			 int64_t deadline_ns, struct error *err)
{
	struct flight *fl = t->flights[t->next];
	char block[DIGEST_STR_MAX], pack[DIGEST_STR_MAX];
	struct pack p;

	t->next++;
	if (may_retry(fl, rc, deadline_ns)) {
		detour_failed(fl, t->dev);
		flight_enqueue(f, fl, true);
		return;
	}
	blockmap_pack(t->dev->map, fl->b.pack, &p);
	digest_format(&p.digest, pack);
	digest_format(&fl->b.digest, block);
	if (blockmap_is_index(t->dev->map))
		(void)error_wrap(err, rc, "image %s: block %s of the layers",
				 t->dev->label, block);
	else
		(void)error_wrap(err, rc, "image %s: block %s of pack %s",
				 t->dev->label, block, pack);
	flight_fail(f, fl, rc, err);
}

/* Latest deadline of the readers that wait now; when none is left, that of a reader that
 * would come now. */
static int64_t deadline_of(const struct transfer *t)
{
	int64_t last = 0;

	for (size_t i = 0; i < t->n; i++) {
		int64_t ns = flight_deadline(t->flights[i]);

		last = ns > last ? ns : last;
	}
	return last ? last : clock_now_ns() + t->f->cfg.demand_timeout_ns;
}

static void transfer_read(struct fetcher *f, struct transfer *t)
{
	struct device *dev = t->dev;
	struct block_req req = { .blocks = t->blocks,
				 .n_blocks = t->n,
				 .priority = t->priority,
				 .pace = &t->pace,
				 .rooms = f->rooms };
	bool bulk = t->priority != SOURCE_DEMAND;
	struct error err = ERROR_INIT;
	int rc;

	if (!bulk)
		req.deadline_ns = deadline_of(t);
	f->n_bulk += bulk;
	dev->n_bulk += bulk;
	dev->host->n_bulk += bulk;
	dev->n_urgent += !bulk;
	dev->fetches++;
	(void)pthread_mutex_unlock(&f->lock);
	rc = block_source_read(dev->packs[t->blocks[0].pack], &req, &t->sink,
			       &err);
	(void)pthread_mutex_lock(&f->lock);
	if (t->next < t->n && !t->cut && !atomic_load(&t->stop)) {
		if (rc == 0)
			rc = error_set(&err, EIO, "source ended early");
		fail_current(f, t, rc, req.deadline_ns, &err);
	}
	requeue_rest(f, t);
	f->n_bulk -= bulk;
	dev->n_bulk -= bulk;
	dev->host->n_bulk -= bulk;
	dev->n_urgent -= !bulk;
}

/* Choose the range around the flight, and fetch it. */
static void fetch_around(struct fetcher *f, struct transfer *t, bool ahead)
{
	struct flight *fl = t->flights[0];
	struct stream *stream = NULL;
	uint32_t window = fl->window;
	bool is_sequential = false;
	size_t end;

	if (t->priority == SOURCE_DEMAND)
		window = stream_window(t->dev, fl->index, &stream,
				       &is_sequential);
	else if (ahead)
		stream = stream_at(t->dev, fl->index);
	end = fetcher_transfer_extend(f, t, window);
	if (stream) {
		stream->next = end;
		if (is_sequential)
			stream_go_on(t->dev, stream);
		else if (ahead)
			stream_mark(t->dev, stream, fl->index);
	}
	transfer_read(f, t);
}

void transfer_run(struct fetcher *f, struct transfer *t, struct flight *fl)
{
	struct flight *next = TAILQ_NEXT(fl, queue);
	struct device *dev = fl->dev;
	bool ahead = fl->ahead;

	t->n = 0;
	t->next = 0;
	t->unpacked = 0;
	t->joined = false;
	t->cut = false;
	t->sink.put = transfer_put;
	t->dev = dev;
	t->priority = fl->priority;
	pace_begin(t);
	flight_dequeue(f, fl);
	fetcher_transfer_add(t, fl);
	dev->n_transfers++;
	if (fl->range) {
		take_range(f, t, next);
		transfer_read(f, t);
	} else if (cache_has(f->cfg.cache, &fl->b.digest) &&
		   flight_deliver(f, fl, NULL)) {
		/* The block arrived by another flight after this one was queued. */
		flight_kept(fl, 0, NULL);
		flight_drop(f, fl);
	} else {
		fetch_around(f, t, ahead);
	}
	pace_await(t, false);
	t->dev = NULL;
	dev->n_transfers--;
	(void)pthread_cond_broadcast(&f->quiet);
}
