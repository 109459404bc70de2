// SPDX-License-Identifier: Apache-2.0
/* One tracker, a clock, and room for a call and its answer. */
#ifndef BOOTSEER_TESTS_UNIT_P2P_TRACKER_BENCH_H
#define BOOTSEER_TESTS_UNIT_P2P_TRACKER_BENCH_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/tracker/tracker.h"

#define MS ((int64_t)1000000)
#define SECOND (1000 * MS)
#define PIECES 1000u

struct bench {
	struct tracker *t;
	int64_t now;
	uint32_t want[TRACKER_PIECES_MAX], bytes[TRACKER_PIECES_MAX];
	struct tracker_call c;
	struct tracker_answer a;
	char node[32], addr[32];
};

/* Of the test that runs: each one has a process of its own. */
extern struct bench b;

void begin(const struct tracker_config *cfg);
void begin_default(void);
void end(void);

/* The next call is of node `n`, in a zone, for image number `image`. */
struct tracker_call *from(unsigned int n, const char *zone, unsigned int image);
/* Wants pieces [first, first + n) of `bytes` each. */
void wants(uint32_t first, uint32_t n, uint32_t bytes);
/* The tracker hears the call. */
void hear(void);
bool is_granted(uint32_t piece);
/* Of the call that is prepared: these were read, or were not. */
void report(bool done, const uint32_t *pieces, size_t n);

#endif
