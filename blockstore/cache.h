// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of the block cache; private to cache*.c and its tests.  Files on disk:
 * docs/formats/cache.md.
 *
 *   cache.c        what callers see: read, put, pin, locate, collect
 *   cache_open.c   open, recover, close
 *   cache_table.c  digest -> entry, in memory
 *   cache_space.c  segment files and their free pages
 *   cache_log.c    the index file
 *   cache_evict.c  whom to drop
 *   cache_watch.c  errors of write-back, and when mounts are gone
 *   cache_mounts.c what mounts read directly, and must stay
 *   cache_scrub.c  bits that flip on the disk
 *   cache_kernel.c mounts of whose files the names are lost
 *   cache_freeze.c segments that something unknown reads
 *
 * Locks, in this order: `mounts_lock`, `space`, then one shard's.  A hit takes only its
 * shard's lock, twice and briefly; neither is held over a read or write of
 * block data.
 */
#ifndef BOOTSEER_BLOCKSTORE_CACHE_H
#define BOOTSEER_BLOCKSTORE_CACHE_H

#include <pthread.h>
#include <stdatomic.h>

#include "blockstore/cache_mount.h"
#include "blockstore/cache_mounts.h"
#include "blockstore/cache_watch.h"
#include "common/hash.h"
#include "common/thread.h"

#define CACHE_PAGE BLOCK_ALIGN
#define CACHE_SEGMENT_BYTES (1ull << 30)
#define CACHE_SEGMENT_MIN (8ull << 20) /* two blocks of the largest size */
#define CACHE_SEGMENTS_MAX 16384u
#define CACHE_SHARDS 256u

#define ENTRY_NIL UINT32_MAX
#define PAGE_NONE UINT32_MAX
#define ENTRY_CHUNK 4096u /* entries allocated together, and never moved */
#define ENTRY_CHUNKS_MAX 16384u

#define HEAT_MAX 3 /* turns of the clock that an unread block survives */

enum entry_flag {
	ENTRY_VERIFIED = 1, /* hashed, or written, by this process */
	ENTRY_LOGGED = 2,   /* its record is in the index file */
	/* pinned and found damaged: a miss until put again */
	ENTRY_DAMAGED = 4,
	/* removed from the table; freed by its last reader */
	ENTRY_DEAD = 8,
	ENTRY_LISTED = 16,    /* on the clock list; changed with both locks */
	ENTRY_TOMB = 32,      /* while opening: a newer record has dropped it */
	ENTRY_VERIFYING = 64, /* one reader hashes it, others wait */
};

/*
 * An entry of the table: 60 bytes for each block. Members marked S change under the shard's
 * lock, L under `space`, SL under both (so each of the two suffices to read them).
 */
struct entry {
	struct digest digest; /* SL */
	/* SL: first page of its extent, or PAGE_NONE for a pinned block that is not in the
	 * cache */
	uint32_t page;
	uint32_t usize; /* SL */
	/* S: next entry in the bucket; L: on the free list */
	uint32_t hnext;
	uint32_t next, prev; /* L: neighbours on the clock list */
	uint32_t pins;       /* SL */
	uint16_t readers;    /* S: readers that are copying from its extent */
	uint8_t heat;        /* S */
	uint8_t flags;       /* S */
};

struct shard {
	pthread_mutex_t lock;
	pthread_cond_t verified_one; /* a flag ENTRY_VERIFYING was cleared */
	uint32_t *buckets;
	uint32_t mask, count;
	uint64_t hits, misses, verified;
} __attribute__((aligned(64)));

struct segment {
	/* a bit for each page; NULL: the file does not exist */
	uint64_t *used;
	uint32_t n_free; /* pages */
	/* checks for errors of write-back that are still to do */
	uint32_t looks;
	uint32_t n_lost; /* errors of write-back so far */
	/* bytes that the last check has written back so far */
	uint64_t settled;
	bool mounted; /* while opening: a known mount reads it */
	bool frozen;  /* it has unknown readers, so nothing in it changes */
	/* bytes on the disk that belong to no known block */
	uint64_t frozen_bytes;
};

struct cache_mount;

struct cache {
	char *dir;
	int dir_fd, lock_fd;
	uint64_t quota, min_free;
	uint64_t segment_bytes;
	uint32_t segment_pages;
	struct hash_seed seed; /* keyed, since digests in maps are untrusted */

