// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "tests/unit/p2p/swarm_bench.h"

struct bench b;

static void host_ask(void *arg, unsigned int peer, const uint32_t *pieces,
		     size_t n, enum source_priority priority)
{
	struct noted *a = &b.asks[b.n_asks++ % 256];

	*a = (struct noted){ pieces[0], peer, priority, n - 1, { 0 } };
	memcpy(a->others, pieces + 1, (n - 1) * sizeof(*pieces));
}

static void host_cancel(void *arg, unsigned int peer, uint32_t piece)
{
	b.cancels[b.n_cancels++ % 64] =
		(struct noted){ .piece = piece, .peer = peer };
}

static void host_origin(void *arg, const uint32_t *pieces, size_t n,
			enum source_priority priority)
{
	for (size_t i = 0; i < n; i++)
		b.reads[b.n_reads++ % 256] = pieces[i];
}

static void host_lease(void *arg, const uint32_t *pieces, size_t n,
		       enum source_priority priority)
{
	memcpy(b.wanted, pieces, n * sizeof(*pieces));
	b.n_wanted = n;
	b.wanted_as = priority;
	b.n_calls++;
}

static void host_quarantine(void *arg, unsigned int peer, int64_t ns,
			    const char *why)
{
	b.quarantine_ns = ns;
}

static void host_fail(void *arg, uint32_t piece, int rc)
{
	b.failed = piece;
	b.failed_rc = rc;
	b.n_failed++;
}

static const struct swarm_host host = {
	.ask = host_ask,
	.cancel = host_cancel,
	.origin = host_origin,
	.lease = host_lease,
	.quarantine = host_quarantine,
	.fail = host_fail,
};

static bool is_unverified;

static void begin_with(const char *name, const struct swarm_limits *limits)
{
	struct swarm_config cfg = { .n_pieces = PIECES,
				    .is_unverified = is_unverified,
				    .sizes = b.sizes,
				    .unpacked = b.unpacked,
				    .seed = 7,
				    .self = swarm_name(name),
				    .limits = *limits,
				    .host = &host };
	struct error err = ERROR_INIT;

	b.now = 1000 * MS;
	for (uint32_t i = 0; i < PIECES; i++)
		b.sizes[i] = SIZE;
	cr_assert_eq(swarm_new(&cfg, b.now, &b.s, &err), 0, "%s", err.msg);
}

void begin_as(const char *name)
{
	begin_with(name, &swarm_limits_default);
}

void begin_unpacking(uint32_t each, uint64_t max)
{
	struct swarm_limits limits = swarm_limits_default;

	limits.unpacked_max = max;
	for (uint32_t i = 0; i < PIECES; i++)
		b.unpacked[i] = each;
	begin_with("self", &limits);
}

void begin(void)
{
	begin_as("self");
}

void begin_unverified(void)
{
	is_unverified = true;
	begin();
}

void end(void)
{
	swarm_free(b.s);
}

void joins(unsigned int peer, uint32_t first, uint32_t n)
{
	struct swarm_range r = { first, n };

	swarm_peer_join(b.s, peer, SWARM_SAME_RACK, 0, b.now);
	cr_assert_eq(swarm_peer_has(b.s, peer, r, b.now), 0);
}

void brings(unsigned int peer, uint32_t piece)
{
	swarm_begins(b.s, peer, piece);
	swarm_got(b.s, peer, piece, b.now);
}

void pass(int64_t ns)
{
	for (int64_t until = b.now + ns; b.now < until; b.now += MS)
		(void)!swarm_tick(b.s, b.now);
}

void want(enum source_priority priority, uint32_t first, uint32_t n)
{
	uint32_t pieces[PIECES];

	for (uint32_t i = 0; i < n; i++)
		pieces[i] = first + i;
	cr_assert_eq(swarm_want(b.s, priority, pieces, n, b.now), 0);
}

void answer(size_t n, bool full, int64_t retry_ns)
{
	uint32_t asked[SWARM_LEASE_MAX];
	struct swarm_grant g = { .asked = asked,
				 .n_asked = b.n_wanted,
				 .granted = asked,
				 .n_granted = n,
				 .is_full = full,
				 .ttl_ns = 1000 * MS,
				 .retry_ns = retry_ns };

	memcpy(asked, b.wanted, sizeof(asked));
	swarm_leases(b.s, &g, b.now);
}
