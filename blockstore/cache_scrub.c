// SPDX-License-Identifier: Apache-2.0
/*
 * Finds bits that flip on the disk after a block was verified. A thread reads every verified
 * block again, past the page cache, slowly and at idle priority; also every pinned block, which
 * a mount may read without this process. A block that is damaged on the disk but right in the
 * page cache is written again; others become misses.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "blockstore/cache.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/cond.h"
#include "common/fs.h"

/* Delay of the first scrub after a start with mounts of an earlier process: bits that
 * flipped since its last scrub, and damage it had not mended, are found soon, even if bootseerd
 * restarts daily. The start itself goes first. */
#define SOON_NS (60 * NS_PER_S)

/* Will the block be read without being hashed? With both locks. */
static bool is_read_unverified(const struct entry *e)
{
	return e->pins || e->flags & ENTRY_VERIFIED;
}

/* Register as a reader of a block that is to be read again. */
static bool take_block(struct cache *c, uint32_t id, struct block *ret,
		       uint32_t *ret_page)
{
	const uint8_t unfit = ENTRY_DEAD | ENTRY_DAMAGED | ENTRY_TOMB;
	struct shard *s;
	struct entry *e;
	bool fits = false;

	(void)pthread_mutex_lock(&c->space);
	if (id < c->n_entries && entry_at(c, id)->usize) {
		e = entry_at(c, id);
		s = shard_of(c, &e->digest);
		(void)pthread_mutex_lock(&s->lock);
		fits = e->page != PAGE_NONE && is_read_unverified(e) &&
		       !(e->flags & unfit) && e->readers < UINT16_MAX;
		if (fits) {
			e->readers++;
			*ret = (struct block){ .digest = e->digest,
					       .usize = e->usize };
			*ret_page = e->page;
		}
		(void)pthread_mutex_unlock(&s->lock);
	}
	(void)pthread_mutex_unlock(&c->space);
	return fits;
}

