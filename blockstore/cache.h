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
#define ENTRY_CHUNK 4096u /* entries allocated at once, never moved */
#define ENTRY_CHUNKS_MAX 16384u

#define HEAT_MAX 3 /* turns of the clock that a block survives unread */

enum entry_flag {
	ENTRY_VERIFIED = 1, /* hashed, or written, by this process */
	ENTRY_LOGGED = 2,   /* its record is in the index file */
	ENTRY_DAMAGED = 4,  /* pinned and found wrong: a miss until put again */
	ENTRY_DEAD = 8,     /* out of the table; freed by its last reader */
	ENTRY_LISTED = 16,  /* on the clock; changed with both locks */
	ENTRY_TOMB = 32,    /* while opening: dropped by a later record */
	ENTRY_VERIFYING = 64, /* one reader hashes it, others wait */
};

/*
 * An entry of the table, 60 bytes, for a block. Members marked S change under
 * the shard's lock, L under `space`, SL under both (so either suffices to
 * look).
 */
struct entry {
	struct digest digest; /* SL */
	uint32_t page;        /* SL: first page of its extent, or PAGE_NONE
	                       * for a pin of a block that is not held */
	uint32_t usize;       /* SL */
	uint32_t hnext;       /* S: chain of its bucket; L on the free list */
	uint32_t next, prev;  /* L: clock */
	uint32_t pins;        /* SL */
	uint16_t readers;     /* S: copying from its extent now */
	uint8_t heat;         /* S */
	uint8_t flags;        /* S */
};

struct shard {
	pthread_mutex_t lock;
	pthread_cond_t verified_one; /* a VERIFYING was cleared */
	uint32_t *buckets;
	uint32_t mask, count;
	uint64_t hits, misses, verified;
} __attribute__((aligned(64)));

struct segment {
	uint64_t *used;   /* a bit for each page; NULL: no such file */
	uint32_t n_free;  /* pages */
	uint32_t looks;   /* for errors of write-back, still to come */
	uint32_t n_lost;  /* such errors */
	uint64_t settled; /* bytes that the last look has written */
	bool mounted;     /* while opening: a mount that is known reads it */
	bool frozen;      /* read by what is not known: nothing in it changes */
	uint64_t frozen_bytes; /* on the disk, of no block that is known */
};

struct cache_mount;

struct cache {
	char *dir;
	int dir_fd, lock_fd;
	uint64_t quota, min_free;
	uint64_t segment_bytes;
	uint32_t segment_pages;
	struct hash_seed seed; /* maps come from outside */

	struct shard shards[CACHE_SHARDS];
	/* Written once each, before an entry or extent in them is visible. */
	struct entry *chunks[ENTRY_CHUNKS_MAX];
	int fds[CACHE_SEGMENTS_MAX];

	pthread_mutex_t space; /* all below */
	pthread_cond_t freed;  /* `limbo` became smaller */
	uint32_t n_entries;    /* ever taken from the chunks */
	uint32_t free_entries; /* chain through hnext */
	uint32_t clock_head, clock_tail;

	struct segment *segments;
	uint32_t n_segments; /* highest number in use, plus one */
	uint32_t open_segment;
	uint32_t cursor; /* page in the open segment where to go on */

	uint64_t bytes; /* of extents, those in limbo included */
	uint64_t limbo; /* bytes of extents being punched */
	uint64_t blocks;
	uint64_t pinned_bytes;
	uint64_t others; /* cache_set_others() */
	uint64_t laid;   /* of the quota: what lies in the folder of mounts */
	uint64_t laying; /* and what is about to: cache_mount_room() */
	uint64_t limit;  /* the rest of the quota, or less on a short disk */
	uint64_t until_statfs; /* bytes of puts until the disk is asked again */

	int log_fd;
	uint64_t log_records, log_live;

	uint64_t damaged, evicted, put_failed;
	int64_t put_failed_ns; /* when the last one was */

	uint32_t n_frozen;     /* segments */
	uint64_t frozen_bytes; /* sum of theirs, part of `bytes` */

	pthread_mutex_t
		mounts_lock; /* also held over the asking of the kernel */
	struct cache_mount *mounts;

