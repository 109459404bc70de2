// SPDX-License-Identifier: Apache-2.0
/*
 * The part of recording that runs during reads. For a page that was seen before it only loads
 * the page's bit; only the reader that is first to set a bit takes the lock, and that reader
 * usually has to wait for a block anyway. Files and blocks are assigned later, in
 * recorder_trace.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "recorder/recorder_priv.h"

#define RANGES_DEFAULT 262144u
#define DEVICE_MAX ((uint64_t)1 << 40) /* 32 MiB of bits, twice */
#define WORD_BITS 64u

struct recorder {
	struct device_observer base;
	int64_t start_ns;
	uint64_t n_pages;
	size_t ranges_max;
	_Atomic uint64_t *seen; /* a bit for each page */
	/* a bit for each block; each page begins at most one */
	_Atomic uint64_t *missed;
	_Atomic uint64_t reads, read_bytes;

	pthread_mutex_t lock; /* protects the members below */
	struct record_range *ranges;
	size_t n_ranges, cap_ranges;
	uint32_t *misses; /* in order */
	size_t n_misses, cap_misses;
	bool truncated;
};

static uint32_t elapsed_ms(const struct recorder *r)
{
	int64_t ms = (clock_now_ns() - r->start_ns) / 1000000;

	return ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* Make room for another element of `size` bytes, up to `max` elements. */
static bool has_room(void **v, size_t n, size_t *cap, size_t max, size_t size)
{
	size_t more = *cap ? *cap * 2 : 1024;
	void *p;

	if (n < *cap)
		return true;
	if (more > max)
		more = max;
	if (n >= more)
		return false;
	p = realloc(*v, more * size);
	if (!p)
		return false;
	*v = p;
	*cap = more;
	return true;
}

static void add_range(struct recorder *r, uint64_t page, uint64_t n)
{
	struct record_range range = {
		.page = page,
		.n = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n,
		.at_ms = elapsed_ms(r),
	};

	(void)pthread_mutex_lock(&r->lock);
	if (has_room((void **)&r->ranges, r->n_ranges, &r->cap_ranges,
		     r->ranges_max, sizeof(range)))
		r->ranges[r->n_ranges++] = range;
	else
		r->truncated = true;
	(void)pthread_mutex_unlock(&r->lock);
}

/* Set the bits of `mask`, and return those that were not set before. */
static uint64_t set_bits(_Atomic uint64_t *word, uint64_t mask)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

	if ((old & mask) == mask)
		return 0;
	old = atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
	return mask & ~old;
}

/* Mask of the pages [from, to) of one word. */
static uint64_t make_page_mask(uint64_t from, uint64_t to)
{
	uint64_t low = ~(uint64_t)0 << from % WORD_BITS;

	return to % WORD_BITS ? low & ~(~(uint64_t)0 << to % WORD_BITS) : low;
}

/* Add the pages [*start, end), which are new and contiguous, if there are any. */
static void end_range(struct recorder *r, uint64_t *start, uint64_t end)
{
	if (*start < end)
		add_range(r, *start, end - *start);
	*start = UINT64_MAX;
}

static void observe_read(struct device_observer *o, uint64_t off, size_t len)
{
	struct recorder *r = container_of(o, struct recorder, base);
	uint64_t page = off / BLOCK_ALIGN, end, start = UINT64_MAX;

	atomic_fetch_add_explicit(&r->reads, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->read_bytes, len, memory_order_relaxed);
	if (!len || page >= r->n_pages)
		return;
	end = r->n_pages;
	if (len < (end - page) * BLOCK_ALIGN - off % BLOCK_ALIGN)
		end = (off + len - 1) / BLOCK_ALIGN + 1;
	while (page < end) {
		uint64_t stop = (page / WORD_BITS + 1) * WORD_BITS, fresh;

		if (stop > end)
			stop = end;
		fresh = set_bits(&r->seen[page / WORD_BITS],
				 make_page_mask(page, stop));
		if (!fresh)
			end_range(r, &start, page);
		for (; fresh && page < stop; page++) {
			if (!(fresh >> page % WORD_BITS & 1))
				end_range(r, &start, page);
			else if (start == UINT64_MAX)
				start = page;
		}
		page = stop;
	}
	end_range(r, &start, end);
}