/* Read the block from the disk, up to the end of its last page. */
static int read_disk(struct cache *c, uint32_t page, uint8_t *buf, size_t len)
{
	uint64_t at = (uint64_t)(page % c->segment_pages) * CACHE_PAGE;
	int own = c->fds[page / c->segment_pages];
	AUTO_CLOSE int fd = -1;
	char path[32];

	(void)snprintf(path, sizeof(path), "segment-%08" PRIx32,
		       page / c->segment_pages);
	fd = openat(c->dir_fd, path,
		    O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		return fs_pread_full(fd, buf, len, at);
	/* The file system has no direct I/O: drop the pages and read again. */
	(void)posix_fadvise(own, (off_t)at, (off_t)len, POSIX_FADV_DONTNEED);
	return fs_pread_full(own, buf, len, at);
}

static int cache_scrub_check(const struct block *b, const uint8_t *buf,
			     size_t len)
{
	int rc = block_check(b, buf, NULL);

	for (size_t i = b->usize; rc == 0 && i < len; i++)
		rc = buf[i] ? -EBADMSG : 0;
	return rc;
}

/* If the block is right in the page cache, write it to the disk again. */
static bool cache_scrub_mend(struct cache *c, const struct block *b,
			     uint32_t page, uint8_t *buf, size_t len)
{
	bool frozen;

	(void)pthread_mutex_lock(&c->space);
	frozen = is_frozen(c, page);
	watch_written(c, page);
	(void)pthread_mutex_unlock(&c->space);
	return !frozen && space_read(c, page, 0, buf, len) == 0 &&
	       cache_scrub_check(b, buf, len) == 0 &&
	       space_write(c, page, buf, b->usize) == 0;
}

/* Check one block; returns the bytes that were read. */
static uint64_t scrub_one(struct cache *c, uint32_t id, uint8_t *buf)
{
	bool lost = false, mended = false;
	uint32_t page;
	struct block b;
	size_t len;
	int rc;

	if (!take_block(c, id, &b, &page))
		return 0;
	len = extent_bytes(b.usize);
	rc = read_disk(c, page, buf, len);
	if (rc == 0)
		rc = cache_scrub_check(&b, buf, len);
	if (rc < 0 && rc != -ENOMEM && rc != -EINTR) {
		mended = cache_scrub_mend(c, &b, page, buf, len);
		lost = !mended;
	}
	if (lost)
		drop_damaged(c, id);
	release(c, id);
	(void)pthread_mutex_lock(&c->space);
	c->scrubbed += len;
	c->mended += mended;
	(void)pthread_mutex_unlock(&c->space);
	return len;
}

/* Report damage that is due. Returns when the next report is due; 0: never, or nobody
 * listens (cache_on_damage() will report then). */
static int64_t report_damage(struct cache *c)
{
	int64_t next_ns = 0;

	(void)pthread_mutex_lock(&c->scrub_lock);
	if (c->damage_fn && mounts_note_damage(c, clock_now_ns(), &next_ns))
		c->damage_fn(c->damage_arg);
	(void)pthread_mutex_unlock(&c->scrub_lock);
	return next_ns;
}

/* Report damage repeatedly until the blocks are right: the listener may fail, and meanwhile
 * a mount reads wrong bytes. */
bool scrub_tell(struct cache *c)
{
	int64_t next_ns;

	if (!c->tell_ns || c->tell_ns > clock_now_ns())
		return false;
	c->tell_ns = 0;
	(void)pthread_mutex_unlock(&c->space);
	next_ns = report_damage(c);
	(void)pthread_mutex_lock(&c->space);
	if (next_ns && (!c->tell_ns || next_ns < c->tell_ns))
		c->tell_ns = next_ns;
	return true;
}

/* Wait until `at_ns`, and report damage meanwhile, whoever found it. False: the thread must
 * end. */
static bool wait_until(struct cache *c, int64_t at_ns)
{
	bool stop;

	(void)pthread_mutex_lock(&c->space);
	while (!c->stop) {
		if (scrub_tell(c))
			continue;
		if (at_ns <= clock_now_ns())
			break;
		(void)cond_wait_until(&c->stopping, &c->space,
				      c->tell_ns && c->tell_ns < at_ns
					      ? c->tell_ns
					      : at_ns);
	}
	stop = c->stop;
	(void)pthread_mutex_unlock(&c->space);
	return !stop;
}

static bool scrub_all(struct cache *c, uint8_t *buf)
{
	int64_t at_ns = clock_now_ns();
	uint32_t n;

	(void)pthread_mutex_lock(&c->space);
	n = c->n_entries;
	(void)pthread_mutex_unlock(&c->space);
	for (uint32_t id = 0; id < n; id++) {
		uint64_t len = scrub_one(c, id, buf);

		if (!len)
			continue;
		at_ns += (int64_t)(len * (uint64_t)NS_PER_S / c->scrub_rate);
		if (!wait_until(c, at_ns))
			return false;
	}
	return true;
}

int64_t scrub_first_ns(struct cache *c)
{
	return mounts_are_any(c) && c->scrub_every_ns > SOON_NS
		       ? SOON_NS
		       : c->scrub_every_ns;
}

static void *scrub_main(void *arg)
{
	struct cache *c = arg;
	int64_t at_ns = clock_now_ns() + scrub_first_ns(c);
	void *buf;

	/* Lowers the priorities of this thread only; if that fails, the scrubber just
	 * disturbs others more. */
	(void)setpriority(PRIO_PROCESS, 0, 19);
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
		      IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
	if (posix_memalign(&buf, CACHE_PAGE, BLOCK_USIZE_MAX))
		return NULL;
	while (wait_until(c, at_ns)) {
		at_ns = clock_now_ns() + c->scrub_every_ns;
		if (!scrub_all(c, buf))
			break;
	}
	free(buf);
	return NULL;
}

void cache_on_damage(struct cache *c, void (*fn)(void *arg), void *arg)
{
	(void)pthread_mutex_lock(&c->scrub_lock);
	c->damage_fn = fn;
	c->damage_arg = arg;
	(void)pthread_mutex_unlock(&c->scrub_lock);
	/* Report damage that was found before there was a listener. */
	(void)pthread_mutex_lock(&c->space);
	scrub_tell_soon(c);
	(void)pthread_mutex_unlock(&c->space);
}

int scrub_start(struct cache *c, struct error *err)
{
	if (!c->scrub_every_ns || !c->scrub_rate)
		return 0;
	return thread_start(&c->scrubber, scrub_main, c, err);
}

/* Join the scrubber, after watch_stop() has told it to end. */
void scrub_stop(struct cache *c)
{
	thread_join(&c->scrubber);
}
