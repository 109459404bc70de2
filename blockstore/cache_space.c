// SPDX-License-Identifier: Apache-2.0
/*
 * Segment files: sparse, all of one size, divided into pages. Consecutive puts get consecutive
 * pages, so that blocks fetched together lie together on the disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "blockstore/cache.h"
#include "common/fs.h"

#define AHEAD_FROM 65536u /* a read of so many bytes is part of a readahead */

int space_init(struct cache *c, struct error *err)
{
	for (size_t i = 0; i < CACHE_SEGMENTS_MAX; i++)
		c->fds[i] = -1;
	c->segments = calloc(CACHE_SEGMENTS_MAX, sizeof(*c->segments));
	return c->segments ? 0 : error_nomem(err);
}

void space_fini(struct cache *c)
{
	for (size_t i = 0; i < CACHE_SEGMENTS_MAX; i++) {
		fd_close(c->fds[i]);
		if (c->segments)
			free(c->segments[i].used);
	}
	free(c->segments);
}

int space_open_segment(struct cache *c, uint32_t n, bool create,
		       struct error *err)
{
	AUTO_FREE uint64_t *used = NULL;
	AUTO_CLOSE int fd = -1;
	struct stat st;
	char name[32];

	(void)snprintf(name, sizeof(name), "segment-%08" PRIx32, n);
	fd = openat(c->dir_fd, name,
		    O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0),
		    0600);
	if (fd < 0)
		return error_errno(err, errno, "open '%s/%s'", c->dir, name);
	/* Extend the file if a crash cut it: the missing rest reads as zeros, which match no
	 * digest. Never truncate here: a mount may read the file. */
	if (fstat(fd, &st) < 0 || ((uint64_t)st.st_size < c->segment_bytes &&
				   ftruncate(fd, (off_t)c->segment_bytes) < 0))
		return error_errno(err, errno, "size '%s/%s'", c->dir, name);
	used = calloc((c->segment_pages + 63) / 64, sizeof(*used));
	if (!used)
		return error_nomem(err);
	c->segments[n].used = steal_ptr(&used);
	c->segments[n].n_free = c->segment_pages;
	c->fds[n] = steal_fd(&fd);
	/* An earlier process may have been killed before all its data was on the disk, so
	 * check this segment too. */
	watch_segment(c, n);
	if (n >= c->n_segments)
		c->n_segments = n + 1;
	return 0;
}

static bool is_used(const struct segment *s, uint32_t i)
{
	return s->used[i / 64] >> (i % 64) & 1;
}

static void cache_space_mark(struct segment *s, uint32_t first, uint32_t n,
			     bool used)
{
	for (uint32_t i = first; i < first + n; i++) {
		if (used)
			s->used[i / 64] |= 1ull << (i % 64);
		else
			s->used[i / 64] &= ~(1ull << (i % 64));
	}
	s->n_free += used ? -n : n;
}

bool space_claim(struct cache *c, uint32_t page, uint32_t n)
{
	uint32_t first = page % c->segment_pages;
	uint32_t number = page / c->segment_pages;
	struct segment *s;

	if (number >= CACHE_SEGMENTS_MAX || !c->segments[number].used ||
	    n > c->segment_pages - first)
		return false;
	s = &c->segments[number];
	for (uint32_t i = first; i < first + n; i++)
		if (is_used(s, i))
			return false;
	cache_space_mark(s, first, n, true);
	return true;
}

void space_release(struct cache *c, uint32_t page, uint32_t n)
{
	cache_space_mark(&c->segments[page / c->segment_pages],
			 page % c->segment_pages, n, false);
}

/* First of `n` free pages at or after `from`, or segment_pages. */
static uint32_t find_run(const struct cache *c, const struct segment *s,
			 uint32_t from, uint32_t n)
{
	uint32_t run = 0;

	for (uint32_t i = from; i < c->segment_pages; i++) {
		if (i % 64 == 0 && s->used[i / 64] == UINT64_MAX) {
			run = 0;
			i += 63;
			continue;
		}
		run = is_used(s, i) ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return c->segment_pages;
}

static bool alloc_in(struct cache *c, uint32_t number, uint32_t from,
		     uint32_t n, uint32_t *ret_page)
{
	struct segment *s = &c->segments[number];
	uint32_t at;

	if (!s->used || s->frozen || s->n_free < n)
		return false;
	at = find_run(c, s, from, n);
	if (at == c->segment_pages)
		return false;
	cache_space_mark(s, at, n, true);
	c->open_segment = number;
	c->cursor = at + n;
	*ret_page = number * c->segment_pages + at;
	return true;
}

static int alloc_fresh(struct cache *c, uint32_t n, uint32_t *ret_page,
		       struct error *err)
{
	uint32_t number = 0;
	int rc;

	while (number < CACHE_SEGMENTS_MAX && c->segments[number].used)
		number++;
	if (number == CACHE_SEGMENTS_MAX)
		return error_set(err, ENOSPC, "cache: %u segment files",
				 number);
	rc = space_open_segment(c, number, true, err);
	if (rc < 0)
		return rc;
	(void)alloc_in(c, number, 0, n, ret_page);
	return 0;
}

/* Allocate in a used segment, the emptiest first: large gaps keep neighbours together. */
static bool alloc_reused(struct cache *c, uint32_t n, uint32_t *ret_page)
{
	uint32_t best = CACHE_SEGMENTS_MAX;

	for (uint32_t i = 0; i < c->n_segments; i++) {
		if (!c->segments[i].used || c->segments[i].frozen ||
		    c->segments[i].n_free < n)
			continue;
		if (best == CACHE_SEGMENTS_MAX ||
		    c->segments[i].n_free > c->segments[best].n_free)
			best = i;
	}
	if (best == CACHE_SEGMENTS_MAX)
		return false;
	if (alloc_in(c, best, 0, n, ret_page))
		return true;
	for (uint32_t i = 0; i < c->n_segments; i++)
		if (i != best && alloc_in(c, i, 0, n, ret_page))
			return true;
	return false;
}

int space_alloc(struct cache *c, uint32_t n, uint32_t *ret_page,
		struct error *err)
{
	uint64_t wanted = c->quota / c->segment_bytes + 2;

	if (alloc_in(c, c->open_segment, c->cursor, n, ret_page))
		return 0;
	/* Holes take no disk space, so a fresh file is preferred while there are not too
	 * many files. */
	if (c->n_segments >= wanted && alloc_reused(c, n, ret_page))
		return 0;
	return alloc_fresh(c, n, ret_page, err);
}

static void cache_space_punch(struct cache *c, uint32_t number, uint32_t first,
			      uint32_t n)
{
	/* A file system that cannot punch holes keeps the bytes until the pages are written
	 * again; the quota counts only claimed pages. */
	(void)fallocate(c->fds[number],
			FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)first * CACHE_PAGE, (off_t)n * CACHE_PAGE);
}

