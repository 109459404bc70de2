// SPDX-License-Identifier: Apache-2.0
/*
 * Windows: bytes fetched along with a missing block.
 *
 * Windows of sequential readers grow, and while one is read the next is fetched. A reader is
 * sequential when it misses a block where the window that was fetched for it ended.
 *
 * For a reader that jumps, a window helps if its reads lie close together, as in a start; with
 * random reads it only delays. So there are windows for jumps while some of the windows behind
 * the last misses were read, or would have been.
 */
#include "blockstore/device_priv.h"

#define NEAR 4 /* entries after a window that still count as its end */
/* of the last GUESSES windows; fewer may have helped by chance */
#define HELP_MIN 6

static struct stream *device_stream_oldest(struct device *dev)
{
	struct stream *s = &dev->streams[0];

	for (size_t i = 1; i < STREAMS; i++)
		if (dev->streams[i].stamp < s->stamp)
			s = &dev->streams[i];
	return s;
}

struct stream *stream_at(struct device *dev, size_t index)
{
	for (size_t i = 0; i < STREAMS; i++) {
		struct stream *s = &dev->streams[i];

		if (s->window && index >= s->next && index - s->next < NEAR)
			return s;
	}
	return NULL;
}

static void grow_window(struct device *dev, struct stream *s)
{
	uint32_t max = dev->f->cfg.window_max;

	s->window = s->window > max / 2 ? max : s->window * 2;
}

/* Number of windows that are still arriving though their readers have what they wanted. Many
 * of them delay the next reader, and show that windows help little. */
static unsigned int count_windows(const struct device *dev)
{
	return dev->n_urgent > dev->n_awaited ? dev->n_urgent - dev->n_awaited
					      : 0;
}

/* Begin to watch whether a window behind `index` would help; replaces the oldest guess. */
static void add_window_guess(struct device *dev, size_t index)
{
	struct guess *g = &dev->guesses[dev->next_guess++ % GUESSES];
	struct block b;
	uint64_t end;

	blockmap_block(dev->map, index, &b);
	end = b.voff + b.usize + dev->f->cfg.window;
	/* An empty range while the guess changes, as others read it without the lock. */
	atomic_store(&g->end, 0);
	atomic_store(&g->miss, index);
	atomic_store(&g->helps, false);
	atomic_store(&g->end, end < dev->map->device_size
				      ? blockmap_find(dev->map, end)
				      : dev->map->n_blocks);
}

static bool do_larger_windows_help(const struct device *dev)
{
	unsigned int n = 0;

	for (size_t i = 0; i < GUESSES; i++)
		n += atomic_load(&dev->guesses[i].helps);
	return n >= HELP_MIN;
}

static size_t device_stream_look(const atomic_size_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

/* Note in the guesses that entries [first, end) are read. */
static void note_read_in_guesses(struct device *dev, size_t first, size_t end)
{
	for (size_t i = 0; i < GUESSES; i++) {
		struct guess *g = &dev->guesses[i];

		if (first < device_stream_look(&g->end) &&
		    end > device_stream_look(&g->miss) + 1)
			atomic_store_explicit(&g->helps, true,
					      memory_order_relaxed);
	}
}

/* Begin a stream for a reader that does not (yet) read sequentially. */
static uint32_t begin_stream(struct device *dev, struct stream *s, size_t index)
{
	uint32_t window = dev->f->cfg.window;

	add_window_guess(dev, index);
	atomic_store_explicit(&dev->marks[s - dev->streams], SIZE_MAX,
			      memory_order_relaxed);
	if (do_larger_windows_help(dev)) {
		s->window = window;
		return window / (1 + count_windows(dev));
	}
	/* The next miss may be near by chance, so a stream then begins with no more than one
	 * window. */
	s->window = window / 2;
	return 0;
}

uint32_t stream_window(struct device *dev, size_t index,
		       struct stream **ret_stream, bool *ret_sequential)
{
	struct stream *s = stream_at(dev, index);
	uint32_t window;

	*ret_sequential = s && s->window >= dev->f->cfg.window;
	if (s) {
		grow_window(dev, s);
		window = s->window;
	} else {
		s = device_stream_oldest(dev);
		window = begin_stream(dev, s, index);
	}
	s->stamp = ++dev->stamp;
	*ret_stream = s;
	return window;
}

/* Queue the window at `index`, for which no reader waits yet. */
static void read_ahead(struct device *dev, const struct stream *s, size_t index)
{
	struct fetcher *f = dev->f;
	struct flight *fl;
	struct block b;

	if (index >= dev->map->n_blocks)
		return;
	blockmap_block(dev->map, index, &b);
	if (flight_find(f, &b) || cache_has(f->cfg.cache, &b.digest))
		return;
	fl = flight_new(f, dev, index, &b);
	if (!fl)
		return;
	fl->priority = SOURCE_HOT;
	fl->window = s->window;
	fl->ahead = true;
	flight_enqueue(f, fl, false);
}

void stream_go_on(struct device *dev, struct stream *s)
{
	read_ahead(dev, s, s->next);
}

void stream_mark(struct device *dev, struct stream *s, size_t first)
{
	atomic_store_explicit(&dev->marks[s - dev->streams], first,
			      memory_order_relaxed);
}

void stream_note(struct device *dev, size_t first, size_t end)
{
	struct fetcher *f = dev->f;

	note_read_in_guesses(dev, first, end);
	for (size_t i = 0; i < STREAMS; i++) {
		size_t mark = device_stream_look(&dev->marks[i]);

		if (mark < first || mark >= end)
			continue;
		(void)pthread_mutex_lock(&f->lock);
		if (atomic_load(&dev->marks[i]) == mark) {
			struct stream *s = &dev->streams[i];

			atomic_store(&dev->marks[i], SIZE_MAX);
			s->stamp = ++dev->stamp;
			grow_window(dev, s);
			read_ahead(dev, s, s->next);
		}
		(void)pthread_mutex_unlock(&f->lock);
	}
}
