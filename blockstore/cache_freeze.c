// SPDX-License-Identifier: Apache-2.0
/*
 * Freezes segments with unknown readers: mounts of an earlier process, whose lists of blocks are
 * lost. As it is not known what they read, nothing in these segments is freed, evicted, punched
 * or written, and their blocks are given to no new mount, until nobody else has the files open.
 * A write lease tells whether anybody has.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blockstore/cache.h"
#include "common/fs.h"

/* Bytes on the disk that belong to no known block. */
static uint64_t count_unknown_segment_bytes(const struct cache *c, uint32_t n)
{
	uint64_t known = (uint64_t)(c->segment_pages - c->segments[n].n_free) *
			 CACHE_PAGE;
	struct stat st;

	if (fstat(c->fds[n], &st) < 0 || (uint64_t)st.st_blocks * 512 < known)
		return 0;
	return (uint64_t)st.st_blocks * 512 - known;
}

static void freeze_segment(struct cache *c, uint32_t n)
{
	struct segment *s = &c->segments[n];

	s->frozen = true;
	s->frozen_bytes = count_unknown_segment_bytes(c, n);
	c->n_frozen++;
	c->frozen_bytes += s->frozen_bytes;
	c->bytes += s->frozen_bytes;
}

/* May others have the file open? When the kernel was short of memory, it could not tell, so
 * the answer is yes. When the file system has no leases, the answer is no: cache_mount_keep()
 * allows no mounts there. */
static bool may_be_in_use(int fd)
{
	int rc = fs_is_in_use(fd);

	return rc > 0 || (rc < 0 && rc != -EINVAL && rc != -EACCES &&
			  rc != -ENOLCK && rc != -EOPNOTSUPP);
}

/* Freeze the segment if it is open elsewhere and not only by mounts with known blocks. */
static int freeze_if_open_elsewhere(struct cache *c, uint32_t n,
				    bool trust_mounts, struct error *err)
{
	struct segment *s = &c->segments[n];
	int rc = s->used ? 0 : space_open_segment(c, n, false, err);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (may_be_in_use(c->fds[n]) && !(trust_mounts && s->mounted))
		freeze_segment(c, n);
	return 0;
}

int freeze_unknown(struct cache *c, struct error *err)
{
	int fd = openat(c->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	/* A mount whose blocks are not known may also read segments that known mounts read. */
	bool trust_mounts = mounts_are_known(c);
	struct dirent *e;
	int rc = 0;

	if (!dir) {
		rc = error_errno(err, errno, "list '%s'", c->dir);
		fd_close(fd);
		return rc;
	}
	while (rc == 0 && (e = readdir(dir))) {
		unsigned int n;
		char extra;

		if (sscanf(e->d_name, "segment-%8x%c", &n, &extra) == 1 &&
		    n < CACHE_SEGMENTS_MAX)
			rc = freeze_if_open_elsewhere(c, n, trust_mounts, err);
	}
	(void)closedir(dir);
	return rc;
}

/* Drop the blocks of a thawed segment that were found damaged while it was frozen and so
 * kept their places. With space, which is released and taken again. */
static void drop_damaged_of(struct cache *c, uint32_t segment)
{
	for (uint32_t id = 0; id < c->n_entries; id++) {
		struct entry *e = entry_at(c, id);
		struct shard *s;
		bool dead = false;

		if (!e->usize || e->page == PAGE_NONE ||
		    e->page / c->segment_pages != segment)
			continue;
		s = shard_of(c, &e->digest);
		(void)pthread_mutex_lock(&s->lock);
		if (e->flags & ENTRY_DAMAGED && !(e->flags & ENTRY_DEAD) &&
		    !e->pins) {
			make_dead(c, s, id);
			dead = !e->readers;
		}
		(void)pthread_mutex_unlock(&s->lock);
		if (dead)
			reclaim(c, id);
	}
}

/* Thaw a segment. With space, which is released and taken again. */
static void cache_freeze_thaw(struct cache *c, uint32_t n)
{
	struct segment *s = &c->segments[n];

	/* Safe without the lock: pages of a frozen segment are neither claimed nor released. */
	(void)pthread_mutex_unlock(&c->space);
	space_sweep_segment(c, n);
	(void)pthread_mutex_lock(&c->space);
	if (!s->frozen)
		return;
	s->frozen = false;
	c->n_frozen--;
	c->frozen_bytes -= s->frozen_bytes;
	c->bytes -= s->frozen_bytes;
	s->frozen_bytes = 0;
	drop_damaged_of(c, n);
	scrub_tell_soon(c);
	(void)pthread_cond_broadcast(&c->freed);
}

void cache_freeze_in_use(struct cache *c)
{
	bool any;

	(void)pthread_mutex_lock(&c->space);
	for (uint32_t i = 0; i < c->n_segments; i++)
		if (c->segments[i].used && !c->segments[i].frozen &&
		    may_be_in_use(c->fds[i]))
			freeze_segment(c, i);
	any = c->n_frozen > 0;
	(void)pthread_mutex_unlock(&c->space);
	if (any)
		watch_soon(c);
}

bool freeze_poll(struct cache *c)
{
	bool any;

	(void)pthread_mutex_lock(&c->space);
	for (uint32_t i = 0; i < c->n_segments && c->n_frozen; i++)
		if (c->segments[i].used && c->segments[i].frozen &&
		    fs_is_in_use(c->fds[i]) == 0)
			cache_freeze_thaw(c, i);
	any = c->n_frozen > 0;
	(void)pthread_mutex_unlock(&c->space);
	return any;
}
