// SPDX-License-Identifier: Apache-2.0
/* Prefetching: blocks that nobody reads yet. */
#include <errno.h>
#include <time.h>

#include "blockstore/fetcher.h"

#define PIECES 512u        /* blocks asked for at once */
#define CANCEL_EVERY_MS 50 /* how soon a cancel is seen */
#define NS_PER_MS 1000000L
#define NS_PER_S 1000000000L

static bool is_cancelled(const volatile bool *cancel)
{
	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

/* With the lock: wait for a piece to be done, or a while. */
static void wait_progress(struct fetcher *f, struct pending *p)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += CANCEL_EVERY_MS * NS_PER_MS;
	if (ts.tv_nsec >= NS_PER_S) {
		ts.tv_sec++;
		ts.tv_nsec -= NS_PER_S;
	}
	(void)pthread_cond_timedwait(&p->progress, &f->lock, &ts);
}

/* With the lock: ask for blocks from `i` on while pieces are free; returns
 * where it stopped.  All at once, so that a thread that takes the first finds
 * its neighbours queued. */
static size_t ask(struct device *d, struct pending *p, size_t i, size_t end,
		  enum source_priority priority)
{
	while (i < end && p->rc == 0 && !TAILQ_EMPTY(&p->idle)) {
		struct piece *piece = TAILQ_FIRST(&p->idle);
		struct block b;
		int rc;

		blockmap_block(d->map, i, &b);
		piece->index = i++;
		if (cache_has(d->f->cfg.cache, &b.digest))
			continue;
		TAILQ_REMOVE(&p->idle, piece, link);
		rc = flight_join(d->f, d, piece, &b, priority, &p->err);
		if (rc < 0) {
			p->rc = rc;
			TAILQ_INSERT_TAIL(&p->idle, piece, link);
			break;
		}
		p->n_left++;
	}
	return i;
}

int device_fetch(struct device *d, size_t first, size_t n,
		 enum source_priority priority, const volatile bool *cancel,
		 struct error *err)
{
	struct fetcher *f = d->f;
	size_t end = first + n;
	bool cancelled = false;
	struct pending *p;
	int rc;

	if (first > d->map->n_blocks || n > d->map->n_blocks - first)
		return error_set(err, EINVAL,
				 "image %s: blocks %zu to %zu of %zu", d->label,
				 first, end, d->map->n_blocks);
	p = pending_new(d, NULL, n < PIECES ? n : PIECES);
	if (!p)
		return error_nomem(err);
	for (size_t i = 0; i < p->n_pieces; i++) {
		p->pieces[i].owner = p;
		TAILQ_INSERT_TAIL(&p->idle, &p->pieces[i], link);
	}
	(void)pthread_mutex_lock(&f->lock);
	pending_add(f, p);
	while (p->rc == 0 && (first < end || p->n_left)) {
		if (is_cancelled(cancel)) {
			cancelled = true;
			break;
		}
		first = ask(d, p, first, end, priority);
		if (p->n_left && p->rc == 0)
			wait_progress(f, p);
	}
	pending_detach(f, p);
	rc = p->rc;
	d->n_reads--;
	(void)pthread_cond_broadcast(&f->quiet);
	(void)pthread_mutex_unlock(&f->lock);
	if (rc < 0 && err)
		*err = p->err;
	pending_free(p);
	if (rc == 0 && cancelled)
		return error_set(err, ECANCELED, "image %s: prefetch stopped",
				 d->label);
	return rc;
}
