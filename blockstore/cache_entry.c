// SPDX-License-Identifier: Apache-2.0
/* The life of a cached block: pinned, read, distrusted, freed. */
#include "blockstore/cache.h"
#include "common/mutex.h"

#include <errno.h>

void reclaim(struct cache *c, uint32_t id)
{
	struct entry *e = entry_at(c, id);
	uint32_t page = e->page, n = pages_of(e->usize);
	uint64_t bytes = extent_bytes(e->usize);

	c->limbo += bytes;
	(void)pthread_mutex_unlock(&c->space);
	space_punch(c, page, n);
	(void)pthread_mutex_lock(&c->space);
	space_release(c, page, n);
	c->limbo -= bytes;
	c->bytes -= bytes;
	table_give(c, id);
	(void)pthread_cond_broadcast(&c->freed);
}

void release(struct cache *c, uint32_t id)
{
	struct entry *e = entry_at(c, id);
	struct shard *s = shard_of(c, &e->digest);
	bool last_of_dead;

	(void)pthread_mutex_lock(&s->lock);
	e->readers--;
	last_of_dead = !e->readers && e->flags & ENTRY_DEAD;
	(void)pthread_mutex_unlock(&s->lock);
	if (!last_of_dead)
		return;
	(void)pthread_mutex_lock(&c->space);
	reclaim(c, id);
	(void)pthread_mutex_unlock(&c->space);
}

void make_dead(struct cache *c, struct shard *s, uint32_t id)
{
	struct entry *e = entry_at(c, id);

	table_remove(c, s, id);
	if (e->flags & ENTRY_LISTED)
		clock_remove(c, id);
	e->flags = (uint8_t)((e->flags & ~ENTRY_LISTED) | ENTRY_DEAD);
}

void distrust(struct cache *c, uint32_t id, uint8_t unset)
{
	struct entry *e = entry_at(c, id);
	struct shard *s = shard_of(c, &e->digest);
	struct log_record r = { .kind = LOG_DROP };
	bool dead = false;

	(void)pthread_mutex_lock(&s->lock);
	if (!(e->flags & (ENTRY_DEAD | ENTRY_DAMAGED))) {
		c->damaged++;
		c->blocks--;
		/* A mount may be reading the place of a pinned block, so the place is kept,
		 * also by a later process, until right bytes are put there. An unknown mount
		 * may expect other bytes there. */
		if (e->pins || is_frozen(c, e->page)) {
			e->flags |= ENTRY_DAMAGED;
			scrub_tell_soon(c);
		} else {
			r.page = e->page;
			r.usize = e->usize;
			r.digest = e->digest;
			make_dead(c, s, id);
			dead = !e->readers;
		}
		e->flags &= (uint8_t)~unset;
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (r.usize)
		(void)log_append(c, &r, 1);
	if (dead)
		reclaim(c, id);
}

/* Drop a block that its reader found damaged. */
void drop_damaged(struct cache *c, uint32_t id)
{
	(void)pthread_mutex_lock(&c->space);
	distrust(c, id, ENTRY_VERIFIED | ENTRY_LOGGED);
	(void)pthread_mutex_unlock(&c->space);
}

/* Pin a block. With space. */
static int pin_one(struct cache *c, const struct digest *d, struct error *err)
{
	struct shard *s = shard_of(c, d);
	struct entry *e;
	uint32_t id;
	int rc = 0;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, d);
	if (id == ENTRY_NIL) {
		id = table_take(c);
		if (id == ENTRY_NIL) {
			rc = error_nomem(err);
		} else {
			e = entry_at(c, id);
			e->digest = *d;
			e->page = PAGE_NONE;
			e->pins = 1;
			table_insert(c, s, id);
		}
	} else {
		e = entry_at(c, id);
		if (e->pins == UINT32_MAX)
			rc = error_set(err, EOVERFLOW, "cache: too many pins");
		else
			e->pins++;
		if (e->flags & ENTRY_LISTED) {
			clock_remove(c, id);
			e->flags &= (uint8_t)~ENTRY_LISTED;
			c->pinned_bytes += extent_bytes(e->usize);
		}
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

int cache_pin_block(struct cache *c, const struct digest *d, struct error *err)
{
	AUTO_UNLOCK held = mutex_hold(&c->space);

	return pin_one(c, d, err);
}

/* Unpin a block. With space, which may be released and taken again. */
static void unpin_one(struct cache *c, const struct digest *d)
{
	struct shard *s = shard_of(c, d);
	struct entry *e;
	uint32_t id;
	bool dead = false;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, d);
	e = id == ENTRY_NIL ? NULL : entry_at(c, id);
	if (e && e->pins && --e->pins == 0) {
		if (e->page == PAGE_NONE) {
			table_remove(c, s, id);
			table_give(c, id);
		} else {
			c->pinned_bytes -= extent_bytes(e->usize);
			if (e->flags & ENTRY_DAMAGED &&
			    !is_frozen(c, e->page)) {
				make_dead(c, s, id);
				dead = !e->readers;
			} else {
				clock_append(c, id);
				e->flags |= ENTRY_LISTED;
			}
		}
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (dead)
		reclaim(c, id);
}

void cache_unpin_block(struct cache *c, const struct digest *d)
{
	(void)pthread_mutex_lock(&c->space);
	unpin_one(c, d);
	(void)pthread_mutex_unlock(&c->space);
}
