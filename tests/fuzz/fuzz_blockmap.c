// SPDX-License-Identifier: Apache-2.0
/* Any bytes: refused, or a map whose every answer is consistent. */
#include <stddef.h>
#include <stdint.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
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
		require(b.poff + b.csize <= p.size);
		end = b.voff + round_up(b.usize, BLOCK_ALIGN);
		require(end <= m.device_size);
		require(blockmap_find(&m, b.voff) == i);
		require(blockmap_find(&m, end - 1) == i);
	}
	require(blockmap_find(&m, m.device_size) == m.n_blocks);
	return 0;
}
