// SPDX-License-Identifier: Apache-2.0
/*
 * Reader of block maps. Pure. A map comes from a registry, so blockmap_open() checks every field
 * once; the functions of the hot path trust the checked bytes. Format: docs/formats/blockmap.md.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "blockstore/blockmap_format.h"
#include "blockstore/blockstore.h"
#include "blockstore/span_map.h"
#include "common/bytes.h"

static const uint8_t *block_at(const struct blockmap *m, size_t i)
{
	return m->data + HEADER_SIZE + i * BLOCK_SIZE;
}

static const uint8_t *pack_at(const struct blockmap *m, size_t i)
{
	return m->data + HEADER_SIZE + m->n_blocks * BLOCK_SIZE + i * PACK_SIZE;
}

void blockmap_block(const struct blockmap *m, size_t i, struct block *ret)
{
	const uint8_t *p = block_at(m, i);

	memcpy(ret->digest.b, p + BLOCK_DIGEST, DIGEST_SIZE);
	ret->voff = get_le64(p + BLOCK_VOFF);
	ret->poff = get_le64(p + BLOCK_POFF);
	ret->usize = get_le32(p + BLOCK_USIZE);
	ret->csize = get_le32(p + BLOCK_CSIZE);
	ret->pack = get_le32(p + BLOCK_PACK);
	ret->codec = p[BLOCK_CODEC];
}

bool block_is_same(const struct block *a, const struct block *b)
{
	return digest_equal(&a->digest, &b->digest) && a->usize == b->usize &&
	       a->csize == b->csize && a->codec == b->codec;
}

void blockmap_pack(const struct blockmap *m, size_t i, struct pack *ret)
{
	const uint8_t *p = pack_at(m, i);

	memcpy(ret->digest.b, p + PACK_DIGEST, DIGEST_SIZE);
	ret->size = get_le64(p + PACK_BYTES);
}

/* Returns why this stored form is impossible, or NULL if it is possible. */
static const char *stored_fault(const struct block *b)
{
	switch (b->codec) {
	case BLOCK_CODEC_RAW:
		return b->csize == b->usize ? NULL : "raw, but sizes differ";
	case BLOCK_CODEC_ZSTD:
		return b->csize && b->csize <= b->usize
			       ? NULL
			       : "compressed size out of bounds";
	}
	return "unknown codec";
}

/* Returns why the block is invalid, or NULL. `*end` is the end of the block before, and is
 * moved to the end of this one. */
static const char *block_fault(const struct blockmap *m, size_t i,
			       uint64_t *end)
{
	struct block b;
	struct pack p;
	const char *fault;
	uint64_t span;

	blockmap_block(m, i, &b);
	if (!bytes_are_zero(block_at(m, i) + BLOCK_RESERVED,
			    BLOCK_SIZE - BLOCK_RESERVED))
		return "reserved bytes are set";
	if (!b.usize || b.usize > BLOCK_USIZE_MAX)
		return "size out of bounds";
	fault = stored_fault(&b);
	if (fault)
		return fault;
	if (b.voff % BLOCK_ALIGN)
		return "device offset is not aligned";
	if (b.voff < *end)
		return "overlaps the one before or is out of order";
	span = round_up(b.usize, BLOCK_ALIGN);
	if (b.voff > m->device_size || span > m->device_size - b.voff)
		return "ends past the device";
	if (b.pack >= m->n_packs)
		return "no such pack";
	blockmap_pack(m, b.pack, &p);
	if (m->n_spans) {
		if (b.pack || b.codec != BLOCK_CODEC_RAW)
			return "not raw in the content of the layers";
		p.size = m->content_size;
	}
	if (b.poff > p.size || b.csize > p.size - b.poff)
		return "ends past its pack";
	*end = b.voff + span;
	return NULL;
}

/* ------------------------------------------------------- version 2: blocks in layers --- */

/* Spans and places of a block map, version 2.  Pure: docs/formats/blockmap.md. */

static const uint8_t *span_at(const struct blockmap *m, size_t i)
{
	return m->data + HEADER_SIZE + m->n_blocks * BLOCK_SIZE +
	       m->n_packs * PACK_SIZE + i * SPAN_SIZE;
}

static const uint8_t *place_at(const struct blockmap *m, size_t i)
{
	return span_at(m, m->n_spans) + i * PLACE_SIZE;
}

