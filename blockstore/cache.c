// SPDX-License-Identifier: Apache-2.0
/*
 * The node's cache of blocks. Nothing is synced and the index is not trusted: a block is hashed
 * before this process serves it for the first time, so damage by a crash, a lost write or bit
 * rot causes a miss and never a wrong byte.
 */
#include "blockstore/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/bytes.h"

static bool is_servable(const struct entry *e)
{
	return e->page != PAGE_NONE && !(e->flags & ENTRY_DAMAGED);
}

/*
 * Register as a reader of a block. A block that is not verified yet is verified by one reader
 * while others wait; `ret_verify`: the caller is that one.
 */
static struct entry *cache_acquire(struct cache *c, const struct block *b,
				   uint32_t *ret_id, bool *ret_verify)
{
	struct shard *s = shard_of(c, &b->digest);
	struct entry *e = NULL;
	uint32_t id;

	(void)pthread_mutex_lock(&s->lock);
	for (;;) {
		id = table_find(c, s, &b->digest);
		e = id == ENTRY_NIL ? NULL : entry_at(c, id);
		if (!e || !is_servable(e) || e->usize != b->usize ||
		    e->readers == UINT16_MAX) {
			e = NULL;
			s->misses++;
			break;
		}
		*ret_verify = !(e->flags & ENTRY_VERIFIED);
		if (*ret_verify && e->flags & ENTRY_VERIFYING) {
			(void)pthread_cond_wait(&s->verified_one, &s->lock);
			continue;
		}
		if (*ret_verify)
			e->flags |= ENTRY_VERIFYING;
		else
			s->hits++;
		e->readers++;
		if (e->heat < HEAT_MAX)
			e->heat++;
		break;
	}
	(void)pthread_mutex_unlock(&s->lock);
	*ret_id = id;
	return e;
}

static void set_verified(struct cache *c, const struct digest *d,
			 struct entry *e, bool ok)
{
	struct shard *s = shard_of(c, d);

	(void)pthread_mutex_lock(&s->lock);
	e->flags &= (uint8_t)~ENTRY_VERIFYING;
	if (ok) {
		e->flags |= ENTRY_VERIFIED;
		s->verified++;
		s->hits++;
	} else {
		s->misses++;
	}
	(void)pthread_cond_broadcast(&s->verified_one);
	(void)pthread_mutex_unlock(&s->lock);
}

/* Read the whole block, verify it, and copy the wanted part. */
static int read_and_verify_block(struct cache *c, const struct block *b,
				 uint32_t id, uint32_t off, void *buf,
				 size_t len, struct error *err)
{
	struct entry *e = entry_at(c, id);
	bool whole = off == 0 && len == b->usize;
	AUTO_FREE uint8_t *room = whole ? NULL : malloc(b->usize);
	uint8_t *data = whole ? buf : room;
	int rc = data ? 0 : -ENOMEM;

	if (rc == 0)
		rc = space_read(c, e->page, 0, data, b->usize);
	if (rc == 0)
		rc = block_check(b, data, NULL);
	if (rc ==
	    0) /* mounts that read the cache's files also see the padding */
		rc = space_check_padding(c, e->page, b->usize);
	/* A read error of the disk counts as a miss too; lack of memory does not, since that
	 * passes. */
	if (rc < 0 && rc != -ENOMEM)
		drop_damaged(c, id);
	set_verified(c, &b->digest, e, rc == 0);
	if (rc == -ENOMEM)
		return error_nomem(err);
	if (rc < 0)
		return error_set(err, ENOENT, "cache: block was damaged");
	if (room && len)
		memcpy(buf, room + off, len);
	return 0;
}

int cache_read(struct cache *c, const struct block *b, uint32_t off, void *buf,
	       size_t len, struct error *err)
{
	struct entry *e;
	uint32_t id;
	bool verify;
	int rc;

	if (off > b->usize || len > b->usize - off)
		return error_set(err, EINVAL,
				 "cache: %zu bytes at %" PRIu32
				 " of a block of %" PRIu32,
				 len, off, b->usize);
	e = cache_acquire(c, b, &id, &verify);
	if (!e)
		return error_set(err, ENOENT, "cache: block is not held");
	if (verify) {
		rc = read_and_verify_block(c, b, id, off, buf, len, err);
	} else {
		rc = space_read_part(c, e->page, b->usize, off, buf, len);
		if (rc < 0) {
			drop_damaged(c, id);
			rc = error_set(err, ENOENT, "cache: read: %s",
				       strerror(-rc));
		}
	}
	release(c, id);
	return rc;
}

