// SPDX-License-Identifier: Apache-2.0
/*
 * The index file: a log of the places of blocks. It is only a hint, since blocks are hashed
 * before they are served: records are never synced, and a torn, flipped or lost record costs a
 * miss. Format: docs/formats/cache.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

#include "blockstore/cache.h"
#include "common/bytes.h"
#include "common/fs.h"

#define MAGIC "BSEERIDX"
#define VERSION 1u
#define PIECE_RECORDS 1365u /* just under 64 KiB */
/* obsolete records for which a rewrite does not pay */
#define COMPACT_SLACK 4096u

/* Header: magic, version, reserved, bytes of a segment, zeros, CRC-32. */
#define HEADER_VERSION_AT 8
#define HEADER_SEGMENT_AT 16
#define HEADER_CRC_AT 60
/* Record: kind, page, bytes, digest, CRC-32. */
#define RECORD_PAGE_AT 4
#define RECORD_USIZE_AT 8
#define RECORD_DIGEST_AT 12
#define RECORD_CRC_AT 44

static uint32_t crc_of(const uint8_t *p, size_t n)
{
	return (uint32_t)crc32(0, p, (uInt)n);
}

void log_encode_header(uint64_t segment_bytes, uint8_t p[LOG_HEADER_SIZE])
{
	memset(p, 0, LOG_HEADER_SIZE);
	memcpy(p, MAGIC, 8);
	put_le32(p + HEADER_VERSION_AT, VERSION);
	put_le64(p + HEADER_SEGMENT_AT, segment_bytes);
	put_le32(p + HEADER_CRC_AT, crc_of(p, HEADER_CRC_AT));
}

int log_decode_header(const uint8_t *p, size_t len, uint64_t *ret_segment_bytes,
		      struct error *err)
{
	uint32_t version;
	uint64_t bytes;

	if (len < LOG_HEADER_SIZE || memcmp(p, MAGIC, 8) != 0 ||
	    get_le32(p + HEADER_CRC_AT) != crc_of(p, HEADER_CRC_AT))
		return error_set(err, EINVAL, "cache index: damaged header");
	version = get_le32(p + HEADER_VERSION_AT);
	if (version != VERSION)
		return error_set(err, ENOTSUP,
				 "cache index: version %" PRIu32
				 ", this program reads %u; remove the cache "
				 "folder to start afresh",
				 version, VERSION);
	bytes = get_le64(p + HEADER_SEGMENT_AT);
	if (bytes < CACHE_SEGMENT_MIN || bytes > CACHE_SEGMENT_BYTES ||
	    bytes % CACHE_PAGE)
		return error_set(err, EINVAL,
				 "cache index: segments of %" PRIu64 " bytes",
				 bytes);
	*ret_segment_bytes = bytes;
	return 0;
}

void log_encode(const struct log_record *r, uint8_t p[LOG_RECORD_SIZE])
{
	put_le32(p, r->kind);
	put_le32(p + RECORD_PAGE_AT, r->page);
	put_le32(p + RECORD_USIZE_AT, r->usize);
	memcpy(p + RECORD_DIGEST_AT, r->digest.b, DIGEST_SIZE);
	put_le32(p + RECORD_CRC_AT, crc_of(p, RECORD_CRC_AT));
}

bool log_decode(const uint8_t p[LOG_RECORD_SIZE], struct log_record *ret)
{
	uint32_t kind = get_le32(p);

	if (get_le32(p + RECORD_CRC_AT) != crc_of(p, RECORD_CRC_AT) ||
	    (kind != LOG_PUT && kind != LOG_DROP))
		return false;
	ret->kind = kind;
	ret->page = get_le32(p + RECORD_PAGE_AT);
	ret->usize = get_le32(p + RECORD_USIZE_AT);
	memcpy(ret->digest.b, p + RECORD_DIGEST_AT, DIGEST_SIZE);
	return ret->usize && ret->usize <= BLOCK_USIZE_MAX;
}

