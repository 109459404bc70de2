// SPDX-License-Identifier: Apache-2.0
/* Any text: refused, or a trace that JSON gives back. */
#include <string.h>

#include "recorder/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(trace) t = NULL;
	AUTO(trace) again = NULL;
	AUTO_BUF b = BUF_INIT;
	struct error err = ERROR_INIT;

	if (!size)
		return 0;
	if (trace_from_json((const char *)data, size, &t, &err) < 0) {
		require(err.code && err.msg[0]);
		return 0;
	}
	require(trace_to_json(t, &b, &err) == 0);
	require(trace_from_json(b.data, b.len, &again, &err) == 0);
	require(t->n == again->n);
	for (size_t i = 0; i < t->n; i++)
		require(strcmp(t->entries[i].path, again->entries[i].path) ==
				0 &&
			t->entries[i].off == again->entries[i].off);
	return 0;
}
