// SPDX-License-Identifier: Apache-2.0
/*
 * The second half of a block map whose blocks lie in the layers of an ordinary image (version
 * 2): where each byte of the content lies in a layer's tar stream, and at which places the
 * decoding of a stored layer can begin. docs/formats/blockmap.md.
 */
#ifndef BOOTSEER_BLOCKSTORE_SPAN_MAP_H
#define BOOTSEER_BLOCKSTORE_SPAN_MAP_H

#include "blockstore/blockstore.h"

#define SPAN_PLAIN_MAX (16u << 20)  /* bytes that a span unpacks to */
#define SPAN_STORED_MAX (17u << 20) /* stored bytes of a span */
#define SPAN_WINDOW_BYTES (32u << 10)
#define SPAN_WINDOW_STORED_MAX (36u << 10)

enum span_kind {
	SPAN_END,     /* no span: marks the end of the layer's last one */
	SPAN_PLAIN,   /* stored as it is */
	SPAN_DEFLATE, /* begins inside of a gzip member, at a block of deflate */
	SPAN_ZSTD,    /* one or more whole frames */
};

/* A part of a stored layer that can be unpacked by itself; ends where the next record
 * begins. */
struct span {
	/* offset of its first byte in the unpacked layer */
	uint64_t plain;
	uint64_t stored; /* offset of its first byte in the stored layer */
	/* offset of its window in the last pack, which has all windows */
	uint64_t window;
	uint32_t window_len; /* stored bytes of the window; 0: it needs none */
	uint32_t pack;       /* the pack that is its layer */
	enum span_kind kind;
	uint32_t
		/* CRC-32 (RFC 1952) of its unpacked bytes: damaged spans are not kept in
		 * memory */
		crc;
	/* number of high bits of the byte at `stored` that belong to it; 0: it begins with
	 * the whole byte */
	uint8_t bits;
};

/* The content's `len` bytes from `at` on are the layer's unpacked bytes from `plain` on. */
struct content_place {
	uint64_t at;
	uint64_t plain;
	uint32_t len;
	uint32_t pack;
};

/* Do its blocks lie in layers? Then all of them are raw and "in pack 0", which stands for
 * the content: all blocks' bytes one behind the other, m->content_size in all. */
static inline bool blockmap_is_index(const struct blockmap *m)
{
	return m->n_spans > 0;
}

/* About how many bytes an origin sends for so many stored bytes of blocks. */
static inline uint64_t blockmap_sent(const struct blockmap *m, uint64_t bytes)
{
	return m->n_spans ? bytes / 256 * m->stored_share : bytes;
}

void blockmap_span(const struct blockmap *m, size_t i, struct span *ret);
void blockmap_place(const struct blockmap *m, size_t i,
		    struct content_place *ret);

/* The span with byte `plain` of the layer `pack`; n_spans when there is none. */
size_t blockmap_find_span(const struct blockmap *m, uint32_t pack,
			  uint64_t plain);

/* The first place that does not end before byte `at` of the content, or n_places. */
size_t blockmap_find_place(const struct blockmap *m, uint64_t at);

/* Add spans in order of layer and `plain`, and places in order of `at`. */
int blockmap_writer_span(struct blockmap_writer *w, const struct span *s,
			 struct error *err) MUST_CHECK;
int blockmap_writer_place(struct blockmap_writer *w,
			  const struct content_place *p,
			  struct error *err) MUST_CHECK;

#endif