	uint64_t scrub_rate; /* bytes a second; never changes */
	int64_t scrub_every_ns;
	uint64_t scrubbed, mended; /* bytes, blocks */
	int64_t tell_ns; /* when damage is to be told next; 0: there is none */
	pthread_mutex_t scrub_lock; /* the next two; held over the call */
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

/* cache_table.c; "with" names the locks the caller holds. */
int table_init(struct cache *c, struct error *err) MUST_CHECK;
void table_fini(struct cache *c);
/* With the shard: its id or ENTRY_NIL. */
uint32_t table_find(struct cache *c, struct shard *s, const struct digest *d);
/* With space: a new, unlinked entry; ENTRY_NIL when memory is short. */
uint32_t table_take(struct cache *c);
void table_give(struct cache *c, uint32_t id);
/* With both. */
void table_insert(struct cache *c, struct shard *s, uint32_t id);
void table_remove(struct cache *c, struct shard *s, uint32_t id);
/* With space: the order in which blocks are considered for eviction. */
void clock_append(struct cache *c, uint32_t id);
void clock_prepend(struct cache *c, uint32_t id);
void clock_remove(struct cache *c, uint32_t id);

/* cache_space.c; with space unless it says otherwise. */
int space_init(struct cache *c, struct error *err) MUST_CHECK;
void space_fini(struct cache *c);
/* Open segment `n`, made when `create`.  -ENOENT. */
int space_open_segment(struct cache *c, uint32_t n, bool create,
		       struct error *err) MUST_CHECK;
/* Claim exactly these pages; false when one is taken or does not exist. */
bool space_claim(struct cache *c, uint32_t page, uint32_t n);
/* Find and claim `n` consecutive pages, next to the last ones if possible. */
int space_alloc(struct cache *c, uint32_t n, uint32_t *ret_page,
		struct error *err) MUST_CHECK;
void space_release(struct cache *c, uint32_t page, uint32_t n);
/* Give the disk blocks of an extent back.  No lock: nobody else may use it. */
void space_punch(struct cache *c, uint32_t page, uint32_t n);
/* Punch whatever lies outside claimed pages: left by a crash.  The second, of
 * one segment, needs no lock while it is frozen. */
void space_sweep(struct cache *c);
void space_sweep_segment(struct cache *c, uint32_t number);
/* Read or write in an extent.  No lock.  A write fills its last page up with
 * zeros; -EBADMSG when the rest of the last page is not zeros. */
int space_read(struct cache *c, uint32_t page, uint64_t off, void *buf,
	       size_t len) MUST_CHECK;
/* The same within a block of `usize` bytes that a mount reads piece by piece:
 * asks the disk for what follows when the page cache has not got it. */
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

/* With space.  The record is in the file (not: on the disk) on success. */
int log_append(struct cache *c, const struct log_record *r, size_t n);
/* With space: write the index anew when most of it is obsolete. */
int log_compact(struct cache *c, bool force, struct error *err);
/* While opening: the newest record of each digest wins. */
int log_replay(struct cache *c, struct error *err) MUST_CHECK;

/* cache_evict.c; with space, which is released and taken again. */

/* Make room for `need` more bytes; -ENOSPC. */
int evict_for(struct cache *c, uint64_t need, struct error *err) MUST_CHECK;
/* Drop about `want` bytes; returns the bytes dropped. */
uint64_t evict_bytes(struct cache *c, uint64_t want);
void evict_refresh_limit(struct cache *c);
/* Bytes of the quota that mounts' files and users other than the cache have. */
uint64_t evict_others(const struct cache *c);

/* cache_entry.c. With both locks: out of the table; freed when the last reader
 * has left. */
void make_dead(struct cache *c, struct shard *s, uint32_t id);
/* The reader of the entry found bytes that its digest does not name: drop the
 * entry, and end the read. */
void drop_damaged(struct cache *c, uint32_t id);
/* With space, which may be released and taken again: its bytes are not believed, and it
 * loses the flags `unset`. */
void distrust(struct cache *c, uint32_t id, uint8_t unset);
void release(struct cache *c, uint32_t id);
/* With space, which is released and taken again: free a dead entry. */
void reclaim(struct cache *c, uint32_t id);

/* cache_freeze.c */

/* While opening, before anything is freed: freeze what something unknown has
 * open. */
int freeze_unknown(struct cache *c, struct error *err) MUST_CHECK;
/* Free again what nobody else has open any more; true when some still are. */
bool freeze_poll(struct cache *c);
static inline bool is_frozen(const struct cache *c, uint32_t page)
{
	return c->segments[page / c->segment_pages].frozen;
}

#endif