void blockmap_span(const struct blockmap *m, size_t i, struct span *ret)
{
	const uint8_t *p = span_at(m, i);

	ret->plain = get_le64(p + SPAN_PLAIN_OFF);
	ret->stored = get_le64(p + SPAN_STORED_OFF);
	ret->window = get_le64(p + SPAN_WINDOW_OFF);
	ret->window_len = get_le32(p + SPAN_WINDOW_LEN);
	ret->pack = get_le32(p + SPAN_PACK);
	ret->kind = p[SPAN_KIND];
	ret->bits = p[SPAN_BITS];
	ret->crc = get_le32(p + SPAN_CRC);
}

void blockmap_place(const struct blockmap *m, size_t i,
		    struct content_place *ret)
{
	const uint8_t *p = place_at(m, i);

	ret->at = get_le64(p + PLACE_AT);
	ret->plain = get_le64(p + PLACE_PLAIN);
	ret->len = get_le32(p + PLACE_LEN);
	ret->pack = get_le32(p + PLACE_PACK);
}

size_t blockmap_find_span(const struct blockmap *m, uint32_t pack,
			  uint64_t plain)
{
	size_t lo = 0, hi = m->n_spans;
	struct span s;

	/* Spans below lo begin at or before the byte, those from hi on after. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		blockmap_span(m, mid, &s);
		if (s.pack < pack || (s.pack == pack && s.plain <= plain))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return m->n_spans;
	blockmap_span(m, lo - 1, &s);
	return s.pack == pack && s.kind != SPAN_END ? lo - 1 : m->n_spans;
}

size_t blockmap_find_place(const struct blockmap *m, uint64_t at)
{
	size_t lo = 0, hi = m->n_places;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		struct content_place p;

		blockmap_place(m, mid, &p);
		if (p.at + p.len <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* ------------------------------------------------------------------- check --- */

static const char *window_fault(const struct blockmap *m, const struct span *s)
{
	struct pack windows;

	if (s->kind == SPAN_END && s->crc)
		return "a checksum of nothing";
	if (s->kind != SPAN_DEFLATE)
		return s->bits || s->window || s->window_len
			       ? "a decoder's state for what has none"
			       : NULL;
	if (s->bits > 7 || s->window_len > SPAN_WINDOW_STORED_MAX)
		return "its decoder's state is out of bounds";
	blockmap_pack(m, m->n_packs - 1, &windows);
	if (s->window > windows.size ||
	    s->window_len > windows.size - s->window)
		return "its window ends past the windows";
	return NULL;
}

/* Returns what is wrong with the length of the span that ends where `next` begins, or NULL. */
static const char *length_fault(const struct span *s, const struct span *next)
{
	uint64_t plain = next->plain - s->plain;
	uint64_t stored = next->stored - s->stored;

	if (next->pack != s->pack)
		return "its layer has no end";
	if (next->plain <= s->plain || next->stored < s->stored)
		return "it ends before it begins";
	if (plain > SPAN_PLAIN_MAX || stored > SPAN_STORED_MAX)
		return "it is too long";
	if (s->kind == SPAN_PLAIN && plain != stored)
		return "stored as it is, but sizes differ";
	return NULL;
}

static const char *span_fault(const struct blockmap *m, size_t i)
{
	struct span s, other;
	struct pack p;

	blockmap_span(m, i, &s);
	if (get_le16(span_at(m, i) + SPAN_RESERVED))
		return "reserved bytes are set";
	if (s.kind > SPAN_ZSTD)
		return "unknown kind";
	if (s.pack >= m->n_packs)
		return "no such pack";
	blockmap_pack(m, s.pack, &p);
	if (s.stored > p.size || (s.kind != SPAN_END && s.stored == p.size))
		return "begins past its layer";
	if (i)
		blockmap_span(m, i - 1, &other);
	if (i == 0 || other.kind == SPAN_END) {
		if (i && other.pack >= s.pack)
			return "layers are out of order";
		if (s.plain)
			return "its layer has no beginning";
	}
	if (s.kind != SPAN_END) {
		if (i + 1 == m->n_spans)
			return "its layer has no end";
		blockmap_span(m, i + 1, &other);
		if (length_fault(&s, &other))
			return length_fault(&s, &other);
	}
	return window_fault(m, &s);
}

/* Get the record that ends the layer with span `i`. */
static void end_of_layer(const struct blockmap *m, size_t i, struct span *ret)
{
	size_t lo = i, hi = m->n_spans - 1;
	struct span first;

	blockmap_span(m, i, &first);
	while (lo < hi) {
		size_t mid = hi - (hi - lo) / 2;

		blockmap_span(m, mid, ret);
		if (ret->pack == first.pack)
			lo = mid;
		else
			hi = mid - 1;
	}
	blockmap_span(m, lo, ret);
}

/* Returns why the place is invalid, or NULL. `*end` is the end of the place before, and is
 * moved to the end of this one. */
static const char *place_fault(const struct blockmap *m, size_t i,
			       uint64_t *end)
{
	struct content_place p;
	struct span last;
	size_t at;

	blockmap_place(m, i, &p);
	if (!p.len)
		return "it is empty";
	if (p.at < *end)
		return "overlaps the one before or is out of order";
	if (p.at > m->content_size || p.len > m->content_size - p.at)
		return "ends past the content";
	at = blockmap_find_span(m, p.pack, p.plain);
	if (at == m->n_spans)
		return "in no span";
	end_of_layer(m, at, &last);
	if (p.len > last.plain - p.plain)
		return "ends past its layer";
	*end = p.at + p.len;
	return NULL;
}

/* Compressed share of the layers' bytes in 256ths, at most 256. */
static uint32_t get_compressed_share(const struct blockmap *m)
{
	uint64_t plain = 1, stored = 1;
	struct span s;

	for (size_t i = 0; i < m->n_spans; i++) {
		blockmap_span(m, i, &s);
		if (s.kind != SPAN_END)
			continue;
		plain += s.plain / KIB;
		stored += s.stored / KIB;
	}
	return stored >= plain ? 256 : (uint32_t)(stored * 256 / plain) + 1;
}

/* Check each span and place of a map whose counts and packs are checked, and set its
 * stored_share.  -EINVAL says which and why. */
static int span_map_check(struct blockmap *m, struct error *err)
{
	const char *fault = NULL;
	uint64_t end = 0;

	for (size_t i = 0; i < m->n_spans; i++) {
		fault = span_fault(m, i);
		if (fault)
			return error_set(err, EINVAL, "block map: span %zu: %s",
					 i, fault);
	}
	m->stored_share = get_compressed_share(m);
	for (size_t i = 0; i < m->n_places; i++) {
		fault = place_fault(m, i, &end);
		if (fault)
			return error_set(err, EINVAL,
					 "block map: place %zu: %s", i, fault);
	}
	return 0;
}

static int check_header(const uint8_t *p, size_t len, struct error *err)
{
	uint32_t version;

	if (len < HEADER_SIZE || len > BLOCKMAP_BYTES_MAX)
		return error_set(err, EINVAL,
				 "block map: %zu bytes, want %u to %u", len,
				 HEADER_SIZE, BLOCKMAP_BYTES_MAX);
	if (memcmp(p + HEADER_MAGIC, BLOCKMAP_MAGIC, 8) != 0)
		return error_set(err, EINVAL, "block map: wrong magic");
	version = get_le32(p + HEADER_VERSION);
	if (version != BLOCKMAP_VERSION && version != BLOCKMAP_VERSION_INDEX)
		return error_set(err, ENOTSUP,
				 "block map: version %" PRIu32
				 ", this program reads %u and %u",
				 version, BLOCKMAP_VERSION,
				 BLOCKMAP_VERSION_INDEX);
	if (!bytes_are_zero(p + HEADER_RESERVED,
			    HEADER_SIZE - HEADER_RESERVED) ||
	    (version == BLOCKMAP_VERSION &&
	     !bytes_are_zero(p + HEADER_N_SPANS,
			     HEADER_RESERVED - HEADER_N_SPANS)))
		return error_set(err, EINVAL,
				 "block map: reserved header bytes are set");
	return 0;
}

static int check_counts(const uint8_t *p, size_t len, struct blockmap *m,
			struct error *err)
{
	uint64_t n_blocks = get_le64(p + HEADER_N_BLOCKS);
	uint32_t n_packs = get_le32(p + HEADER_N_PACKS);
	uint64_t n_spans = get_le64(p + HEADER_N_SPANS);
	uint64_t n_places = get_le64(p + HEADER_N_PLACES);

	if (n_packs > PACKS_MAX || n_blocks > BLOCKMAP_BYTES_MAX / BLOCK_SIZE)
		return error_set(err, EINVAL,
				 "block map: %" PRIu64 " blocks in %" PRIu32
				 " packs is too many",
				 n_blocks, n_packs);
	if (n_spans > BLOCKMAP_BYTES_MAX / SPAN_SIZE ||
	    n_places > BLOCKMAP_BYTES_MAX / PLACE_SIZE)
		return error_set(err, EINVAL,
				 "block map: %" PRIu64 " spans, %" PRIu64
				 " places is too many",
				 n_spans, n_places);
	if (get_le32(p + HEADER_VERSION) == BLOCKMAP_VERSION_INDEX &&
	    (n_spans == 0 || n_packs == 0))
		return error_set(err, EINVAL, "block map: no layers");
	/* No product can overflow: all factors are bounded above. */
	if (HEADER_SIZE + n_blocks * BLOCK_SIZE +
		    (uint64_t)n_packs * PACK_SIZE + n_spans * SPAN_SIZE +
		    n_places * PLACE_SIZE !=
	    len)
		return error_set(err, EINVAL,
				 "block map: %zu bytes do not hold %" PRIu64
				 " blocks and %" PRIu32 " packs",
				 len, n_blocks, n_packs);
	m->n_blocks = (size_t)n_blocks;
	m->n_packs = n_packs;
	m->n_spans = (size_t)n_spans;
	m->n_places = (size_t)n_places;
	m->content_size = get_le64(p + HEADER_CONTENT);
	m->device_size = get_le64(p + HEADER_DEVICE_SIZE);
	if (m->content_size > OFFSET_MAX)
		return error_set(err, EINVAL,
				 "block map: content size %" PRIu64
				 " is too large",
				 m->content_size);
	if (m->device_size % BLOCK_ALIGN || m->device_size > OFFSET_MAX)
		return error_set(err, EINVAL,
				 "block map: device size %" PRIu64
				 " is not a multiple of %u or too large",
				 m->device_size, BLOCK_ALIGN);
	return 0;
}

int blockmap_open(const void *data, size_t len, struct blockmap *ret,
		  struct error *err)
{
	struct blockmap m = { .data = data, .len = len };
	uint64_t end = 0, in_blocks = 0;
	int rc = check_header(data, len, err);

	if (rc == 0)
		rc = check_counts(data, len, &m, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < m.n_packs; i++) {
		struct pack p;

		blockmap_pack(&m, i, &p);
		if (!p.size || p.size > OFFSET_MAX)
			return error_set(err, EINVAL,
					 "block map: pack %zu: size %" PRIu64
					 " out of bounds",
					 i, p.size);
	}
	for (size_t i = 0; i < m.n_blocks; i++) {
		const char *fault = block_fault(&m, i, &end);

		if (fault)
			return error_set(err, EINVAL,
					 "block map: block %zu: %s", i, fault);
		in_blocks += get_le32(block_at(&m, i) + BLOCK_USIZE);
	}
	/* Larger content would be bytes that no block has: reading it would return zeros
	 * without end. */
	if (m.content_size > in_blocks)
		return error_set(err, EINVAL,
				 "block map: content of %" PRIu64
				 " bytes is more than all blocks",
				 m.content_size);
	rc = span_map_check(&m, err);
	if (rc < 0)
		return rc;
	*ret = m;
	return 0;
}

size_t blockmap_find(const struct blockmap *m, uint64_t voff)
{
	size_t lo = 0, hi = m->n_blocks;
	const uint8_t *p;
	uint64_t start, span;

	/* Invariant: blocks below lo start at or before voff, those from hi
	 * on start after it. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (get_le64(block_at(m, mid) + BLOCK_VOFF) <= voff)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return m->n_blocks;
	p = block_at(m, lo - 1);
	start = get_le64(p + BLOCK_VOFF);
	span = round_up(get_le32(p + BLOCK_USIZE), BLOCK_ALIGN);
	return voff - start < span ? lo - 1 : m->n_blocks;
}
