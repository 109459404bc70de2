// SPDX-License-Identifier: Apache-2.0
/* One core, with a host that writes down what it hears. */
#ifndef BOOTSEER_TESTS_UNIT_P2P_SWARM_BENCH_H
#define BOOTSEER_TESTS_UNIT_P2P_SWARM_BENCH_H

#include <criterion/criterion.h>

#include "p2p/core/swarm.h"

#define MS INT64_C(1000000)
#define PIECES 100u
#define SIZE 100000u

struct noted {
	uint32_t piece;
	unsigned int peer;
	enum source_priority priority;
	size_t n_others;
	uint32_t others[SWARM_OTHERS_MAX];
};

struct bench {
	struct swarm *s;
	int64_t now;
	uint32_t sizes[PIECES], unpacked[PIECES];
	struct noted asks[256], cancels[64];
	size_t n_asks, n_cancels, n_calls;
	uint32_t reads[256], wanted[SWARM_LEASE_MAX];
	size_t n_reads, n_wanted;
	enum source_priority wanted_as;
	uint32_t failed;
	int failed_rc, n_failed;
	int64_t quarantine_ns;
};

/* Of the test that runs: each one has a process of its own. */
extern struct bench b;

/* A core that wants nothing and knows nobody. */
void begin(void);
void begin_as(const char *name);
/* One of pieces that unpack to so much each, of which so much may be under way. */
void begin_unpacking(uint32_t each, uint64_t max);
/* Begin a swarm whose pieces have no digest of their own. */
void begin_unverified(void);
void end(void);

/* A peer that has pieces [first, first + n). */
void joins(unsigned int peer, uint32_t first, uint32_t n);
/* It says which, and brings it. */
void brings(unsigned int peer, uint32_t piece);
/* Time passes, in steps as a host makes them. */
void pass(int64_t ns);
void want(enum source_priority priority, uint32_t first, uint32_t n);
/* The tracker grants the first `n` of what it was asked for last. */
void answer(size_t n, bool full, int64_t retry_ns);

#endif