enum put_step {
	PUT_HELD,  /* nothing to do */
	PUT_FRESH, /* an extent was claimed */
	/* a damaged, pinned block is written again at its old place */
	PUT_REPAIR,
};

/* Decide how to put a block, and claim room for it. With space. */
static int put_begin(struct cache *c, const struct block *b,
		     enum put_step *ret_step, uint32_t *ret_page,
		     uint32_t *ret_id, struct error *err)
{
	struct shard *s = shard_of(c, &b->digest);
	struct entry *e;
	uint32_t id;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, &b->digest);
	e = id == ENTRY_NIL ? NULL : entry_at(c, id);
	*ret_step = PUT_FRESH;
	if (e && e->page != PAGE_NONE) {
		*ret_step = PUT_HELD;
		if (e->flags & ENTRY_DAMAGED && e->usize == b->usize &&
		    e->pins && !is_frozen(c, e->page) &&
		    e->readers < UINT16_MAX) {
			*ret_step = PUT_REPAIR;
			*ret_page = e->page;
			*ret_id = id;
			e->readers++; /* keeps the extent */
		}
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (*ret_step != PUT_FRESH)
		return 0;
	rc = evict_for(c, extent_bytes(b->usize), err);
	if (rc < 0)
		return rc;
	rc = space_alloc(c, pages_of(b->usize), ret_page, err);
	if (rc == 0)
		c->bytes += extent_bytes(b->usize);
	return rc;
}

/* Free an extent. With space, which is released and taken again. */
static void release_extent(struct cache *c, uint32_t page, uint32_t usize)
{
	uint64_t bytes = extent_bytes(usize);

	c->limbo += bytes;
	(void)pthread_mutex_unlock(&c->space);
	space_punch(c, page, pages_of(usize));
	(void)pthread_mutex_lock(&c->space);
	space_release(c, page, pages_of(usize));
	c->limbo -= bytes;
	c->bytes -= bytes;
	(void)pthread_cond_broadcast(&c->freed);
}

static int log_put(struct cache *c, const struct block *b, uint32_t page)
{
	struct log_record r = { .kind = LOG_PUT,
				.page = page,
				.usize = b->usize,
				.digest = b->digest };

	return log_append(c, &r, 1);
}

static uint8_t get_initial_heat(enum source_priority why)
{
	switch (why) {
	case SOURCE_DEMAND:
		return 1;
	case SOURCE_HOT:
		return HEAT_MAX;
	case SOURCE_COLD:
		break;
	}
	return 0;
}

/* The bytes are in the extent: add the block to the table. With space. */
static int put_commit(struct cache *c, const struct block *b, uint32_t page,
		      enum source_priority why, struct error *err)
{
	struct shard *s = shard_of(c, &b->digest);
	struct entry *e;
	uint32_t id;
	bool logged;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, &b->digest);
	(void)pthread_mutex_unlock(&s->lock);
	/* Entries are added and removed only with `space` held, so this stays true. */
	if (id != ENTRY_NIL && entry_at(c, id)->page != PAGE_NONE) {
		release_extent(c, page, b->usize);
		return 0;
	}
	if (id == ENTRY_NIL)
		id = table_take(c);
	if (id == ENTRY_NIL) {
		release_extent(c, page, b->usize);
		return error_nomem(err);
	}
	logged = log_put(c, b, page) == 0;
	e = entry_at(c, id);
	(void)pthread_mutex_lock(&s->lock);
	if (!e->pins) { /* new entry, not in the table yet */
		e->digest = b->digest;
		table_insert(c, s, id);
		clock_append(c, id);
	} else {
		c->pinned_bytes += extent_bytes(b->usize);
	}
	e->page = page;
	e->usize = b->usize;
	e->heat = get_initial_heat(why);
	e->flags = (uint8_t)(ENTRY_VERIFIED | (logged ? ENTRY_LOGGED : 0) |
			     (e->pins ? 0 : ENTRY_LISTED));
	(void)pthread_mutex_unlock(&s->lock);
	c->blocks++;
	/* Compaction may fail on a full disk; the old index still serves then. */
	(void)log_compact(c, false, NULL);
	return 0;
}

