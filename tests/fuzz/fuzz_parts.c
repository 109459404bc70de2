// SPDX-License-Identifier: Apache-2.0
/* A blob's size (u64) and any text: refused by name, or parts that make a map and
 * are written as they were read. */
#include "image/artifact/parts.h"

#include <string.h>

#include "blockstore/blockstore.h"
#include "common/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static void check_map(const struct parts *p, uint64_t size)
{
	struct oci_descriptor blob = { .size = size };
	struct parts_blob one = { .blob = &blob, .parts = p };
	AUTO_FREE void *map = NULL;
	struct blockmap m;
	size_t len;

	require(parts_map(&one, 1, &map, &len, NULL) == 0);
	require(blockmap_open(map, len, &m, NULL) == 0);
	require(m.n_blocks == p->n && m.n_packs == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_BUF text = BUF_INIT;
	AUTO_BUF again = BUF_INIT;
	struct error err = ERROR_INIT;
	struct parts p;
	uint64_t blob;

	if (len < 8)
		return 0;
	blob = get_le64(data);
	if (buf_append(&text, data + 8, len - 8) < 0)
		return 0;
	if (parts_parse(text.data ? text.data : "", blob, &p, &err) < 0) {
		require(err.code && err.msg[0]);
		return 0;
	}
	require(p.n >= 1 && p.n <= PARTS_MAX);
	require(parts_format(&p, &again, NULL) == 0);
	require(strcmp(again.data, text.data) == 0);
	check_map(&p, blob);
	parts_fini(&p);
	return 0;
}
