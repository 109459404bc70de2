// SPDX-License-Identifier: Apache-2.0
/* Spans and places of a block map, version 2.  Pure: docs/formats/blockmap.md. */
#include "blockstore/span_map.h"

#include <errno.h>
#include <string.h>

#include "blockstore/blockmap_format.h"
#include "blockstore/span_map_check.h"
#include "common/bytes.h"

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

/* The fault of the span that ends where `next` begins; NULL: there is none. */
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

/* The record that ends the layer with span `i`. */
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

/* `end` is where the place before ended; moved on past this one. */
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

/* How well the layers are compressed, at most as they are. */
static uint32_t share_of(const struct blockmap *m)
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

int span_map_check(struct blockmap *m, struct error *err)
{
	const char *fault = NULL;
	uint64_t end = 0;

	for (size_t i = 0; i < m->n_spans; i++) {
		fault = span_fault(m, i);
		if (fault)
			return error_set(err, EINVAL, "block map: span %zu: %s",
					 i, fault);
	}
	m->stored_share = share_of(m);
	for (size_t i = 0; i < m->n_places; i++) {
		fault = place_fault(m, i, &end);
		if (fault)
			return error_set(err, EINVAL,
					 "block map: place %zu: %s", i, fault);
	}
	return 0;
}
