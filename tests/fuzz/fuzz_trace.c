// SPDX-License-Identifier: Apache-2.0
/* Any bytes: refused, or a trace that keeps its rules and encodes to itself. */
#include <string.h>

#include "recorder/trace.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
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
		return 0;
	}
	require(trace_encode(t, &b, &err) == 0);
	require(trace_decode(b.data, b.len, &again, &err) == 0);
	require_same(t, again);
	return 0;
}