	struct shard shards[CACHE_SHARDS];
	/* Each pointer is written once, before an entry or extent in it is visible. */
	struct entry *chunks[ENTRY_CHUNKS_MAX];
	int fds[CACHE_SEGMENTS_MAX];

	pthread_mutex_t space; /* protects all members below */
	pthread_cond_t freed;  /* `limbo` became smaller */
	uint32_t n_entries;    /* entries ever taken from the chunks */
	uint32_t free_entries; /* chain through hnext */
	uint32_t clock_head, clock_tail;

	struct segment *segments;
	uint32_t n_segments; /* highest number in use, plus one */
	uint32_t open_segment;
	/* page in the open segment at which allocation continues */
	uint32_t cursor;

	uint64_t bytes; /* bytes of extents, including those in limbo */
	uint64_t limbo; /* bytes of extents being punched */
	uint64_t blocks;
	uint64_t pinned_bytes;
	uint64_t others; /* cache_set_others() */
	uint64_t laid;   /* bytes of the quota used by files of mounts */
	/* bytes set aside for files of mounts: cache_mount_room() */
	uint64_t laying;
	/* the rest of the quota, or less when the disk is short */
	uint64_t limit;
	uint64_t until_statfs; /* bytes of puts until the next statvfs() */

	int log_fd;
	uint64_t log_records, log_live;

	uint64_t damaged, evicted, put_failed;
	int64_t put_failed_ns; /* clock time of the last failed put */

	uint32_t n_frozen; /* segments */
	/* sum over the frozen segments, part of `bytes` */
	uint64_t frozen_bytes;

	pthread_mutex_t
		/* also held while the kernel is asked about mounts */
		mounts_lock;
	struct cache_mount *mounts;

	uint64_t scrub_rate; /* bytes a second; never changes */
	int64_t scrub_every_ns;
	uint64_t scrubbed, mended; /* bytes, blocks */
	int64_t tell_ns; /* when damage is reported next; 0: there is none */
	/* protects the next two; held over the call */
	pthread_mutex_t scrub_lock;
	void (*damage_fn)(void *arg);
	void *damage_arg;
	struct thread scrubber;

	bool stop, is_soon;
	pthread_cond_t stopping; /* monotonic */
	struct thread watcher;
};

static inline struct entry *entry_at(struct cache *c, uint32_t id)
{
	return &c->chunks[id / ENTRY_CHUNK][id % ENTRY_CHUNK];
}

static inline struct shard *shard_of(struct cache *c, const struct digest *d)
{
	return &c->shards[d->b[0] % CACHE_SHARDS];
}

static inline uint32_t pages_of(uint32_t usize)
{
	return (usize + CACHE_PAGE - 1) / CACHE_PAGE;
}

static inline uint64_t extent_bytes(uint32_t usize)
{
	return (uint64_t)pages_of(usize) * CACHE_PAGE;
}

/* cache_table.c; "with" names the locks that the caller holds */
int table_init(struct cache *c, struct error *err) MUST_CHECK;
void table_fini(struct cache *c);
/* Id of the digest's entry, or ENTRY_NIL. With the shard's lock. */
uint32_t table_find(struct cache *c, struct shard *s, const struct digest *d);
/* Take a new, unlinked entry; ENTRY_NIL when memory is short. With space. */
uint32_t table_take(struct cache *c);
void table_give(struct cache *c, uint32_t id);
/* With both locks. */
void table_insert(struct cache *c, struct shard *s, uint32_t id);
void table_remove(struct cache *c, struct shard *s, uint32_t id);
/* The clock list: the order in which blocks are considered for eviction. With space. */
void clock_append(struct cache *c, uint32_t id);
void clock_prepend(struct cache *c, uint32_t id);
void clock_remove(struct cache *c, uint32_t id);

/* cache_space.c; with space unless a comment says otherwise */
int space_init(struct cache *c, struct error *err) MUST_CHECK;
void space_fini(struct cache *c);
/* Open segment file `n`; make it if `create`. -ENOENT. */
int space_open_segment(struct cache *c, uint32_t n, bool create,
		       struct error *err) MUST_CHECK;