/* Finish the repair of a damaged block. With space. */
static void repair_commit(struct cache *c, const struct block *b, uint32_t id,
			  bool written)
{
	struct shard *s = shard_of(c, &b->digest);
	struct entry *e = entry_at(c, id);
	bool logged = written && log_put(c, b, e->page) == 0;

	(void)pthread_mutex_lock(&s->lock);
	if (written && e->flags & ENTRY_DAMAGED && !(e->flags & ENTRY_DEAD)) {
		e->flags =
			(uint8_t)(ENTRY_VERIFIED | (logged ? ENTRY_LOGGED : 0));
		c->blocks++;
		/* This may have mended a mount's last damaged block; have that noticed now,
		 * so that later damage of the mount is reported at once. */
		scrub_tell_soon(c);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

static void count_failed(struct cache *c)
{
	c->put_failed++;
	c->put_failed_ns = clock_now_ns();
}

/* How often written bytes of the page's segment were lost. With space. */
static uint32_t count_losses_of_page(struct cache *c, uint32_t page)
{
	return c->segments[page / c->segment_pages].n_lost;
}

int cache_put(struct cache *c, const struct block *b, const void *data,
	      enum source_priority why, struct error *err)
{
	enum put_step step = PUT_HELD;
	uint32_t page = PAGE_NONE, id = ENTRY_NIL, lost = 0;
	int rc;

	(void)pthread_mutex_lock(&c->space);
	rc = put_begin(c, b, &step, &page, &id, err);
	if (rc < 0)
		count_failed(c);
	else if (step != PUT_HELD)
		lost = count_losses_of_page(c, page);
	(void)pthread_mutex_unlock(&c->space);
	if (rc < 0 || step == PUT_HELD)
		return rc;
	rc = space_write(c, page, data, b->usize);
	if (rc < 0)
		(void)error_errno(err, -rc, "cache: write in '%s'", c->dir);
	(void)pthread_mutex_lock(&c->space);
	watch_written(c, page);
	/* A write error was reported while the block had no entry that could be marked, so
	 * compare the counter. */
	if (rc == 0 && count_losses_of_page(c, page) != lost)
		rc = error_set(err, EIO,
			       "cache: write in '%s': the disk did not take it",
			       c->dir);
	if (step == PUT_REPAIR)
		repair_commit(c, b, id, rc == 0);
	else if (rc == 0)
		rc = put_commit(c, b, page, why, err);
	else
		release_extent(c, page, b->usize);
	if (rc < 0) {
		count_failed(c);
		/* perhaps another program is filling the disk: look again */
		c->until_statfs = 0;
	}
	(void)pthread_mutex_unlock(&c->space);
	if (step == PUT_REPAIR)
		release(c, id);
	return rc;
}

bool cache_has(struct cache *c, const struct digest *d)
{
	struct shard *s = shard_of(c, d);
	uint32_t id;
	bool has;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, d);
	has = id != ENTRY_NIL && is_servable(entry_at(c, id));
	(void)pthread_mutex_unlock(&s->lock);
	return has;
}

bool cache_has_place(struct cache *c, const struct digest *d)
{
	struct shard *s = shard_of(c, d);
	const struct entry *e;
	uint32_t id;
	bool has;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, d);
	e = id == ENTRY_NIL ? NULL : entry_at(c, id);
	has = e && e->pins && e->page != PAGE_NONE;
	(void)pthread_mutex_unlock(&s->lock);
	return has;
}

static void unpin_first(struct cache *c, const struct blockmap *m, size_t n)
{
	struct block b;

	for (size_t i = 0; i < n; i++) {
		blockmap_block(m, i, &b);
		cache_unpin_block(c, &b.digest);
	}
}

