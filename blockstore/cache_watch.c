// SPDX-License-Identifier: Apache-2.0
/*
 * The cache's thread. It notices when mounts are gone, and errors of write-back. Blocks that
 * were put are served from the page cache without another check; if the kernel could not write
 * them, they are lost once their pages are dropped, and the disk has other bytes. So the thread
 * asks for the result of write-back, and drops the blocks of a segment with an error. Pages that
 * an earlier process wrote before it was killed may also be unwritten, while hashing finds them
 * right in the page cache; so a segment is checked after opening as after a put: the kernel
 * reports an error that nobody has seen to a new descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "blockstore/cache.h"
#include "common/clock.h"
#include "common/cond.h"

#define EVERY_S 5
#define SOON_S 1 /* while mounts are being dropped, or segments are frozen */

/* The last check of a segment writes back its dirty pages, in pieces, so that the end of the
 * process never waits long. A round stops after SETTLE_NS and the next one goes on, since this
 * thread must also look at mounts. */
#define SETTLE_BYTES (8u << 20)
#define SETTLE_NS NS_PER_S

void watch_distrust(struct cache *c, uint32_t segment)
{
	/* A block that is being written has no entry yet, or a damaged one, so the loop does
	 * not find it; its writer compares the counter. */
	c->segments[segment].n_lost++;
	for (uint32_t id = 0; id < c->n_entries; id++) {
		const struct entry *e = entry_at(c, id);

		if (e->usize && e->page != PAGE_NONE &&
		    e->page / c->segment_pages == segment)
			distrust(c, id, ENTRY_VERIFIED);
	}
}

/* Does this error mean that written data was lost? Write-back reports once whatever error
 * the disk, the network below it or a quota gives (ENODATA, ETIMEDOUT, EDQUOT, EINVAL, ...).
 * The few errors here come from the call itself. */
static bool is_data_loss_error(int rc)
{
	return rc < 0 && rc != -EINTR && rc != -EBADF && rc != -ESPIPE &&
	       rc != -ENOSYS && rc != -EPERM;
}

/* Wait for write-back of a range, and distrust the segment after an error. False: its blocks
 * were dropped. With space, which is released and taken again. */
static bool sync_segment_range(struct cache *c, uint32_t segment, uint64_t off,
			       uint64_t len, unsigned int flags)
{
	int fd = c->fds[segment], rc;

	(void)pthread_mutex_unlock(&c->space);
	rc = sync_file_range(fd, (off_t)off, (off_t)len, flags);
	if (rc < 0)
		rc = -errno;
	(void)pthread_mutex_lock(&c->space);
	if (is_data_loss_error(rc))
		watch_distrust(c, segment);
	return !is_data_loss_error(rc);
}

/* The last check of a segment: writes back pages that a slow disk left dirty, since an error
 * of a later write-back would go unnoticed. Stops early when the segment is written again,
 * which restarts its checks, and after an error; the next round goes on behind it. */
static void cache_watch_settle(struct cache *c, uint32_t segment,
			       int64_t end_ns)
{
	struct segment *s = &c->segments[segment];
	bool goes_on = true;

	while (goes_on && !c->stop && s->looks == 1 &&
	       clock_now_ns() < end_ns) {
		uint64_t off = s->settled;

		if (off >= c->segment_bytes) {
			s->looks = 0;
			return;
		}
		s->settled += SETTLE_BYTES;
		goes_on = sync_segment_range(c, segment, off, SETTLE_BYTES,
					     SYNC_FILE_RANGE_WRITE_AND_WAIT);
	}
}

/* Check the segments. All checks but a segment's last only wait for write-back that is
 * running. */
void watch_look(struct cache *c)
{
	int64_t end_ns = clock_now_ns() + SETTLE_NS;

	for (uint32_t i = 0; i < c->n_segments && !c->stop; i++) {
		struct segment *s = &c->segments[i];

		if (!s->used || !s->looks)
			continue;
		if (s->looks == 1) {
			cache_watch_settle(c, i, end_ns);
			continue;
		}
		s->looks--;
		(void)sync_segment_range(c, i, 0, 0,
					 SYNC_FILE_RANGE_WAIT_BEFORE);
	}
}

/* Look for mounts that are gone. With space, which is released and taken again. */
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

/* Wait until `at_ns`, or until another thread wakes this one. With space, which is released
 * and taken again. */
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

int watch_start(struct cache *c, struct error *err)
{
	return thread_start(&c->watcher, watch_main, c, err);
}

void watch_stop(struct cache *c)
{
	if (!c->watcher.is_started)
		return;
	(void)pthread_mutex_lock(&c->space);
	c->stop = true;
	(void)pthread_cond_broadcast(&c->stopping);
	(void)pthread_mutex_unlock(&c->space);
	thread_join(&c->watcher);
}