void space_punch(struct cache *c, uint32_t page, uint32_t n)
{
	cache_space_punch(c, page / c->segment_pages, page % c->segment_pages,
			  n);
}

static void sweep_gap(struct cache *c, uint32_t number, uint32_t first,
		      uint32_t end)
{
	off_t from = (off_t)first * CACHE_PAGE;
	off_t data = lseek(c->fds[number], from, SEEK_DATA);

	if (data >= 0 && data < (off_t)end * CACHE_PAGE)
		cache_space_punch(c, number, first, end - first);
}

void space_sweep_segment(struct cache *c, uint32_t number)
{
	const struct segment *s = &c->segments[number];
	uint32_t first = 0;

	for (uint32_t i = 0; i < c->segment_pages; i++) {
		if (!is_used(s, i))
			continue;
		if (i > first)
			sweep_gap(c, number, first, i);
		first = i + 1;
	}
	if (first < c->segment_pages)
		sweep_gap(c, number, first, c->segment_pages);
}

void space_sweep(struct cache *c)
{
	for (uint32_t number = 0; number < c->n_segments; number++)
		if (c->segments[number].used && !c->segments[number].frozen)
			space_sweep_segment(c, number);
}

int space_read(struct cache *c, uint32_t page, uint64_t off, void *buf,
	       size_t len)
{
	uint64_t at = (uint64_t)(page % c->segment_pages) * CACHE_PAGE + off;

	return fs_pread_full(c->fds[page / c->segment_pages], buf, len, at);
}

int space_read_part(struct cache *c, uint32_t page, uint32_t usize,
		    uint64_t off, void *buf, size_t len)
{
	uint64_t at = (uint64_t)(page % c->segment_pages) * CACHE_PAGE + off;
	int fd = c->fds[page / c->segment_pages];
	struct iovec v = { .iov_base = buf, .iov_len = len };
	ssize_t n;

	if (len < AHEAD_FROM)
		return fs_pread_full(fd, buf, len, at);
	/* Reads of a mount arrive one by one, mixed with those of other readers, so the
	 * kernel detects no sequence. But a large read is part of the mount's own readahead:
	 * the rest of the block comes next, so start reading it. */
	n = preadv2(fd, &v, 1, (off_t)at, RWF_NOWAIT);
	if (n == (ssize_t)len)
		return 0;
	(void)posix_fadvise(fd, (off_t)at, (off_t)(usize - off),
			    POSIX_FADV_WILLNEED);
	return fs_pread_full(fd, buf, len, at);
}

static const uint8_t zeros[CACHE_PAGE];

int space_write(struct cache *c, uint32_t page, const void *buf, size_t len)
{
	uint64_t at = (uint64_t)(page % c->segment_pages) * CACHE_PAGE;
	int fd = c->fds[page / c->segment_pages];
	size_t pad = (CACHE_PAGE - len % CACHE_PAGE) % CACHE_PAGE;
	struct iovec v[2] = {
		{ .iov_base = (void *)(uintptr_t)buf, .iov_len = len },
		{ .iov_base = (void *)(uintptr_t)zeros, .iov_len = pad },
	};
	ssize_t n = pwritev(fd, v, 2, (off_t)at);
	int rc;

	if (n == (ssize_t)(len + pad))
		return 0;
	/* A short write is rare: write again, piece by piece, to finish or to get the error. */
	rc = fs_pwrite_full(fd, buf, len, at);
	return rc < 0 ? rc : fs_pwrite_full(fd, zeros, pad, at + len);
}

int space_check_padding(struct cache *c, uint32_t page, uint32_t usize)
{
	size_t pad = (CACHE_PAGE - usize % CACHE_PAGE) % CACHE_PAGE;
	uint8_t got[CACHE_PAGE];
	int rc = space_read(c, page, usize, got, pad);

	if (rc == 0 && memcmp(got, zeros, pad) != 0)
		rc = -EBADMSG;
	return rc;
}
