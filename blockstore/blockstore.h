// SPDX-License-Identifier: Apache-2.0
/*
 * Content-addressed blocks: how they lie in packs (block map), how they are checked on arrival
 * (the verify filter) and where a node keeps them (cache). The virtual data device that mounts
 * read is in blockstore/device.h.
 */
#ifndef BOOTSEER_BLOCKSTORE_H
#define BOOTSEER_BLOCKSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "objects/source.h"

/* ------------------------------------------------------------ block map --- */

#define BLOCK_ALIGN 4096u             /* cut points lie on this grain */
#define BLOCK_USIZE_MAX (4u << 20)    /* bytes of one block, unpacked */
#define BLOCKMAP_BYTES_MAX (1u << 30) /* bytes of an encoded map */

enum block_codec {
	BLOCK_CODEC_RAW = 0,
	BLOCK_CODEC_ZSTD = 1,
};

/* A block of a virtual data device. */
struct block {
	struct digest digest; /* SHA-256 of the unpacked content */
	uint64_t voff;        /* byte in the device, multiple of BLOCK_ALIGN */
	uint64_t poff;        /* byte in the pack */
	uint32_t usize;       /* bytes unpacked, 1..BLOCK_USIZE_MAX; the device
	                       * reads as zeros from here to the next multiple
	                       * of BLOCK_ALIGN */
	uint32_t csize;       /* bytes in the pack; == usize when raw */
	uint32_t pack;        /* index into the map's packs */
	enum block_codec codec;
};

struct pack {
	struct digest digest; /* of the whole blob */
	uint64_t size;
};

/*
 * A view of an encoded map: docs/formats/blockmap.md.  Blocks are sorted by
 * voff and do not overlap; several may share one stored place.  Ranges between
 * blocks hold no data and are never read by a valid image.  Read-only after
 * blockmap_open(), so any thread may use it.
 */
struct blockmap {
	const uint8_t *data; /* borrowed: the caller keeps it, often mmapped */
	size_t len;
	size_t n_blocks;
	size_t n_packs;
	uint64_t device_size; /* bytes, multiple of BLOCK_ALIGN */
	/* Numbers of spans and places of a map whose blocks lie in layers (span_map.h), else
	 * 0. */
	size_t n_spans, n_places;
	uint64_t content_size; /* bytes of all stored blocks */
	/* about how much an origin sends for a stored byte, in 256ths */
	uint32_t stored_share;
};

/* Check every entry and fill `ret`.  -EINVAL says which entry and why;
 * -ENOTSUP for a version this reader does not know. */
int blockmap_open(const void *data, size_t len, struct blockmap *ret,
		  struct error *err) MUST_CHECK;

/* Decode entry `i`; i < n_blocks. */
void blockmap_block(const struct blockmap *m, size_t i, struct block *ret);
void blockmap_pack(const struct blockmap *m, size_t i, struct pack *ret);

/* Do both entries describe the same block in the same stored form? An untrusted map may
 * claim several blocks at one place. */
bool block_is_same(const struct block *a, const struct block *b);

/* Index of the block that covers byte `voff` (its padding to BLOCK_ALIGN
 * included), or n_blocks when no block does. */
size_t blockmap_find(const struct blockmap *m, uint64_t voff);

/* Build an encoded map.  Blocks are added in voff order. */
struct blockmap_writer;

struct blockmap_writer *blockmap_writer_new(void) MUST_CHECK;
int blockmap_writer_pack(struct blockmap_writer *w, const struct pack *p,
			 uint32_t *ret_index, struct error *err) MUST_CHECK;
int blockmap_writer_block(struct blockmap_writer *w, const struct block *b,
			  struct error *err) MUST_CHECK;
/* Return the encoded bytes, which the caller owns. */
int blockmap_writer_finish(struct blockmap_writer *w, uint64_t device_size,
			   void **ret, size_t *ret_len,
			   struct error *err) MUST_CHECK;
void blockmap_writer_free(struct blockmap_writer *w);
DEFINE_AUTO(blockmap_writer)

