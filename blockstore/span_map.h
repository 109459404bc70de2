// SPDX-License-Identifier: Apache-2.0
/*
 * The second half of a block map whose blocks lie in the layers of an ordinary image
 * (version 2): where each byte of content lies in a layer's tar stream, and where the
 * stored layer can be entered to unpack it.  docs/formats/blockmap.md.
 */
#ifndef BOOTSEER_BLOCKSTORE_SPAN_MAP_H
#define BOOTSEER_BLOCKSTORE_SPAN_MAP_H

#include "blockstore/blockstore.h"

#define SPAN_PLAIN_MAX (16u << 20)  /* bytes that a span unpacks to */
#define SPAN_STORED_MAX (17u << 20) /* bytes of the layer that it takes */
#define SPAN_WINDOW_BYTES (32u << 10)
#define SPAN_WINDOW_STORED_MAX (36u << 10)

enum span_kind {
	SPAN_END,     /* no span: where the layer's last one ends */
	SPAN_PLAIN,   /* stored as it is */
	SPAN_DEFLATE, /* begins inside of a gzip member, at a block of deflate */
	SPAN_ZSTD,    /* whole frames */
};

/* A part of a stored layer that is unpacked by itself: up to the next record. */
struct span {
	uint64_t plain;      /* its first byte, of the layer's unpacked bytes */
	uint64_t stored;     /* of the layer's stored bytes */
	uint64_t window;     /* byte in the last pack, which has the windows */
	uint32_t window_len; /* bytes there; 0: it needs none */
	uint32_t pack;       /* the layer */
	enum span_kind kind;
	uint32_t
		crc; /* CRC-32 (RFC 1952) of what it unpacks to: a span that came
	               * damaged is not kept, whoever may ask for it again */
	uint8_t bits; /* of the byte at `stored`, its last that belong to it;
	               * 0: it begins with the whole byte */
};

/* `len` bytes of content from `at` on are the layer's unpacked bytes from `plain` on. */
struct content_place {
	uint64_t at;
	uint64_t plain;
	uint32_t len;
	uint32_t pack;
};

/* Are its blocks in layers?  Then all of them are raw and "in pack 0", which stands for
 * the content: the blocks' bytes behind each other, m->content_size of them. */
static inline bool blockmap_is_index(const struct blockmap *m)
{
	return m->n_spans > 0;
}

/* About how many bytes an origin sends for so many of blocks' stored ones. */
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

/* The first place that does not end before byte `at` of the content; n_places: none. */
size_t blockmap_find_place(const struct blockmap *m, uint64_t at);

/* Spans by layer and `plain`, places by `at`. */
int blockmap_writer_span(struct blockmap_writer *w, const struct span *s,
			 struct error *err) MUST_CHECK;
int blockmap_writer_place(struct blockmap_writer *w,
			  const struct content_place *p,
			  struct error *err) MUST_CHECK;

#endif