static void observe_miss(struct device_observer *o, size_t index)
{
	struct recorder *r = container_of(o, struct recorder, base);

	if (index >= r->n_pages || index > UINT32_MAX ||
	    !set_bits(&r->missed[index / WORD_BITS],
		      (uint64_t)1 << index % WORD_BITS))
		return;
	(void)pthread_mutex_lock(&r->lock);
	if (has_room((void **)&r->misses, r->n_misses, &r->cap_misses,
		     r->ranges_max, sizeof(*r->misses)))
		r->misses[r->n_misses++] = (uint32_t)index;
	else
		r->truncated = true;
	(void)pthread_mutex_unlock(&r->lock);
}

int recorder_new(const struct recorder_config *cfg, struct recorder **ret,
		 struct error *err)
{
	AUTO(recorder) r = NULL;
	size_t words;
	int rc;

	if (cfg->device_size > DEVICE_MAX)
		return error_set(err, EFBIG,
				 "a device of %" PRIu64
				 " bytes is too large to be recorded",
				 cfg->device_size);
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_nomem(err);
	rc = pthread_mutex_init(&r->lock, NULL);
	if (rc) {
		free(steal_ptr(&r));
		return error_errno(err, rc, "recorder");
	}
	r->n_pages = (cfg->device_size + BLOCK_ALIGN - 1) / BLOCK_ALIGN;
	r->ranges_max = cfg->ranges_max ? cfg->ranges_max : RANGES_DEFAULT;
	words = (size_t)(r->n_pages / WORD_BITS) + 1;
	r->seen = calloc(words, sizeof(*r->seen));
	r->missed = calloc(words, sizeof(*r->missed));
	if (!r->seen || !r->missed)
		return error_nomem(err);
	r->base.read = observe_read;
	r->base.miss = observe_miss;
	r->start_ns = clock_now_ns();
	*ret = steal_ptr(&r);
	return 0;
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	(void)pthread_mutex_destroy(&r->lock);
	free(r->ranges);
	free(r->misses);
	free(r->seen);
	free(r->missed);
	free(r);
}

struct device_observer *recorder_observer(struct recorder *r)
{
	return &r->base;
}

void recorder_get_stats(struct recorder *r, struct recorder_stats *ret)
{
	ret->reads = atomic_load_explicit(&r->reads, memory_order_relaxed);
	ret->read_bytes =
		atomic_load_explicit(&r->read_bytes, memory_order_relaxed);
	(void)pthread_mutex_lock(&r->lock);
	ret->ranges = r->n_ranges;
	ret->misses = r->n_misses;
	ret->truncated = r->truncated;
	(void)pthread_mutex_unlock(&r->lock);
}

static bool were_pages_read(const struct recorder *r, uint64_t from,
			    uint64_t to)
{
	while (from < to && from < r->n_pages) {
		uint64_t stop = (from / WORD_BITS + 1) * WORD_BITS;

		if (stop > to)
			stop = to;
		if (atomic_load_explicit(&r->seen[from / WORD_BITS],
					 memory_order_relaxed) &
		    make_page_mask(from, stop))
			return true;
		from = stop;
	}
	return false;
}

void recorder_mark_read(const struct recorder *r, const struct blockmap *map,
			uint8_t *bits)
{
	for (size_t i = 0; i < map->n_blocks; i++) {
		struct block b;
		uint64_t page;

		if (bits[i / 8] & 1u << i % 8)
			continue;
		blockmap_block(map, i, &b);
		page = b.voff / BLOCK_ALIGN;
		if (were_pages_read(r, page,
				    page + (b.usize + BLOCK_ALIGN - 1) /
						    BLOCK_ALIGN))
			bits[i / 8] |= (uint8_t)(1u << i % 8);
	}
}

void record_fini(struct record *c)
{
	free(c->ranges);
	free(c->missed);
	memset(c, 0, sizeof(*c));
}

static void *copy_array(const void *data, size_t n, size_t size)
{
	void *p = malloc(n ? n * size : 1);

	if (p && n)
		memcpy(p, data, n * size);
	return p;
}

int recorder_snapshot(struct recorder *r, struct record *ret, struct error *err)
{
	struct record c = { .now_ms = elapsed_ms(r) };

	(void)pthread_mutex_lock(&r->lock);
	c.ranges = copy_array(r->ranges, r->n_ranges, sizeof(*c.ranges));
	c.n_ranges = r->n_ranges;
	c.missed = copy_array(r->misses, r->n_misses, sizeof(*c.missed));
	c.n_missed = r->n_misses;
	c.truncated = r->truncated;
	(void)pthread_mutex_unlock(&r->lock);
	if (!c.ranges || !c.missed) {
		record_fini(&c);
		return error_nomem(err);
	}
	*ret = c;
	return 0;
}