int log_append(struct cache *c, const struct log_record *r, size_t n)
{
	uint8_t piece[64 * LOG_RECORD_SIZE];

	while (n) {
		size_t now = n < 64 ? n : 64;
		int rc;

		for (size_t i = 0; i < now; i++)
			log_encode(&r[i], piece + i * LOG_RECORD_SIZE);
		/* Written at computed offsets, so that the rest of a failed write is
		 * overwritten and records stay aligned. */
		rc = fs_pwrite_full(c->log_fd, piece, now * LOG_RECORD_SIZE,
				    LOG_HEADER_SIZE +
					    c->log_records * LOG_RECORD_SIZE);
		if (rc < 0)
			return rc;
		c->log_records += now;
		r += now;
		n -= now;
	}
	return 0;
}

struct rewrite {
	int fd;
	uint64_t n; /* records so far */
	size_t filled;
	uint8_t piece[PIECE_RECORDS * LOG_RECORD_SIZE];
};

static int rewrite_flush(struct rewrite *w)
{
	size_t len = w->filled * LOG_RECORD_SIZE;

	w->filled = 0;
	return len ? fs_write_full(w->fd, w->piece, len) : 0;
}

/* Does the entry have a record in a new index? With both locks. */
static bool has_record_in_new_index(const struct entry *e)
{
	return e->usize && e->page != PAGE_NONE &&
	       !(e->flags & (ENTRY_DEAD | ENTRY_TOMB)) &&
	       (e->pins || e->flags & ENTRY_LISTED);
}

