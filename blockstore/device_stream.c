// SPDX-License-Identifier: Apache-2.0
/*
 * Sequential readers: their windows grow, and while they read one window the
 * next is fetched.  A reader is sequential when it misses where the window that
 * was fetched for it ended.
 */
#include "blockstore/fetcher.h"

#define NEAR 4 /* entries after a window that still count as its end */

static struct stream *oldest(struct device *dev)
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

/* Windows that are still coming though their readers have what they wanted.
 * Many of them make the next reader wait, and say that windows help little. */
static unsigned int n_windows(const struct device *dev)
{
	return dev->n_urgent > dev->n_awaited ? dev->n_urgent - dev->n_awaited
					      : 0;
}

uint32_t stream_window(struct device *dev, size_t index,
		       struct stream **ret_stream, bool *ret_sequential)
{
	struct stream *s = stream_at(dev, index);

	*ret_sequential = s != NULL;
	if (s) {
		grow_window(dev, s);
	} else {
		s = oldest(dev);
		s->window = dev->f->cfg.window;
		atomic_store_explicit(&dev->marks[s - dev->streams], SIZE_MAX,
				      memory_order_relaxed);
	}
	s->stamp = ++dev->stamp;
	*ret_stream = s;
	return *ret_sequential ? s->window : s->window / (1 + n_windows(dev));
}

/* Ask for the window at `index`, for nobody yet. */
static void read_ahead(struct device *dev, const struct stream *s, size_t index)
{
	struct fetcher *f = dev->f;
	struct flight *fl;
	struct block b;

	if (index >= dev->map->n_blocks)
		return;
	blockmap_block(dev->map, index, &b);
	if (flight_find(f, &b.digest) || cache_has(f->cfg.cache, &b.digest))
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

	for (size_t i = 0; i < STREAMS; i++) {
		size_t mark = atomic_load_explicit(&dev->marks[i],
						   memory_order_relaxed);

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
