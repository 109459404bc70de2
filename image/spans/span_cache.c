// SPDX-License-Identifier: Apache-2.0
/*
 * The most recently unpacked spans: blocks of one span are mostly read soon after each other, by
 * several threads. A span that is being loaded is not loaded twice, except that a reader never
 * waits for a less urgent one, which may be held up.
 */
#include "image/spans/span_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/cond.h"
#include "common/mutex.h"

/* owner of rooms that were expelled, so that nobody finds them */
#define NOBODY 0
#define ROOMS_MAX 512 /* spans in memory; a search looks at each */

struct cached_room {
	struct span_room room;
	TAILQ_ENTRY(cached_room) link;
	uint64_t owner, key;
	unsigned int uses;
	/* for each priority, the threads that are loading the span */
	unsigned int loaders[SOURCE_COLD + 1];
};

TAILQ_HEAD(room_list, cached_room);

struct span_cache {
	pthread_mutex_t lock;   /* protects all of it */
	pthread_cond_t changed; /* a claim ended */
	struct room_list rooms; /* least recently used first */
	size_t n_rooms;
	uint64_t bytes, max_bytes;
	uint64_t n_owners;
};

struct span_cache *span_cache_new(uint64_t max_bytes)
{
	struct span_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	(void)pthread_mutex_init(&c->lock, NULL);
	cond_init(&c->changed);
	TAILQ_INIT(&c->rooms);
	c->max_bytes = max_bytes;
	return c;
}

/* All static functions are called with the lock held. */
static void room_remove(struct span_cache *c, struct cached_room *r)
{
	TAILQ_REMOVE(&c->rooms, r, link);
	c->n_rooms--;
	c->bytes -= r->room.len;
	free(r->room.data);
	free(r);
}

void span_cache_free(struct span_cache *c)
{
	if (!c)
		return;
	while (!TAILQ_EMPTY(&c->rooms))
		room_remove(c, TAILQ_FIRST(&c->rooms));
	(void)pthread_cond_destroy(&c->changed);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

uint64_t span_cache_owner(struct span_cache *c)
{
	AUTO_UNLOCK held = mutex_hold(&c->lock);

	return ++c->n_owners;
}

void span_cache_forget(struct span_cache *c, uint64_t owner)
{
	struct cached_room *r, *next;

	(void)pthread_mutex_lock(&c->lock);
	for (r = TAILQ_FIRST(&c->rooms); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->owner == owner)
			room_remove(c, r);
	}
	(void)pthread_mutex_unlock(&c->lock);
}

static struct cached_room *room_find(const struct span_cache *c, uint64_t owner,
				     uint64_t key)
{
	struct cached_room *r;

	TAILQ_FOREACH_REVERSE(r, &c->rooms, room_list, link)
	if (r->owner == owner && r->key == key)
		return r;
	return NULL;
}

static struct span_room *room_use(struct span_cache *c, struct cached_room *r)
{
	r->uses++;
	TAILQ_REMOVE(&c->rooms, r, link);
	TAILQ_INSERT_TAIL(&c->rooms, r, link);
	return &r->room;
}

/* Is the span being loaded by a reader that is at least as urgent? */
static bool room_is_loaded(const struct cached_room *r,
			   enum source_priority priority)
{
	for (size_t i = 0; i <= priority; i++)
		if (r->loaders[i])
			return true;
	return false;
}

/* Free unused rooms, least recently used first, until the limit is met. */
static void rooms_evict(struct span_cache *c)
{
	struct cached_room *r = TAILQ_FIRST(&c->rooms), *next;

	for (; r && (c->bytes > c->max_bytes || c->n_rooms > ROOMS_MAX);
	     r = next) {
		next = TAILQ_NEXT(r, link);
		if (!r->uses && !room_is_loaded(r, SOURCE_COLD))
			room_remove(c, r);
	}
}

static struct cached_room *room_new(struct span_cache *c, uint64_t owner,
				    uint64_t key)
{
	struct cached_room *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->owner = owner;
	r->key = key;
	TAILQ_INSERT_TAIL(&c->rooms, r, link);
	c->n_rooms++;
	return r;
}