/* Claim exactly these pages; false when one is claimed already or does not exist. */
bool space_claim(struct cache *c, uint32_t page, uint32_t n);
/* Find and claim `n` consecutive pages, next to the last ones if possible. */
int space_alloc(struct cache *c, uint32_t n, uint32_t *ret_page,
		struct error *err) MUST_CHECK;
void space_release(struct cache *c, uint32_t page, uint32_t n);
/* Give the disk blocks of an extent back to the file system. No lock, since nobody else may
 * use the extent. */
void space_punch(struct cache *c, uint32_t page, uint32_t n);
/* Punch all unclaimed pages, which a crash may have left. space_sweep_segment() needs no
 * lock while the segment is frozen. */
void space_sweep(struct cache *c);
void space_sweep_segment(struct cache *c, uint32_t number);
/* Read or write in an extent. No lock. A write fills its last page with zeros; a read of
 * padding that is not zeros fails with -EBADMSG. */
int space_read(struct cache *c, uint32_t page, uint64_t off, void *buf,
	       size_t len) MUST_CHECK;
/* Read part of a block of `usize` bytes, for a mount that reads piece by piece: when the
 * page cache lacks it, also starts reading what follows. */
int space_read_part(struct cache *c, uint32_t page, uint32_t usize,
		    uint64_t off, void *buf, size_t len) MUST_CHECK;
int space_write(struct cache *c, uint32_t page, const void *buf,
		size_t len) MUST_CHECK;
int space_check_padding(struct cache *c, uint32_t page,
			uint32_t usize) MUST_CHECK;

/* cache_log.c */
enum log_kind {
	LOG_PUT = 1,
	LOG_DROP = 2,
};

struct log_record {
	enum log_kind kind;
	uint32_t page, usize;
	struct digest digest;
};

#define LOG_HEADER_SIZE 64u
#define LOG_RECORD_SIZE 48u

void log_encode_header(uint64_t segment_bytes, uint8_t p[LOG_HEADER_SIZE]);
/* -EINVAL: not a header; -ENOTSUP: of another version. */
int log_decode_header(const uint8_t *p, size_t len, uint64_t *ret_segment_bytes,
		      struct error *err) MUST_CHECK;
void log_encode(const struct log_record *r, uint8_t p[LOG_RECORD_SIZE]);
bool log_decode(const uint8_t p[LOG_RECORD_SIZE], struct log_record *ret);

/* Append records to the index file, unsynced. With space. */
int log_append(struct cache *c, const struct log_record *r, size_t n);
/* Rewrite the index when most of it is obsolete (or `force`). With space. */
int log_compact(struct cache *c, bool force, struct error *err);
/* While opening: apply the records; the newest of each digest wins. */
int log_replay(struct cache *c, struct error *err) MUST_CHECK;

/* cache_evict.c; with space, which is released and taken again */

/* Evict blocks to make room for `need` more bytes; -ENOSPC. */
int evict_for(struct cache *c, uint64_t need, struct error *err) MUST_CHECK;
/* Evict blocks of about `want` bytes; returns the bytes evicted. */
uint64_t evict_bytes(struct cache *c, uint64_t want);
void evict_refresh_limit(struct cache *c);
/* Bytes of the quota that mounts' files and users other than the cache need. */
uint64_t evict_others(const struct cache *c);

/* cache_entry.c. Take the entry out of the table; its last reader frees it. With both locks. */
void make_dead(struct cache *c, struct shard *s, uint32_t id);
/* A reader of the entry found wrong bytes: drop the entry, and end the read. */
void drop_damaged(struct cache *c, uint32_t id);
/* Treat the entry's bytes as unverified, and clear its flags `unset`. With space, which may
 * be released and taken again. */
void distrust(struct cache *c, uint32_t id, uint8_t unset);
void release(struct cache *c, uint32_t id);
/* Free a dead entry. With space, which is released and taken again. */
void reclaim(struct cache *c, uint32_t id);

/* cache_freeze.c */

/* While opening, before anything is freed: freeze segments with unknown readers. */
int freeze_unknown(struct cache *c, struct error *err) MUST_CHECK;
/* Thaw the segments that nobody else has open any more; true when some stay frozen. */
bool freeze_poll(struct cache *c);
static inline bool is_frozen(const struct cache *c, uint32_t page)
{
	return c->segments[page / c->segment_pages].frozen;
}

#endif
