// SPDX-License-Identifier: Apache-2.0
/* Traces made for tests, the same ones for the same seed. */
#ifndef BOOTSEER_TESTS_UNIT_RECORDER_MAKE_H
#define BOOTSEER_TESTS_UNIT_RECORDER_MAKE_H

#include "recorder/trace.h"

/* A recording of workload "test-1" of an image whose digest is all 0x11. */
struct trace_info make_info(void);

uint32_t make_random(uint64_t *state, uint32_t below);

/* The digest that stands for block `i`. */
struct digest make_digest(uint32_t i);

/* `n` entries of about n / 4 files, some with bytes that are not text. */
struct trace *make_trace(uint64_t seed, size_t n);

/* Fails the test when anything differs; paths are compared as text. */
void expect_same(const struct trace *a, const struct trace *b);

#endif
