// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that lie in the layers of an ordinary image: docs/formats/blockmap.md, "Version 2".
 * Finds places in stored layers at which decoding can begin, and reads the content through them.
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

/* Begin a layer; at its end give its number of unpacked bytes. Only one thread at a time may
 * use the set; layers that are read in parallel have a set each. */
int span_set_begin_layer(struct span_set *s, const struct digest *blob,
			 uint64_t size, struct error *err) MUST_CHECK;
int span_set_end_layer(struct span_set *s, uint64_t plain,
		       struct error *err) MUST_CHECK;

/*
 * Report that decoding could begin here without earlier state; begins a span if that pays.
 *
 *   -ENOTSUP  the last such place is too far away
 */
int span_set_enter(struct span_set *s, enum span_kind kind, uint64_t stored,
		   uint64_t plain, struct error *err) MUST_CHECK;

/* Count the next unpacked bytes of the layer. */
void span_set_count(struct span_set *s, const void *data, size_t len);

/* Append the layers of `from`, which have ended, behind those of `s`; neither has files yet. */
int span_set_append(struct span_set *s, const struct span_set *from,
		    struct error *err) MUST_CHECK;

/* Save the spans and windows of a set's only layer, which has ended, to `fd` from `off` on;
 * span_set_load() adds them to a new set that has begun that layer. For another process of the
 * same program: the form is that of its memory. */
int span_set_save(const struct span_set *s, int fd, uint64_t off,
		  struct error *err) MUST_CHECK;
int span_set_load(struct span_set *s, int fd, uint64_t off,
		  struct error *err) MUST_CHECK;

/* Unpacks the gzip members of a layer, and adds spans to the set. */
struct span_gzip;
struct span_gzip *span_gzip_new(struct span_set *s) MUST_CHECK;
void span_gzip_free(struct span_gzip *g);
/* Works as one call of decoder_run(); `*ret_inside`: a member has begun and not ended. */
int span_gzip_run(struct span_gzip *g, const uint8_t **in, size_t *in_len,
		  uint8_t *out, size_t cap, size_t *ret_n, bool *ret_inside,
		  struct error *err) MUST_CHECK;

/* The file's `len` bytes from `off` on are in layer number `layer` (of those begun), from
 * unpacked byte `plain` on. Call it in ascending order of `off` for each file. */
int span_set_add_file(struct span_set *s, struct inode *i, uint64_t off,
		      uint64_t len, size_t layer, uint64_t plain,
		      struct error *err) MUST_CHECK;

/* After the last layer, once: describe the blob of the windows, which becomes the last pack
 * unless it is empty. The file is borrowed. */
int span_set_windows(struct span_set *s, struct pack *ret, int *ret_fd,
		     struct error *err) MUST_CHECK;

/*
 * After the last file and span_set_windows(), when all files have their extents: write packs,
 * spans and places to `w`, which has all blocks already. `first` are its blocks that are the
 * first with their content, in order.
 */
int span_set_finish(struct span_set *s, struct blockmap_writer *w,
		    const struct block *first, size_t n_first,
		    struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- reading --- */

/*
 * Unpack the stored bytes of a span to exactly `out_len` bytes; the span's checksum is not
 * verified. `window` are the SPAN_WINDOW_BYTES before the span, NULL: zeros. Pure.
 *
 *   -EBADMSG  damaged, or it unpacks to fewer bytes
 */
int span_unpack(const struct span *s, const uint8_t *window, const void *in,
		size_t in_len, void *out, size_t out_len,
		struct error *err) MUST_CHECK;

/* A cache of unpacked spans with a limit on memory, shared by readers of several images. */
struct span_cache;
struct span_cache *span_cache_new(uint64_t max_bytes) MUST_CHECK;
void span_cache_free(
	struct span_cache *c); /* after every source; NULL is allowed */
DEFINE_AUTO(span_cache)

/*
 * Make the content of a map one source, in which blocks lie at their `poff`. Takes over the
 * n_packs sources `packs` of stored bytes (not the array), also when it fails; map and cache are
 * borrowed. The bytes are not verified here: the reader checks digests.
 */
int span_source_new(const struct blockmap *map, struct source **packs,
		    struct span_cache *cache, struct source **ret,
		    struct error *err) MUST_CHECK;

/* Replace the sources of an index map's packs by those that a device expects: the content as
 * pack 0, and NULL for the others. Ownership as of span_source_new(). */
int span_sources_join(const struct blockmap *map, struct source **packs,
		      struct span_cache *cache, struct error *err) MUST_CHECK;

#endif
