// SPDX-License-Identifier: Apache-2.0
/*
 * The cache's thread.  It sees when mounts are gone.  And it sees errors of
 * write-back: what was put is served from the page cache without another look;
 * when the kernel could not write it, it is lost as soon as its pages are, and the
 * disk holds other bytes.  So the result of write-back is asked for, and what lies
 * in a segment with an error is not held any more.  What a predecessor put and was
 * killed before it was written is in the page cache, too, where hashing finds it
 * right, so a segment is asked for after it was opened as after a put: the kernel
 * tells a new descriptor of an error that nobody has seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "blockstore/cache.h"
#include "common/clock.h"
#include "common/cond.h"

#define EVERY_S 5
#define SOON_S 1 /* while mounts are to go, or segments are frozen */

/* The last look writes what is not written yet, by pieces: none keeps the end of the
 * process waiting for long, and a round leaves what a slow disk has not taken in so long to
 * the next one, because mounts are looked at by this thread, too. */
#define SETTLE_BYTES (8u << 20)
#define SETTLE_NS NS_PER_S

void watch_distrust(struct cache *c, uint32_t segment)
{
	/* A block that is being written there has no entry yet, or a damaged
	 * one: the loop does not find it, and the count tells its writer. */
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

/* With space, which is released and taken again.  False: nothing is held there any more. */
static bool ask_disk(struct cache *c, uint32_t segment, uint64_t off,
		     uint64_t len, unsigned int flags)
{
	int fd = c->fds[segment], rc;

	(void)pthread_mutex_unlock(&c->space);
	rc = sync_file_range(fd, (off_t)off, (off_t)len, flags);
	if (rc < 0)
		rc = -errno;
	(void)pthread_mutex_lock(&c->space);
	if (is_lost(rc))
		watch_distrust(c, segment);
	return !is_lost(rc);
}

/* The last look: nobody would hear of pages that are written later, so what a slow disk has
 * left dirty until now is written.  It ends early when the segment is written again, because
 * its looks begin anew, and after an error, behind which the next round goes on. */
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
		goes_on = ask_disk(c, segment, off, SETTLE_BYTES,
				   SYNC_FILE_RANGE_WRITE_AND_WAIT);
	}
}

/* All looks but the last wait for what is being written and start nothing. */
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
		(void)ask_disk(c, i, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE);
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
