// SPDX-License-Identifier: Apache-2.0
/* Any two texts: refused, or an artifact with counts that hold. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "blockstore/blockstore.h"
#include "image/artifact/artifact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

/* Manifest and config are separated by a NUL. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *cut = memchr(data, 0, size);
	size_t first = cut ? (size_t)(cut - data) : size;
	struct error err = ERROR_INIT;
	struct artifact a;

	if (artifact_parse(data, first, cut ? cut + 1 : data,
			   cut ? size - first - 1 : 0, &a, &err) < 0) {
		require(err.code && err.msg[0]);
		return 0;
	}
	require(a.n_chain_ids >= 1 && a.format == 1);
	require(a.meta_size <= ARTIFACT_META_MAX);
	require(a.map_size <= BLOCKMAP_BYTES_MAX);
	artifact_fini(&a);
	return 0;
}
