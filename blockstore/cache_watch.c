// SPDX-License-Identifier: Apache-2.0
/*
 * The cache's thread.  It sees when mounts are gone.  And it sees errors of
 * write-back: what was put is served from the page cache without another look;
 * when the kernel could not write it, it is lost as soon as its pages are, and the
 * disk holds other bytes.  So the result of write-back is asked for, and what lies
 * in a segment with an error is not held any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "blockstore/cache.h"
#include "common/clock.h"
#include "common/cond.h"

#define EVERY_S 5
#define SOON_S 1 /* while mounts are to go, or segments are frozen */
#define LOOKS 24 /* at a segment after its last put: two minutes */

void watch_written(struct cache *c, uint32_t page)
{
	c->segments[page / c->segment_pages].looks = LOOKS;
}

void watch_distrust(struct cache *c, uint32_t segment)
{
	/* Whoever writes in it just now has no entry yet, or a damaged one. */
	c->segments[segment].n_lost++;
	for (uint32_t id = 0; id < c->n_entries; id++) {
		const struct entry *e = entry_at(c, id);

		if (e->usize && e->page != PAGE_NONE &&
		    e->page / c->segment_pages == segment)
			distrust(c, id, ENTRY_VERIFIED);
	}
}

/* Is what was written lost?  Write-back ends with whatever the disk, the network
 * below it or a quota says (ENODATA, ETIMEDOUT, EDQUOT, EINVAL, ...), once.  These few
 * are of the call itself. */
static bool is_lost(int rc)
{
	return rc < 0 && rc != -EINTR && rc != -EBADF && rc != -ESPIPE &&
	       rc != -ENOSYS && rc != -EPERM;
}

/* Waits for what is being written, starts nothing. */
void watch_look(struct cache *c)
{
	for (uint32_t i = 0; i < c->n_segments && !c->stop; i++) {
		int fd = c->fds[i], rc;

		if (!c->segments[i].used || !c->segments[i].looks)
			continue;
		c->segments[i].looks--;
		(void)pthread_mutex_unlock(&c->space);
		rc = sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE);
		if (rc < 0)
			rc = -errno;
		(void)pthread_mutex_lock(&c->space);
		if (is_lost(rc))
			watch_distrust(c, i);
	}
}

/* With space, which is released and taken again. */
static void look_at_mounts(struct cache *c)
{
	bool soon;

	c->is_soon = false;
	(void)pthread_mutex_unlock(&c->space);
	soon = mounts_poll(c);
	soon |= freeze_poll(c);
	(void)pthread_mutex_lock(&c->space);
	c->is_soon |= soon;
}

/* With space, which is released and taken again; until `at_ns`, or until another
 * thread wants something. */
static void wait_until(struct cache *c, int64_t at_ns)
{
	bool was = c->is_soon;

	while (!c->stop && c->is_soon == was &&
	       cond_wait_until(&c->stopping, &c->space, at_ns))
		;
}

static void *watch_main(void *arg)
{
	struct cache *c = arg;
	int64_t next_ns = clock_now_ns() + EVERY_S * NS_PER_S, at_ns;

	(void)pthread_mutex_lock(&c->space);
	while (!c->stop) {
		at_ns = clock_now_ns() + SOON_S * NS_PER_S;
		wait_until(c, c->is_soon && at_ns < next_ns ? at_ns : next_ns);
		look_at_mounts(c);
		if (clock_now_ns() < next_ns)
			continue;
		next_ns = clock_now_ns() + EVERY_S * NS_PER_S;
		watch_look(c);
	}
	(void)pthread_mutex_unlock(&c->space);
	return NULL;
}

void watch_soon(struct cache *c)
{
	(void)pthread_mutex_lock(&c->space);
	c->is_soon = true;
	(void)pthread_cond_broadcast(&c->stopping);
	(void)pthread_mutex_unlock(&c->space);
}

int watch_start(struct cache *c, struct error *err)
{
	int rc = pthread_create(&c->watcher, NULL, watch_main, c);

	if (rc)
		return error_set(err, rc, "cache: start thread");
	c->has_watcher = true;
	return 0;
}

void watch_stop(struct cache *c)
{
	if (!c->has_watcher)
		return;
	(void)pthread_mutex_lock(&c->space);
	c->stop = true;
	(void)pthread_cond_broadcast(&c->stopping);
	(void)pthread_mutex_unlock(&c->space);
	(void)pthread_join(c->watcher, NULL);
}