/* Unpack b->csize stored bytes into `dst`, which holds b->usize bytes, and check
 * size and SHA-256: -EBADMSG when they differ. */
int block_unpack(const struct block *b, const void *stored, void *dst,
		 struct error *err) MUST_CHECK;

/* Compare the SHA-256 of b->usize bytes at `data`; the text of -EBADMSG names the digest
 * found. */
int block_check(const struct block *b, const void *data,
		struct error *err) MUST_CHECK;

/* -------------------------------------------------------- block sources --- */

/*
 * Buffers for blocks that are kept for reuse: fresh memory costs a page fault for each page, a
 * tenth of a node's work for a start. Safe from several threads.
 */
struct block_rooms;

struct block_rooms *block_rooms_new(void); /* NULL: memory is short */
/* Free the buffers, of which none may be in use; NULL is allowed. */
void block_rooms_free(struct block_rooms *r);

/* Take a buffer of BLOCK_USIZE_MAX bytes with undefined content, to be given back by
 * block_room_give(); NULL when memory is short. Without `r` it is taken from the heap. */
void *block_room_take(struct block_rooms *r);
void block_room_give(struct block_rooms *r, void *room); /* NULL is allowed */

/* Free all unused buffers; without this, up to eight stay. */
void block_rooms_trim(struct block_rooms *r);

/* A request for whole blocks (only these have digests) that lie one behind the other in one
 * pack. */
struct block_req {
	const struct block
		*blocks; /* borrowed until block_source_read() returns */
	size_t n_blocks; /* 1 at least */
	enum source_priority priority;
	int64_t deadline_ns;       /* CLOCK_MONOTONIC; 0 is none */
	struct pace *pace;         /* as in struct source_req */
	struct block_rooms *rooms; /* NULL: buffers come from the heap */
};

/*
 * Receives the blocks in order as they arrive, unpacked and checked: `index` of req->blocks,
 * whose usize bytes are at `data`. `put` returns 0 to go on, or -errno, which
 * block_source_read() then returns.
 */
struct block_sink {
	int (*put)(struct block_sink *sink, size_t index, const void *data,
		   struct error *err);
};

struct block_source;

/* Operations of a kind of block source: one `static const` table per kind. */
struct block_source_ops {
	const char *name; /* in lower case: "verify", "peers" */

	/* Contract of block_source_read().  Called on any pool thread. */
	int (*read)(struct block_source *s, const struct block_req *req,
		    struct block_sink *sink, struct error *err);

	/* Free `s` and all that it owns. Never called while a read is running. */
	void (*free)(struct block_source *s);
};

/* First member of every block source, which has the blocks of one pack. */
struct block_source {
	const struct block_source_ops *ops;
};

/*
 * Read the blocks of `req` into `sink`, blocking until all of them were passed on.
 * Safe from several threads on one block source.  On failure the sink may have taken
 * some.  Fails as source_read() does, and:
 *   -EINVAL   the blocks do not lie one behind the other
 *   -EBADMSG  the bytes do not match the digest
 */
int block_source_read(struct block_source *s, const struct block_req *req,
		      struct block_sink *sink, struct error *err) MUST_CHECK;

void block_source_free(struct block_source *s); /* NULL is allowed */
DEFINE_AUTO(block_source)

/* Make a block source that unpacks and checks the stored bytes of `next`. Takes `next`, also
 * when it fails. */
int verify_source_new(struct source *next, struct block_source **ret,
		      struct error *err) MUST_CHECK;

/* As verify_source_new() for each of `n` packs: takes all sources in `next` (not the array),
 * also when it fails. `ret` is an array of `n`, which the caller frees with free() after it has
 * given its members away. */
