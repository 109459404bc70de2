// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes: refused, or a prediction whose entries all have readers, and which encodes to
 * itself.  No fuzzer guesses a checksum, so the bytes are also taken as numbers of a proper
 * trace.
 */
#include <string.h>

#include "common/bytes.h"
#include "recorder/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require_true(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static void decode(const void *data, size_t size)
{
	AUTO(trace) t = NULL;
	AUTO(trace) again = NULL;
	AUTO_BUF b = BUF_INIT;

	if (prediction_decode(data, size, &t, NULL) < 0) {
		t = NULL;
		return;
	}
	require_true(t->n >= 1 && t->n <= PREDICTION_ENTRIES_MAX && t->readers);
	for (size_t i = 0; i < t->n; i++)
		require_true(t->readers[i] != 0);
	require_true(prediction_encode(t, &b, NULL) == 0);
	require_true(prediction_decode(b.data, b.len, &again, NULL) == 0);
	require_true(again->n == t->n &&
		     memcmp(again->readers, t->readers,
			    t->n * sizeof(*t->readers)) == 0);
}

/* A prediction of an entry for each eight bytes, the readers of which they are. */
static void decode_numbers(const uint8_t *data, size_t size)
{
	static char none[] = "", name[] = "predicted";
	const struct trace_info info = { .repo = none,
					 .workload = name,
					 .runs = 1 };
	size_t n = size / sizeof(uint64_t);
	struct trace_builder *builder;
	AUTO(trace) t = NULL;
	AUTO_BUF b = BUF_INIT;

	if (n < 1 || n > 64)
		return;
	require_true(trace_builder_new(&info, &builder, NULL) == 0);
	for (size_t i = 0; i < n; i++) {
		struct trace_entry e = { .path = "/a",
					 .off = i * 4096,
					 .len = 1,
					 .confidence = TRACE_CERTAIN };

		require_true(trace_builder_add(builder, &e, NULL) == 0);
	}
	require_true(trace_builder_finish(builder, &t, NULL) == 0);
	t->readers = calloc(n, sizeof(*t->readers));
	require_true(t->readers);
	for (size_t i = 0; i < n; i++)
		t->readers[i] = get_le64(data + i * sizeof(uint64_t));
	require_true(prediction_encode(t, &b, NULL) == 0);
	decode(b.data, b.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	decode(data, size);
	decode_numbers(data, size);
	return 0;
}
