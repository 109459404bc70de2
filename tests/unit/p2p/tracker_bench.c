// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/p2p/tracker_bench.h"

struct bench b;

void begin(const struct tracker_config *cfg)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(tracker_new(cfg, &b.t, &err), 0, "%s", err.msg);
	b.now = 5 * SECOND;
}

void begin_default(void)
{
	begin(&tracker_config_default);
}

void end(void)
{
	tracker_free(b.t);
	b.t = NULL;
}

struct tracker_call *from(unsigned int n, const char *zone, unsigned int image)
{
	(void)snprintf(b.node, sizeof(b.node), "n%u", n);
	(void)snprintf(b.addr, sizeof(b.addr), "10.0.0.%u:7000", n);
	b.c = (struct tracker_call){ .node = b.node,
				     .addr = b.addr,
				     .rack = "",
				     .zone = zone,
				     .region = "",
				     .n_pieces = PIECES,
				     .have = PIECES / 2,
				     .want = b.want,
				     .want_bytes = b.bytes };
	memset(b.c.image.b, (int)image, sizeof(b.c.image.b));
	return &b.c;
}

void wants(uint32_t first, uint32_t n, uint32_t bytes)
{
	for (uint32_t i = 0; i < n; i++) {
		b.want[i] = first + i;
		b.bytes[i] = bytes;
	}
	b.c.n_want = n;
}

void hear(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(tracker_hear(b.t, &b.c, b.now, &b.a, &err), 0, "%s",
		     err.msg);
}

bool is_granted(uint32_t piece)
{
	for (size_t i = 0; i < b.a.n_granted; i++)
		if (b.a.granted[i] == piece)
			return true;
	return false;
}

void report(bool done, const uint32_t *pieces, size_t n)
{
	b.c.n_want = 0;
	if (done) {
		b.c.done = pieces;
		b.c.n_done = n;
	} else {
		b.c.failed = pieces;
		b.c.n_failed = n;
	}
	hear();
}