static int rewrite_entry(struct cache *c, struct rewrite *w, uint32_t id)
{
	struct entry *e = entry_at(c, id);
	struct shard *s = shard_of(c, &e->digest);
	struct log_record r = { .kind = LOG_PUT };
	bool live;

	(void)pthread_mutex_lock(&s->lock);
	live = has_record_in_new_index(e);
	if (live) {
		r.page = e->page;
		r.usize = e->usize;
		r.digest = e->digest;
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (!live)
		return 0;
	log_encode(&r, w->piece + w->filled * LOG_RECORD_SIZE);
	w->n++;
	return ++w->filled == PIECE_RECORDS ? rewrite_flush(w) : 0;
}

static int rewrite_all(struct cache *c, struct rewrite *w)
{
	uint8_t header[LOG_HEADER_SIZE];
	int rc;

	log_encode_header(c->segment_bytes, header);
	rc = fs_write_full(w->fd, header, sizeof(header));
	/* Oldest first, so that the order of the clock survives; pinned blocks are not on
	 * the clock. */
	for (uint32_t id = c->clock_head; rc == 0 && id != ENTRY_NIL;
	     id = entry_at(c, id)->next)
		rc = rewrite_entry(c, w, id);
	for (uint32_t id = 0; rc == 0 && id < c->n_entries; id++)
		if (entry_at(c, id)->pins)
			rc = rewrite_entry(c, w, id);
	if (rc == 0)
		rc = rewrite_flush(w);
	return rc == 0 && fdatasync(w->fd) < 0 ? -errno : rc;
}

/* Mark the entries as logged, after the new index file got its name; a place that is not in
 * the index must not be given to a mount. `space` was held since the records were written. */
static void mark_entries_logged(struct cache *c)
{
	for (uint32_t id = 0; id < c->n_entries; id++) {
		struct entry *e = entry_at(c, id);
		struct shard *s = shard_of(c, &e->digest);

		(void)pthread_mutex_lock(&s->lock);
		if (has_record_in_new_index(e))
			e->flags |= ENTRY_LOGGED;
		(void)pthread_mutex_unlock(&s->lock);
	}
}

int log_compact(struct cache *c, bool force, struct error *err)
{
	AUTO_FREE struct rewrite *w = NULL;
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!force && c->log_records < 4 * c->blocks + COMPACT_SLACK)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_nomem(err);
	fd = openat(c->dir_fd, "index.new",
		    O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_errno(err, errno, "create '%s/index.new'", c->dir);
	w->fd = fd;
	rc = rewrite_all(c, w);
	if (rc == 0 && renameat(c->dir_fd, "index.new", c->dir_fd, "index") < 0)
		rc = -errno;
	if (rc < 0) {
		rc = fs_refuse_write(fd, rc,
				     LOG_HEADER_SIZE +
					     (c->blocks + 1) * LOG_RECORD_SIZE,
				     ", or choose another folder with --root",
				     err);
		(void)unlinkat(c->dir_fd, "index.new", 0);
		return rc;
	}
	fd_close(c->log_fd);
	c->log_fd = steal_fd(&fd);
	c->log_records = w->n;
	mark_entries_logged(c);
	return 0;
}

/* Apply a record; newer ones were applied before. Returns false when it is obsolete or
 * impossible. */
static bool replay_one(struct cache *c, const struct log_record *r)
{
	struct shard *s = shard_of(c, &r->digest);
	uint32_t number = r->page / c->segment_pages, id;
	struct entry *e;

	if (table_find(c, s, &r->digest) != ENTRY_NIL)
		return false;
	id = table_take(c);
	if (id == ENTRY_NIL)
		return false;
	e = entry_at(c, id);
	e->digest = r->digest;
	e->flags = ENTRY_TOMB;
	e->page = PAGE_NONE;
	table_insert(c, s, id);
	if (r->kind != LOG_PUT || number >= CACHE_SEGMENTS_MAX)
		return false;
	if (!c->segments[number].used &&
	    space_open_segment(c, number, false, NULL) < 0)
		return false;
	/* The pages are taken by a newer record; the record that dropped this block was
	 * lost. */
	if (!space_claim(c, r->page, pages_of(r->usize)))
		return false;
	e->flags = ENTRY_LOGGED | ENTRY_LISTED;
	e->page = r->page;
	e->usize = r->usize;
	e->heat = 1;
	clock_prepend(c, id);
	c->bytes += extent_bytes(e->usize);
	c->blocks++;
	return true;
}

static void remove_dropped_entries(struct cache *c)
{
	for (uint32_t id = 0; id < c->n_entries; id++) {
		struct entry *e = entry_at(c, id);

		if (!(e->flags & ENTRY_TOMB))
			continue;
		table_remove(c, shard_of(c, &e->digest), id);
		table_give(c, id);
	}
}

int log_replay(struct cache *c, struct error *err)
{
	struct log_record r;
	struct stat st;
	uint8_t *map;
	uint64_t n;

	if (fstat(c->log_fd, &st) < 0)
		return error_errno(err, errno, "stat '%s/index'", c->dir);
	if ((uint64_t)st.st_size < LOG_HEADER_SIZE + LOG_RECORD_SIZE)
		return 0;
	n = ((uint64_t)st.st_size - LOG_HEADER_SIZE) / LOG_RECORD_SIZE;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, c->log_fd,
		   0);
	if (map == MAP_FAILED)
		return error_errno(err, errno, "map '%s/index'", c->dir);
	/* Bytes that the disk cannot read would end the process by SIGBUS when touched, so
	 * read them now; kernels before 5.14 cannot (EINVAL). */
	if (madvise(map, (size_t)st.st_size, MADV_POPULATE_READ) < 0 &&
	    errno != EINVAL) {
		(void)munmap(map, (size_t)st.st_size);
		return error_set(err, EIO,
				 "'%s/index' cannot be read from its disk: "
				 "delete it, and the blocks are fetched again",
				 c->dir);
	}
	for (uint64_t i = n; i-- > 0;)
		if (log_decode(map + LOG_HEADER_SIZE + i * LOG_RECORD_SIZE, &r))
			(void)replay_one(c, &r);
	(void)munmap(map, (size_t)st.st_size);
	remove_dropped_entries(c);
	c->log_records = n;
	return 0;
}
