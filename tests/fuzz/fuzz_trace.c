// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes: refused, or a trace that keeps its rules and encodes to itself.
 * No fuzzer guesses a checksum and a zstd frame, so the bytes are also taken as
 * three counts and a body, around which a proper trace is put.
 */
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "recorder/trace_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static void require_same(const struct trace *a, const struct trace *b)
{
	require(a->n == b->n);
	require(strcmp(a->info.workload, b->info.workload) == 0);
	for (size_t i = 0; i < a->n; i++) {
		const struct trace_entry *x = &a->entries[i];
		const struct trace_entry *y = &b->entries[i];

		require(x->path[0] == '/' && x->len && x->confidence);
		require(strcmp(x->path, y->path) == 0 && x->off == y->off &&
			x->len == y->len && x->at_ms == y->at_ms &&
			x->csize == y->csize &&
			x->confidence == y->confidence &&
			digest_equal(&x->block, &y->block));
	}
}

static void decode(const uint8_t *data, size_t size)
{
	AUTO(trace) t = NULL;
	AUTO(trace) again = NULL;
	AUTO_BUF b = BUF_INIT;
	struct error err = ERROR_INIT;
	struct trace_info info;
	size_t n;

	if (trace_decode_info(data, size, &info, &n, &err) == 0) {
		require(n <= TRACE_ENTRIES_MAX && info.runs);
		trace_info_fini(&info);
	} else {
		require(err.code && err.msg[0]);
	}
	if (trace_decode(data, size, &t, &err) < 0) {
		require(err.code && err.msg[0]);
		return;
	}
	require(trace_encode(t, &b, &err) == 0);
	require(trace_decode(b.data, b.len, &again, &err) == 0);
	require_same(t, again);
}

static void decode_body(const uint8_t *data, size_t size)
{
	uint8_t out[HEAD_SIZE + 1 + 8192] = MAGIC;
	struct digest sum;
	size_t n;

	if (size < 6 || size > 4096)
		return;
	n = ZSTD_compress(out + HEAD_SIZE + 1, sizeof(out) - HEAD_SIZE - 1,
			  data + 6, size - 6, 1);
	require(!ZSTD_isError(n));
	put_le32(out + HEAD_VERSION, VERSION);
	put_le32(out + HEAD_RUNS, 1);
	put_le32(out + HEAD_N_ENTRIES, get_le16(data));
	put_le32(out + HEAD_N_PATHS, get_le16(data + 2));
	put_le32(out + HEAD_N_BLOCKS, get_le16(data + 4));
	put_le32(out + HEAD_BODY, (uint32_t)(size - 6));
	put_le32(out + HEAD_STORED, (uint32_t)n);
	put_le16(out + HEAD_WORKLOAD_LEN, 1);
	out[HEAD_SIZE] = 'w';
	n += HEAD_SIZE + 1;
	require(trace_checksum(out, n, &sum) == 0);
	memcpy(out + HEAD_SUM, sum.b, DIGEST_SIZE);
	decode(out, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	decode(data, size);
	decode_body(data, size);
	return 0;
}
