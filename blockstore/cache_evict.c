// SPDX-License-Identifier: Apache-2.0
/*
 * Eviction: a clock in the order of puts; a block survives one more turn for each unit of heat.
 * Neighbours on the disk are neighbours on the clock, so that blocks evicted together leave one
 * hole.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/statvfs.h>

#include "blockstore/cache.h"
#include "common/bytes.h"

#define STATVFS_EVERY (16 * MIB)
#define BATCH_BYTES (8 * MIB) /* evicted together, so that puts rarely wait */
#define BATCH_BLOCKS 256u
/* Bytes of blocks that are kept although other programs fill the disk beyond min_free, and
 * their largest share of the space left: a start reads the same blocks repeatedly, and without
 * a cache each read would fetch a whole block (of 16 nodes, the one with a full disk fetched
 * 622 MiB instead of 160, and took 112 s instead of 31). */
#define KEPT_ON_FULL_DISK (128 * MIB)
#define KEPT_SHARE 8u

struct evict_batch {
	uint64_t bytes;
	size_t n;
	struct log_record dropped[BATCH_BLOCKS];
};

/* Evict the block unless it is hot, in use or frozen. With space. */
static bool evict_if_unused(struct cache *c, uint32_t id, struct evict_batch *b)
{
	struct entry *e = entry_at(c, id);
	struct shard *s = shard_of(c, &e->digest);
	bool off;

	(void)pthread_mutex_lock(&s->lock);
	off = !e->readers && !e->heat && !is_frozen(c, e->page);
	if (e->heat)
		e->heat--;
	if (off)
		table_remove(c, s, id);
	(void)pthread_mutex_unlock(&s->lock);
	clock_remove(c, id);
	if (!off) {
		clock_append(c, id);
		return false;
	}
	b->dropped[b->n].kind = LOG_DROP;
	b->dropped[b->n].page = e->page;
	b->dropped[b->n].usize = e->usize;
	b->dropped[b->n].digest = e->digest;
	b->n++;
	b->bytes += extent_bytes(e->usize);
	table_give(c, id);
	return true;
}

/* Punch the extents of the batch, neighbours as one hole. No lock: the extents belong to
 * nobody. */
static void punch_batch(struct cache *c, const struct evict_batch *b)
{
	for (size_t i = 0; i < b->n;) {
		uint32_t page = b->dropped[i].page;
		uint32_t end = page + pages_of(b->dropped[i].usize);

		for (i++; i < b->n && b->dropped[i].page == end &&
			  end % c->segment_pages;
		     i++)
			end += pages_of(b->dropped[i].usize);
		space_punch(c, page, end - page);
	}
}

uint64_t evict_bytes(struct cache *c, uint64_t want)
{
	struct evict_batch b = { .bytes = 0 };
	/* After so many steps the heat of every block has fallen to 0. */
	uint64_t steps = (HEAT_MAX + 1) * (c->blocks + 1);

	while (b.bytes < want && b.n < BATCH_BLOCKS && steps-- &&
	       c->clock_head != ENTRY_NIL)
		(void)evict_if_unused(c, c->clock_head, &b);
	if (!b.n)
		return 0;
	c->limbo += b.bytes;
	c->blocks -= b.n;
	c->evicted += b.n;
	/* If a record is lost, the later check of the digest notices. */
	(void)log_append(c, b.dropped, b.n);
	(void)pthread_mutex_unlock(&c->space);
	/* Punch before the pages can be claimed again: a late hole would destroy the next
	 * owner's data. */
	punch_batch(c, &b);
	(void)pthread_mutex_lock(&c->space);
	for (size_t i = 0; i < b.n; i++)
		space_release(c, b.dropped[i].page,
			      pages_of(b.dropped[i].usize));
	c->limbo -= b.bytes;
	c->bytes -= b.bytes;
	(void)pthread_cond_broadcast(&c->freed);
	return b.bytes;
}

uint64_t evict_others(const struct cache *c)
{
	return c->others + c->laid + c->laying;
}

void evict_refresh_limit(struct cache *c)
{
	uint64_t others = evict_others(c);
	struct statvfs st;

	c->until_statfs = STATVFS_EVERY;
	c->limit = c->quota > others ? c->quota - others : 0;
	if (fstatvfs(c->dir_fd, &st) == 0) {
		uint64_t avail = (uint64_t)st.f_bavail * st.f_frsize;
		uint64_t all = c->bytes + avail;
		uint64_t most = all > c->min_free ? all - c->min_free : 0;
		uint64_t least = all / KEPT_SHARE < KEPT_ON_FULL_DISK
					 ? all / KEPT_SHARE
					 : KEPT_ON_FULL_DISK;

		if (most < least)
			most = least;
		if (most < c->limit)
			c->limit = most;
	}
}

void cache_set_others(struct cache *c, uint64_t bytes)
{
	(void)pthread_mutex_lock(&c->space);
	c->others = bytes;
	evict_refresh_limit(c);
	(void)pthread_mutex_unlock(&c->space);
}

int evict_for(struct cache *c, uint64_t need, struct error *err)
{
	if (c->until_statfs <= need)
		evict_refresh_limit(c);
	else
		c->until_statfs -= need;
	while (c->bytes + need > c->limit) {
		uint64_t over = c->bytes + need - c->limit;
		uint64_t batch = c->limit / 16 < BATCH_BYTES ? c->limit / 16
							     : BATCH_BYTES;

		if (need > c->limit)
			break;
		if (c->limbo >= over) {
			(void)pthread_cond_wait(&c->freed, &c->space);
			continue;
		}
		if (!evict_bytes(c, over > batch ? over : batch)) {
			if (!c->limbo)
				break;
			(void)pthread_cond_wait(&c->freed, &c->space);
		}
	}
	if (c->bytes + need <= c->limit)
		return 0;
	return error_set(err, ENOSPC,
			 "cache: no room for %" PRIu64 " bytes: %" PRIu64
			 " of %" PRIu64 " used, %" PRIu64 " pinned",
			 need, c->bytes, c->limit, c->pinned_bytes);
}