int verify_sources_new(struct source **next, size_t n,
		       struct block_source ***ret,
		       struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------- cache --- */

struct cache_config {
	/* folder that only this cache uses; created if missing */
	const char *dir;
	uint64_t quota;         /* limit of the bytes of blocks */
	uint64_t min_free;      /* bytes that must stay free on the disk */
	uint64_t segment_bytes; /* of a file of the cache, 8 MiB..1 GiB; 0 is
	                         * 1 GiB; an existing cache keeps its own */
	/* interval at which all blocks are read from the disk again; 0: never, and then
	 * cache_on_damage() does not work */
	int64_t scrub_every_ns;
	uint64_t scrub_rate; /* bytes a second that the scrubber reads */
};

struct cache;

/*
 * Open or create a cache. -EBUSY when another process has it open, -ENOTSUP when a newer version
 * wrote it. Other states that a crash leaves are no errors. Blocks that mounts of an earlier
 * process still read are kept (cache_mount.h). A segment file that an unknown reader has open is
 * frozen: nothing in it is freed, evicted or written until nobody else has it open. The process
 * ignores SIGIO from then on.
 */
int cache_open(const struct cache_config *cfg, struct cache **ret,
	       struct error *err) MUST_CHECK;
void cache_close(struct cache *c);

/*
 * Copy `len` bytes at `off` of the block into `buf`. The block was verified since the cache was
 * opened, or is verified now. Any thread.
 *
 *   -ENOENT  the cache does not have it (or found it damaged and dropped it)
 */
int cache_read(struct cache *c, const struct block *b, uint32_t off, void *buf,
	       size_t len, struct error *err) MUST_CHECK;

/* Keep a verified block. `why` it was fetched decides how long it may stay without being
 * read: hot blocks longest. -ENOSPC when quota and pins leave no room: the caller still has the
 * data and can go on. */
int cache_put(struct cache *c, const struct block *b, const void *data,
	      enum source_priority why, struct error *err) MUST_CHECK;

bool cache_has(struct cache *c, const struct digest *d);

/* Does the block have a place in the cache, even if its bytes there are damaged? Then it is
 * pinned and counted in cache_stats.pinned_bytes, and putting it needs no more room. */
bool cache_has_place(struct cache *c, const struct digest *d);

/* Pin all blocks of a map: these are not evicted, whether they are in the cache now or put
 * later. Pins are counted, so each needs an unpin. */
int cache_pin(struct cache *c, const struct blockmap *m,
	      struct error *err) MUST_CHECK;
void cache_unpin(struct cache *c, const struct blockmap *m);
/* Pin and unpin a single block. */
int cache_pin_block(struct cache *c, const struct digest *d,
		    struct error *err) MUST_CHECK;
void cache_unpin_block(struct cache *c, const struct digest *d);

/* Find where a verified block lies, for mounts that read the cache's files directly: file
 * number `ret_file` of cache_file_path(), 4 KiB aligned; zeros follow the content up to the
 * next 4 KiB. The result holds while the block is pinned. -ENOENT when the cache does not have
 * it, -EINVAL when it is not pinned, -EBUSY when its file is frozen. */
int cache_locate(struct cache *c, const struct block *b, uint32_t *ret_file,
		 uint64_t *ret_off, struct error *err) MUST_CHECK;
int cache_file_path(struct cache *c, uint32_t file, char **ret,
		    struct error *err) MUST_CHECK;

/* Set the bytes of the quota that others than blocks and mounts' files (cache_mount.h) use:
 * later puts evict blocks to meet it. */
void cache_set_others(struct cache *c, uint64_t bytes);

struct cache_stats {
	uint64_t bytes, blocks, pinned_bytes, quota, others;
	uint64_t scrubbed; /* bytes read from the disk again */
	/* damaged blocks written again from right bytes in memory */
	uint64_t mended;
	/* mounts that were dropped but still exist */
	uint64_t mounts_lingering;
	uint64_t mounts_unknown; /* mounts whose blocks are not known */
	uint64_t frozen_files, frozen_bytes;
	uint64_t hits, misses, verified, damaged, evicted, put_failed;
	int64_t put_failed_ns; /* clock time of the last failed put */
};
void cache_get_stats(struct cache *c, struct cache_stats *ret);

/* Drop unpinned blocks until at most `target` bytes are left. */
int cache_gc(struct cache *c, uint64_t target, uint64_t *ret_freed,
	     struct error *err) MUST_CHECK;

#endif
