// SPDX-License-Identifier: Apache-2.0
/* Any bytes: refused, or a map whose every answer is consistent. */
#include <stddef.h>
#include <stdint.h>

#include "blockstore/span_map.h"
#include "common/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

/* Each byte of each place lies in a span of bounded size, of stored bytes that are
 * there. */
static void check_layers(const struct blockmap *m)
{
	for (size_t i = 0; i < m->n_places; i++) {
		struct content_place place;
		struct span s, next;
		struct pack p;
		size_t at;

		blockmap_place(m, i, &place);
		require(blockmap_find_place(m, place.at) == i);
		require(place.at + place.len <= m->content_size);
		at = blockmap_find_span(m, place.pack,
					place.plain + place.len - 1);
		require(at + 1 < m->n_spans);
		blockmap_span(m, at, &s);
		blockmap_span(m, at + 1, &next);
		require(s.pack == place.pack && next.pack == s.pack);
		require(next.plain > s.plain && next.stored >= s.stored);
		require(next.plain - s.plain <= SPAN_PLAIN_MAX);
		blockmap_pack(m, s.pack, &p);
		require(next.stored + (next.bits ? 1 : 0) <= p.size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct blockmap m;
	uint64_t end = 0;

	if (blockmap_open(data, size, &m, &err) < 0) {
		require(err.code && err.msg[0]);
		return 0;
	}
	for (size_t i = 0; i < m.n_blocks; i++) {
		struct block b;
		struct pack p;

		blockmap_block(&m, i, &b);
		require(b.voff >= end && b.pack < m.n_packs);
		blockmap_pack(&m, b.pack, &p);
		require(b.poff + b.csize <=
			(blockmap_is_index(&m) ? m.content_size : p.size));
		end = b.voff + round_up(b.usize, BLOCK_ALIGN);
		require(end <= m.device_size);
		require(blockmap_find(&m, b.voff) == i);
		require(blockmap_find(&m, end - 1) == i);
	}
	require(blockmap_find(&m, m.device_size) == m.n_blocks);
	check_layers(&m);
	return 0;
}
