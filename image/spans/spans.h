// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that lie in the layers of an ordinary image: docs/formats/blockmap.md,
 * "Version 2".  Making the places where a stored layer can be entered, and reading
 * the content through them.
 */
#ifndef BOOTSEER_IMAGE_SPANS_SPANS_H
#define BOOTSEER_IMAGE_SPANS_SPANS_H

#include "blockstore/span_map.h"

struct inode;

/* ------------------------------------------------------------------ making --- */

/* Spans of an image's layers, found while these are read. */
struct span_set;

/* `temp_dir` as for temp_file(). */
int span_set_new(const char *temp_dir, struct span_set **ret,
		 struct error *err) MUST_CHECK;
void span_set_free(struct span_set *s);
DEFINE_AUTO(span_set)

/* The layer that is read now, and after its end so many unpacked bytes.  One thread at
 * a time uses the set; layers that are read side by side have a set each. */
int span_set_begin_layer(struct span_set *s, const struct digest *blob,
			 uint64_t size, struct error *err) MUST_CHECK;
int span_set_end_layer(struct span_set *s, uint64_t plain,
		       struct error *err) MUST_CHECK;

/*
 * A reader of stored bytes could begin here without a decoder's state: a span begins
 * if that pays.
 *   -ENOTSUP  the last such place is too far away
 */
int span_set_enter(struct span_set *s, enum span_kind kind, uint64_t stored,
		   uint64_t plain, struct error *err) MUST_CHECK;

/* The next unpacked bytes of the layer. */
void span_set_count(struct span_set *s, const void *data, size_t len);

/* Behind the layers of `s` come those of `from`, which have ended; content has none yet. */
int span_set_append(struct span_set *s, const struct span_set *from,
		    struct error *err) MUST_CHECK;

/* Write the spans and windows of a set's only layer, which has ended, to `fd` from `off` on;
 * and take them into a new set that has begun that layer.  For another process of the same
 * program: the form is that of its memory. */
int span_set_save(const struct span_set *s, int fd, uint64_t off,
		  struct error *err) MUST_CHECK;
int span_set_load(struct span_set *s, int fd, uint64_t off,
		  struct error *err) MUST_CHECK;

/* Unpacks the gzip members of a layer into a set: `stored` and `plain` count them. */
struct span_gzip;
struct span_gzip *span_gzip_new(struct span_set *s) MUST_CHECK;
void span_gzip_free(struct span_gzip *g);
/* The contract of decoder_run(), of one call; `*ret_inside`: a member has begun. */
int span_gzip_run(struct span_gzip *g, const uint8_t **in, size_t *in_len,
		  uint8_t *out, size_t cap, size_t *ret_n, bool *ret_inside,
		  struct error *err) MUST_CHECK;

/* The file's `len` bytes from `off` on are those of layer number `layer`, of those
 * begun, from `plain` on.  Ascending for each file. */
int span_set_add_file(struct span_set *s, struct inode *i, uint64_t off,
		      uint64_t len, size_t layer, uint64_t plain,
		      struct error *err) MUST_CHECK;

/* After the last layer, once: the blob of the windows, which becomes the last pack when
 * it has any bytes, and its file, which is borrowed. */
int span_set_windows(struct span_set *s, struct pack *ret, int *ret_fd,
		     struct error *err) MUST_CHECK;

/*
 * After the last file and span_set_windows(), when all files have their extents: write
 * packs, spans and places to `w`, which has all blocks.  `first` are those of its blocks
 * that are the first with their place, in order.
 */
int span_set_finish(struct span_set *s, struct blockmap_writer *w,
		    const struct block *first, size_t n_first,
		    struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- reading --- */

/*
 * Unpack a span: its stored bytes to the `out_len` that it has, whose checksum is not
 * looked at.  `window` are the
 * SPAN_WINDOW_BYTES before it, NULL: zeros.  Pure.
 *   -EBADMSG  damaged, or it unpacks to fewer
 */
int span_unpack(const struct span *s, const uint8_t *window, const void *in,
		size_t in_len, void *out, size_t out_len,
		struct error *err) MUST_CHECK;

/* Unpacked spans, for readers of several images: memory with a bound. */
struct span_cache;
struct span_cache *span_cache_new(uint64_t max_bytes) MUST_CHECK;
void span_cache_free(
	struct span_cache *c); /* after every source; NULL is allowed */
DEFINE_AUTO(span_cache)

/*
 * The content of a map as one source: blocks lie in it at their `poff`.  Takes `packs`,
 * n_packs sources of stored bytes, also when it fails (not the array); map and cache
 * are borrowed.  What is read is whatever the layers hold there: its reader checks
 * digests.
 */
int span_source_new(const struct blockmap *map, struct source **packs,
		    struct span_cache *cache, struct source **ret,
		    struct error *err) MUST_CHECK;

/* The sources of a map's packs as a device wants them: of an index map the content
 * stands for pack 0, and NULL for the others.  Takes and gives back as above. */
int span_sources_join(const struct blockmap *map, struct source **packs,
		      struct span_cache *cache, struct error *err) MUST_CHECK;

#endif
