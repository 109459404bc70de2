// SPDX-License-Identifier: Apache-2.0
/* The virtual data device of an image: reads from the cache, and fetches the rest. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "blockstore/device_priv.h"
#include "blockstore/fetcher_share.h"
#include "common/bytes.h"
#include "common/clock.h"

#define SYNC_BYTES (4 * MIB) /* bytes that device_read_sync() reads at a time */

static void device_count(atomic_uint_fast64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Free a device, complete or half built. */
static void device_release(struct device *dev)
{
	share_leave(dev);
	for (size_t i = 0; dev->packs && i < dev->map->n_packs; i++)
		block_source_free(dev->packs[i]);
	(void)pthread_rwlock_destroy(&dev->watch);
	(void)pthread_mutex_destroy(&dev->places_lock);
	(void)pthread_mutex_destroy(&dev->error_lock);
	places_fini(&dev->places);
	free(dev->packs);
	free(dev->label);
	free(dev);
}

static void init_watch(struct device *dev)
{
	pthread_rwlockattr_t fair;

	/* Writers go first: removing an observer must not wait while readers keep coming. */
	(void)pthread_rwlockattr_init(&fair);
	(void)pthread_rwlockattr_setkind_np(
		&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	(void)pthread_rwlock_init(&dev->watch, &fair);
	(void)pthread_rwlockattr_destroy(&fair);
}

int device_new(struct fetcher *f, const struct blockmap *map, const char *label,
	       const char *host, struct block_source **packs,
	       struct device **ret, struct error *err)
{
	struct device *dev = calloc(1, sizeof(*dev));
	int rc = 0;

	if (dev) {
		dev->label = strdup(label);
		dev->packs = calloc(map->n_packs + 1, sizeof(*dev->packs));
	}
	if (!dev || !dev->label || !dev->packs)
		rc = error_nomem(err);
	for (size_t i = 0; i < map->n_packs; i++) {
		if (rc < 0)
			block_source_free(packs[i]);
		else
			dev->packs[i] = packs[i];
	}
	if (dev) {
		dev->f = f;
		atomic_init(&dev->width, f->cfg.width);
		dev->map = map;
		for (size_t i = 0; i < STREAMS; i++)
			atomic_init(&dev->marks[i], SIZE_MAX);
		/* A window counts as helpful until a guess has shown otherwise. */
		for (size_t i = 0; i < GUESSES / 2; i++)
			atomic_init(&dev->guesses[i].helps, true);
		init_watch(dev);
		(void)pthread_mutex_init(&dev->places_lock, NULL);
		(void)pthread_mutex_init(&dev->error_lock, NULL);
	}
	if (rc == 0)
		rc = share_join(f, dev, host, err);
	if (rc < 0) {
		if (dev)
			device_release(dev);
		return rc;
	}
	*ret = dev;
	return 0;
}

/* The device has no reads left: its queued flights that others wait for move to another
 * device. With the lock. */
static void drop_flights_of_device(struct device *dev)
{
	for (size_t i = 0; i < PRIORITIES; i++) {
		struct flight *fl = TAILQ_FIRST(&dev->f->queue[i]), *next;

		for (; fl; fl = next) {
			next = TAILQ_NEXT(fl, queue);
			if (fl->dev != dev)
				continue;
			if (TAILQ_EMPTY(&fl->pieces)) {
				flight_dequeue(dev->f, fl);
				flight_drop(dev->f, fl);
			} else {
				flight_rehome(fl);
			}
		}
	}
}

/* Fail the waiting reads; no new read may begin. With the lock, which is released meanwhile. */
static void fail_reads(struct device *dev)
{
	struct fetcher *f = dev->f;
	struct error err = ERROR_INIT;
	struct pending *p;

	(void)error_set(&err, EIO, "image %s: it is being unmounted",
			dev->label);
	do {
		TAILQ_FOREACH(p, &f->deadlines, by_deadline)
		if (p->dev == dev && p->rc == 0)
			break;
		if (p)
			pending_fail(f, p, -EIO, &err);
	} while (p);
}

void device_free(struct device *dev)
{
	struct fetcher *f;

	if (!dev)
		return;
	f = dev->f;
	(void)pthread_mutex_lock(&f->lock);
	fail_reads(dev);
	while (dev->n_reads || dev->n_transfers) {
		transfers_stop(f, dev);
		(void)pthread_cond_wait(&f->quiet, &f->lock);
	}
	drop_flights_of_device(dev);
	(void)pthread_mutex_unlock(&f->lock);
	device_release(dev);
}

void device_observe(struct device *d, struct device_observer *o)
{
	(void)pthread_rwlock_wrlock(&d->watch);
	o->next = d->observers;
	d->observers = o;
	atomic_store_explicit(&d->is_watched, true, memory_order_relaxed);
	(void)pthread_rwlock_unlock(&d->watch);
}

void device_unobserve(struct device *d, struct device_observer *o)
{
	struct device_observer **at = &d->observers;

	(void)pthread_rwlock_wrlock(&d->watch);
	while (*at && *at != o)
		at = &(*at)->next;
	if (*at)
		*at = o->next;
	atomic_store_explicit(&d->is_watched, d->observers != NULL,
			      memory_order_relaxed);
	(void)pthread_rwlock_unlock(&d->watch);
}

static bool is_watched(struct device *d)
{
	return atomic_load_explicit(&d->is_watched, memory_order_relaxed);
}

static void tell_observers_of_read(struct device *d,
				   const struct device_read *r)
{
	if (!is_watched(d))
		return;
	(void)pthread_rwlock_rdlock(&d->watch);
	for (struct device_observer *o = d->observers; o; o = o->next)
		o->read(o, r->off, r->len);
	(void)pthread_rwlock_unlock(&d->watch);
}

static void tell_observers_of_misses(struct device *d, const struct pending *p)
{
	if (!is_watched(d))
		return;
	(void)pthread_rwlock_rdlock(&d->watch);
	for (struct device_observer *o = d->observers; o; o = o->next)
		for (size_t i = 0; o->miss && i < p->n_pieces; i++)
			o->miss(o, p->pieces[i].index);
	(void)pthread_rwlock_unlock(&d->watch);
}

/* State of a read that walks through the blocks it covers. */
struct device_walk {
	struct device *dev;
	struct device_read *r;
	struct pending *missing; /* NULL: all blocks so far were in the cache */
	size_t n_missing;
};

static int note_missing(struct device_walk *w, size_t index, uint32_t in,
			uint32_t len, uint8_t *dst, struct error *err)
{
	struct block_wait *p;

	if (!w->missing) {
		size_t rest = w->r->len - (size_t)(dst - (uint8_t *)w->r->buf);

		/* Enough pieces: no block is smaller than BLOCK_ALIGN. */
		w->missing = pending_new(w->dev, w->r, rest / BLOCK_ALIGN + 2);
		if (!w->missing)
			return error_nomem(err);
	}
	p = &w->missing->pieces[w->n_missing++];
	p->owner = w->missing;
	p->index = index;
	p->off = in;
	p->len = len;
	p->dst = dst;
	return 0;
}

/* Copy the blocks that the cache has, and note the missing ones. */
static int walk_blocks(struct device_walk *w, struct error *err)
{
	const struct blockmap *m = w->dev->map;
	uint64_t pos = w->r->off, end = pos + w->r->len;
	size_t i = blockmap_find(m, pos), first = i;
	struct block b;

	for (; pos < end; i++) {
		uint8_t *dst = (uint8_t *)w->r->buf + (pos - w->r->off);
		uint64_t in, span, n, content = 0;
		int rc = 0;

		if (i < m->n_blocks)
			blockmap_block(m, i, &b);
		if (i >= m->n_blocks || b.voff > pos)
			return error_set(
				err, EIO,
				"image %s: no block holds byte %" PRIu64
				" of the device",
				w->dev->label, pos);
		in = pos - b.voff;
		span = round_up(b.usize, BLOCK_ALIGN);
		n = span - in < end - pos ? span - in : end - pos;
		if (in < b.usize) {
			content = b.usize - in < n ? b.usize - in : n;
			rc = cache_read(w->dev->f->cfg.cache, &b, (uint32_t)in,
					dst, content, err);
		}
		if (rc == -ENOENT)
			rc = note_missing(w, i, (uint32_t)in, (uint32_t)content,
					  dst, err);
		if (rc < 0)
			return rc;
		memset(dst + content, 0, n - content);
		pos += n;
	}
	stream_note(w->dev, first, i);
	return 0;
}

static void device_finish(struct device *dev, struct device_read *r, int rc,
			  const struct error *err)
{
	if (rc < 0)
		device_failed(dev, err);
	r->done(r, rc, rc < 0 ? err : NULL);
}

/* Wait for the missing blocks; takes over w->missing. */
static void wait_for_missing_blocks(struct device_walk *w)
{
	struct pending *p = w->missing;
	struct fetcher *f = w->dev->f;
	struct error err = ERROR_INIT;
	int rc = 0;

	/* Pieces that were allocated but not used must not count as waits. */
	p->n_pieces = w->n_missing;
	p->n_left = w->n_missing;
	tell_observers_of_misses(w->dev, p);
	(void)pthread_mutex_lock(&f->lock);
	pending_add(f, p);
	/* keeps it from ending before this function is done */
	p->n_copying = 1;
	for (size_t i = 0; i < w->n_missing && rc == 0; i++) {
		struct block b;

		blockmap_block(w->dev->map, p->pieces[i].index, &b);
		rc = flight_join(f, w->dev, &p->pieces[i], &b, SOURCE_DEMAND, 0,
				 &err);
	}
	if (rc < 0)
		pending_fail(f, p, rc, &err);
	for (size_t i = 0; i < w->n_missing; i++) {
		struct flight *fl = p->pieces[i].flight;

		if (fl && fl->data)
			flight_deliver_early(f, fl);
	}
	pending_copied(f, p);
	(void)pthread_mutex_unlock(&f->lock);
}

void device_submit(struct device *d, struct device_read *r)
{
	struct device_walk w = { .dev = d, .r = r };
	struct error err = ERROR_INIT;
	int rc = 0;

	device_count(&d->reads, 1);
	device_count(&d->read_bytes, r->len);
	atomic_store_explicit(&d->f->last_read_ns, clock_now_ns(),
			      memory_order_relaxed);
	if (r->off > d->map->device_size ||
	    r->len > d->map->device_size - r->off)
		rc = error_set(&err, EIO,
			       "image %s: %zu bytes at %" PRIu64
			       " lie past the device of %" PRIu64 " bytes",
			       d->label, r->len, r->off, d->map->device_size);
	if (rc == 0) {
		tell_observers_of_read(d, r);
		rc = walk_blocks(&w, &err);
	}
	if (rc < 0) {
		pending_free(w.missing);
		device_finish(d, r, rc, &err);
	} else if (!w.missing) {
		device_finish(d, r, 0, NULL);
	} else {
		device_count(&d->misses, 1);
		wait_for_missing_blocks(&w);
	}
}

struct sync_read {
	struct device_read base;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool has_ended;
	int rc;
	struct error *err;
};

static void on_sync_read_done(struct device_read *r, int rc,
			      const struct error *err)
{
	struct sync_read *s = container_of(r, struct sync_read, base);

	(void)pthread_mutex_lock(&s->lock);
	s->rc = rc;
	if (err && s->err)
		*s->err = *err;
	s->has_ended = true;
	(void)pthread_cond_signal(&s->ended);
	(void)pthread_mutex_unlock(&s->lock);
}

int device_read_sync(struct device *d, uint64_t off, void *buf, size_t len,
		     struct error *err)
{
	struct sync_read s = { .base.done = on_sync_read_done, .err = err };

	(void)pthread_mutex_init(&s.lock, NULL);
	(void)pthread_cond_init(&s.ended, NULL);
	do {
		size_t n = len < SYNC_BYTES ? len : SYNC_BYTES;

		s.base.off = off;
		s.base.buf = buf;
		s.base.len = n;
		s.has_ended = false;
		device_submit(d, &s.base);
		(void)pthread_mutex_lock(&s.lock);
		while (!s.has_ended)
			(void)pthread_cond_wait(&s.ended, &s.lock);
		(void)pthread_mutex_unlock(&s.lock);
		off += n;
		len -= n;
		buf = (uint8_t *)buf + n;
	} while (len && s.rc == 0);
	(void)pthread_cond_destroy(&s.ended);
	(void)pthread_mutex_destroy(&s.lock);
	return s.rc;
}

bool device_has(struct device *d, size_t index)
{
	struct block b;

	blockmap_block(d->map, index, &b);
	return cache_has(d->f->cfg.cache, &b.digest);
}

bool device_has_place(struct device *d, size_t index)
{
	struct block b;

	blockmap_block(d->map, index, &b);
	return cache_has_place(d->f->cfg.cache, &b.digest);
}

bool device_has_bytes(struct device *d, uint64_t off, size_t len)
{
	const struct blockmap *m = d->map;
	size_t i = blockmap_find(m, off);

	if (off > m->device_size || len > m->device_size - off)
		return true;
	for (; i < m->n_blocks; i++) {
		struct block b;

		blockmap_block(m, i, &b);
		if (b.voff >= off + len)
			break;
		/* The padding behind a block can be read without the block. */
		if (off < b.voff + b.usize &&
		    !cache_has(d->f->cfg.cache, &b.digest))
			return false;
	}
	return true;
}

void device_get_stats(struct device *d, struct device_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->reads = atomic_load(&d->reads);
	ret->read_bytes = atomic_load(&d->read_bytes);
	ret->misses = atomic_load(&d->misses);
	ret->errors = atomic_load(&d->errors);
	ret->blocks = d->map->n_blocks;
	(void)pthread_mutex_lock(&d->error_lock);
	ret->error = d->error;
	ret->error_at = d->error_at;
	(void)pthread_mutex_unlock(&d->error_lock);
	(void)pthread_mutex_lock(&d->f->lock);
	ret->fetches = d->fetches;
	ret->fetched_bytes = d->fetched_bytes;
	ret->waited_ns = d->waited_ns;
	if (d->n_waits)
		ret->waited_ns += clock_now_ns() - d->waits_since_ns;
	(void)pthread_mutex_unlock(&d->f->lock);
}

size_t device_count_held(struct device *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->map->n_blocks; i++)
		n += device_has(d, i);
	return n;
}