enum span_claim span_cache_claim(struct span_cache *c, uint64_t owner,
				 uint64_t key, enum source_priority priority,
				 struct span_room **ret)
{
	enum span_claim claim = SPAN_CLAIMED;
	struct cached_room *r;

	(void)pthread_mutex_lock(&c->lock);
	r = room_find(c, owner, key);
	if (r && r->room.data) {
		*ret = room_use(c, r);
		claim = SPAN_READY;
	} else if (r && room_is_loaded(r, priority)) {
		claim = SPAN_AWAITED;
	} else {
		/* When there is no memory to note the claim, the caller loads the span all
		 * the same. */
		r = r ? r : room_new(c, owner, key);
		if (r)
			r->loaders[priority]++;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return claim;
}

struct span_room *span_cache_find(struct span_cache *c, uint64_t owner,
				  uint64_t key)
{
	struct span_room *room = NULL;
	struct cached_room *r;

	(void)pthread_mutex_lock(&c->lock);
	r = room_find(c, owner, key);
	if (r && r->room.data)
		room = room_use(c, r);
	(void)pthread_mutex_unlock(&c->lock);
	return room;
}

void span_cache_wait(struct span_cache *c, uint64_t owner, uint64_t key,
		     int64_t at_ns)
{
	const struct cached_room *r;

	(void)pthread_mutex_lock(&c->lock);
	r = room_find(c, owner, key);
	if (r && !r->room.data)
		(void)cond_wait_until(&c->changed, &c->lock, at_ns);
	(void)pthread_mutex_unlock(&c->lock);
}

struct span_room *span_cache_put(struct span_cache *c, uint64_t owner,
				 uint64_t key, enum source_priority claimed_by,
				 uint8_t *data, size_t len)
{
	struct span_room *room = NULL;
	struct cached_room *r;

	(void)pthread_mutex_lock(&c->lock);
	r = room_find(c, owner, key);
	r = r ? r : room_new(c, owner, key);
	if (r && r->loaders[claimed_by])
		r->loaders[claimed_by]--;
	if (r && !r->room.data) {
		r->room = (struct span_room){ .data = data, .len = len };
		c->bytes += len;
		data = NULL;
	}
	if (r)
		room = room_use(c, r);
	rooms_evict(c);
	(void)pthread_cond_broadcast(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	free(data);
	return room;
}

void span_cache_drop(struct span_cache *c, uint64_t owner, uint64_t key,
		     enum source_priority claimed_by)
{
	struct cached_room *r;

	(void)pthread_mutex_lock(&c->lock);
	r = room_find(c, owner, key);
	if (r && r->loaders[claimed_by])
		r->loaders[claimed_by]--;
	if (r && !room_is_loaded(r, SOURCE_COLD) && !r->room.data)
		room_remove(c, r);
	(void)pthread_cond_broadcast(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
}

void span_cache_expel(struct span_cache *c, uint64_t owner, uint64_t key)
{
	struct cached_room *r;

	(void)pthread_mutex_lock(&c->lock);
	r = room_find(c, owner, key);
	if (r && r->room.data) {
		r->owner = NOBODY;
		/* A thread that is still loading the span does not find this room any more,
		 * so its claim ends here. */
		memset(r->loaders, 0, sizeof(r->loaders));
		if (!r->uses)
			room_remove(c, r);
	}
	(void)pthread_mutex_unlock(&c->lock);
}

void span_cache_give(struct span_cache *c, struct span_room *room)
{
	struct cached_room *r;

	if (!room)
		return;
	r = container_of(room, struct cached_room, room);
	(void)pthread_mutex_lock(&c->lock);
	r->uses--;
	if (!r->uses && r->owner == NOBODY)
		room_remove(c, r);
	rooms_evict(c);
	(void)pthread_mutex_unlock(&c->lock);
}

uint64_t span_cache_bytes(struct span_cache *c)
{
	AUTO_UNLOCK held = mutex_hold(&c->lock);

	return c->bytes;
}
