// SPDX-License-Identifier: Apache-2.0
/*
 * Content-addressed blocks: how they lie in packs (block map), how they are checked
 * as they come (the verify filter) and where they are kept on the node (cache).
 * The virtual data device that mounts read is in blockstore/device.h.
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
	/* Counts of a map whose blocks lie in layers (span_map.h), else 0. */
	size_t n_spans, n_places;
	uint64_t content_size; /* bytes of all stored blocks */
	uint32_t stored_share; /* of them that is sent, in 256ths, about */
};

/* Check every entry and fill `ret`.  -EINVAL says which entry and why;
 * -ENOTSUP for a version this reader does not know. */
int blockmap_open(const void *data, size_t len, struct blockmap *ret,
		  struct error *err) MUST_CHECK;

/* Decode entry `i`; i < n_blocks. */
void blockmap_block(const struct blockmap *m, size_t i, struct block *ret);
void blockmap_pack(const struct blockmap *m, size_t i, struct pack *ret);

/* Are they one stored block: the same bytes, stored alike?  Of maps of strangers, where
 * one place may be said to hold several. */
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
/* The encoded bytes, owned by the caller. */
int blockmap_writer_finish(struct blockmap_writer *w, uint64_t device_size,
			   void **ret, size_t *ret_len,
			   struct error *err) MUST_CHECK;
void blockmap_writer_free(struct blockmap_writer *w);
DEFINE_AUTO(blockmap_writer)

/* Unpack b->csize stored bytes into `dst`, which holds b->usize bytes, and check
 * size and SHA-256: -EBADMSG when they differ. */
int block_unpack(const struct block *b, const void *stored, void *dst,
		 struct error *err) MUST_CHECK;

/* Compare the SHA-256 of b->usize bytes at `data`; -EBADMSG says what it is. */
int block_check(const struct block *b, const void *data,
		struct error *err) MUST_CHECK;

/* -------------------------------------------------------- block sources --- */

/*
 * Memory for blocks, of those who read many: fresh memory costs a fault for each page,
 * a tenth of what a start costs a node.  Safe from several threads.
 */
struct block_rooms;

struct block_rooms *block_rooms_new(void); /* NULL: memory is short */
/* All that were taken were given back; NULL is allowed. */
void block_rooms_free(struct block_rooms *r);

/* BLOCK_USIZE_MAX bytes, of any content, to be given back; NULL when memory is short.
 * Without `r` they are the heap's. */
void *block_room_take(struct block_rooms *r);
void block_room_give(struct block_rooms *r, void *room); /* NULL is allowed */

/* Give those to the heap that nobody uses: eight at most are kept else. */
void block_rooms_trim(struct block_rooms *r);

/* Whole blocks that lie one behind the other in one pack: only they have a digest. */
struct block_req {
	const struct block
		*blocks; /* borrowed until block_source_read() returns */
	size_t n_blocks; /* 1 at least */
	enum source_priority priority;
	int64_t deadline_ns;       /* CLOCK_MONOTONIC; 0 is none */
	struct pace *pace;         /* as in struct source_req */
	struct block_rooms *rooms; /* or NULL: fresh memory will do */
};

/*
 * Takes the blocks in order as they arrive, unpacked and checked: `index` of
 * req->blocks, whose usize bytes are at `data`.  Returns 0 to go on or -errno, which
 * block_source_read() then returns.
 */
struct block_sink {
	int (*put)(struct block_sink *sink, size_t index, const void *data,
		   struct error *err);
};

struct block_source;

/* Operations of a kind of block source: one `static const` table per kind. */
struct block_source_ops {
	const char *name; /* lower case: "verify", "peers" */

	/* Contract of block_source_read().  Called on any pool thread. */
	int (*read)(struct block_source *s, const struct block_req *req,
		    struct block_sink *sink, struct error *err);

