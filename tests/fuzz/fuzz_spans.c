// SPDX-License-Identifier: Apache-2.0
/*
 * A span of a layer: its kind (u8), bits (u8), whether it has a window (u8), the KiB that
 * it unpacks to (u16), and its stored bytes.  Refused by name, or unpacked into exactly
 * its room.
 */
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "image/spans/spans.h"

#define HEAD 5
#define OUT_MAX 2048u /* KiB */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct error err = ERROR_INIT;
	struct span s = { .kind = SPAN_END };
	AUTO_FREE uint8_t *window = malloc(SPAN_WINDOW_BYTES);
	AUTO_FREE uint8_t *out = NULL, *in = NULL;
	size_t n;

	if (len < HEAD)
		return 0;
	s.kind = data[0] % (SPAN_ZSTD + 1);
	s.bits = data[1] % 8;
	n = (size_t)(get_le16(data + 3) % OUT_MAX + 1) * KIB;
	out = malloc(n);
	in = malloc(len);
	if (!window || !out || !in)
		return 0;
	memset(window, 'w', SPAN_WINDOW_BYTES);
	/* Rooms of their own, so that a sanitizer sees what is beside them. */
	memcpy(in, data + HEAD, len - HEAD);
	if (span_unpack(&s, data[2] & 1 ? window : NULL, in, len - HEAD, out, n,
			&err) < 0)
		require(err.code && err.msg[0]);
	return 0;
}