int cache_pin(struct cache *c, const struct blockmap *m, struct error *err)
{
	struct block b;

	for (size_t i = 0; i < m->n_blocks; i++) {
		int rc;

		blockmap_block(m, i, &b);
		rc = cache_pin_block(c, &b.digest, err);
		if (rc < 0) {
			unpin_first(c, m, i);
			return rc;
		}
	}
	return 0;
}

void cache_unpin(struct cache *c, const struct blockmap *m)
{
	unpin_first(c, m, m->n_blocks);
}

/* Make sure the block's record is in the index file before its place is handed out to a
 * mount: otherwise a later process would reuse the pages under the mount. */
static int ensure_logged(struct cache *c, const struct block *b, uint32_t id,
			 uint32_t *ret_page, struct error *err)
{
	struct entry *e = entry_at(c, id);
	struct shard *s = shard_of(c, &b->digest);
	int rc = 0;

	(void)pthread_mutex_lock(&c->space);
	(void)pthread_mutex_lock(&s->lock);
	if (!e->pins)
		rc = error_set(err, EINVAL, "cache: block is not pinned");
	else if (!is_servable(e))
		rc = error_set(err, ENOENT, "cache: block is not held");
	else if (is_frozen(c, e->page))
		rc = error_set(err, EBUSY,
			       "cache: a mount that is not known reads the "
			       "file it lies in");
	else if (!(e->flags & ENTRY_LOGGED)) {
		rc = log_put(c, b, e->page);
		if (rc == 0)
			e->flags |= ENTRY_LOGGED;
		else
			(void)error_errno(err, -rc, "cache: write index");
	}
	*ret_page = e->page;
	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_mutex_unlock(&c->space);
	return rc;
}

int cache_locate(struct cache *c, const struct block *b, uint32_t *ret_file,
		 uint64_t *ret_off, struct error *err)
{
	struct entry *e;
	uint32_t id, page = 0;
	bool verify;
	int rc = 0;

	e = cache_acquire(c, b, &id, &verify);
	if (!e)
		return error_set(err, ENOENT, "cache: block is not held");
	if (verify)
		rc = read_and_verify_block(c, b, id, 0, NULL, 0, err);
	if (rc == 0)
		rc = ensure_logged(c, b, id, &page, err);
	release(c, id);
	if (rc < 0)
		return rc;
	*ret_file = page / c->segment_pages;
	*ret_off = (uint64_t)(page % c->segment_pages) * CACHE_PAGE;
	return 0;
}

int cache_file_path(struct cache *c, uint32_t file, char **ret,
		    struct error *err)
{
	if (asprintf(ret, "%s/segment-%08" PRIx32, c->dir, file) < 0)
		return error_nomem(err);
	return 0;
}

void cache_get_stats(struct cache *c, struct cache_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	mounts_count(c, &ret->mounts_lingering, &ret->mounts_unknown);
	for (size_t i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		(void)pthread_mutex_lock(&s->lock);
		ret->hits += s->hits;
		ret->misses += s->misses;
		ret->verified += s->verified;
		(void)pthread_mutex_unlock(&s->lock);
	}
	(void)pthread_mutex_lock(&c->space);
	ret->bytes = c->bytes;
	ret->blocks = c->blocks;
	ret->pinned_bytes = c->pinned_bytes;
	ret->quota = c->quota;
	ret->others = evict_others(c);
	ret->frozen_files = c->n_frozen;
	ret->frozen_bytes = c->frozen_bytes;
	ret->scrubbed = c->scrubbed;
	ret->mended = c->mended;
	ret->damaged = c->damaged;
	ret->evicted = c->evicted;
	ret->put_failed = c->put_failed;
	ret->put_failed_ns = c->put_failed_ns;
	(void)pthread_mutex_unlock(&c->space);
}

int cache_gc(struct cache *c, uint64_t target, uint64_t *ret_freed,
	     struct error *err)
{
	uint64_t freed = 0;
	int rc;

	(void)pthread_mutex_lock(&c->space);
	while (c->bytes > target) {
		uint64_t n = evict_bytes(c, c->bytes - target);

		if (!n)
			break;
		freed += n;
	}
	rc = log_compact(c, freed > 0, err);
	(void)pthread_mutex_unlock(&c->space);
	*ret_freed = freed;
	return rc;
}