	/* Release what `s` owns, and `s`.  Never called with reads under way. */
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

/* Unpack and check the blocks that `next` has as stored bytes.  Takes `next`, also
 * when it fails. */
int verify_source_new(struct source *next, struct block_source **ret,
		      struct error *err) MUST_CHECK;

/* The same of `n` packs: takes all that are in `next` (not the array), also when it
 * fails.  `ret` is an array of `n`, the caller's to free() when he has given its
 * members away. */
int verify_sources_new(struct source **next, size_t n,
		       struct block_source ***ret,
		       struct error *err) MUST_CHECK;

/* ---------------------------------------------------------------- cache --- */

struct cache_config {
	const char *dir;        /* owned by this cache alone; created */
	uint64_t quota;         /* bytes of blocks kept at most */
	uint64_t min_free;      /* bytes left free on the disk at least */
	uint64_t segment_bytes; /* of a file of the cache, 8 MiB..1 GiB; 0 is
	                         * 1 GiB; an existing cache keeps its own */
	int64_t scrub_every_ns; /* read all from the disk again; 0: never,
	                         * and no cache_on_damage() */
	uint64_t scrub_rate;    /* bytes a second of that */
};

struct cache;

/*
 * Open or create.  -EBUSY when another process has it, -ENOTSUP when it was
 * written by a newer version.  Whatever else a crash left there is no error.
 * What mounts of an earlier process still read is kept (cache_mount.h), and
 * a file that something unknown has open is frozen: nothing in it is freed,
 * evicted or written until nobody else has it open.  The process ignores SIGIO.
 */
int cache_open(const struct cache_config *cfg, struct cache **ret,
	       struct error *err) MUST_CHECK;
void cache_close(struct cache *c);

/*
 * Copy `len` bytes at `off` of the block into `buf`.  Verified since this
 * cache was opened, or verified now.  Any thread.
 *   -ENOENT  not held (or held and found damaged, and dropped)
 */
int cache_read(struct cache *c, const struct block *b, uint32_t off, void *buf,
	       size_t len, struct error *err) MUST_CHECK;

/* Keep a block whose content was verified.  `why` it was fetched decides how
 * long it stays unread: hot ones longest.  -ENOSPC when quota and pins leave
 * no room: the caller still has the data and goes on. */
int cache_put(struct cache *c, const struct block *b, const void *data,
	      enum source_priority why, struct error *err) MUST_CHECK;

bool cache_has(struct cache *c, const struct digest *d);

/* Is a place of it pinned, whether or not the right bytes are there?  It is part of
 * cache_stats.pinned_bytes: to put the block needs no more room. */
bool cache_has_place(struct cache *c, const struct digest *d);

/* A pinned block, held now or put later, is not evicted.  Counted: one unpin
 * for each pin. */
int cache_pin(struct cache *c, const struct blockmap *m,
	      struct error *err) MUST_CHECK;
void cache_unpin(struct cache *c, const struct blockmap *m);
/* The same of one block. */
int cache_pin_block(struct cache *c, const struct digest *d,
		    struct error *err) MUST_CHECK;
void cache_unpin_block(struct cache *c, const struct digest *d);

/* Where a held, verified block lies, for mounts that read the cache's files
 * directly: file number `ret_file` of cache_file_path(), 4 KiB aligned; bytes
 * after its content up to the next 4 KiB are zeros.  Valid while pinned.
 * -ENOENT when not held, -EINVAL when not pinned, -EBUSY when frozen. */
int cache_locate(struct cache *c, const struct block *b, uint32_t *ret_file,
		 uint64_t *ret_off, struct error *err) MUST_CHECK;
int cache_file_path(struct cache *c, uint32_t file, char **ret,
		    struct error *err) MUST_CHECK;

/* Bytes of the quota that others have, beside files of mounts (cache_mount.h): blocks
 * give way as they are put. */
void cache_set_others(struct cache *c, uint64_t bytes);

struct cache_stats {
	uint64_t bytes, blocks, pinned_bytes, quota, others;
	uint64_t scrubbed;         /* bytes read from the disk again */
	uint64_t mended;           /* blocks written again from memory */
	uint64_t mounts_lingering; /* dropped, and not gone */
	uint64_t mounts_unknown;   /* whose blocks are not known */
	uint64_t frozen_files, frozen_bytes;
	uint64_t hits, misses, verified, damaged, evicted, put_failed;
	int64_t put_failed_ns; /* when the last one was */
};
void cache_get_stats(struct cache *c, struct cache_stats *ret);

/* Drop what is neither pinned nor wanted: down to `target` bytes. */
int cache_gc(struct cache *c, uint64_t target, uint64_t *ret_freed,
	     struct error *err) MUST_CHECK;

#endif
