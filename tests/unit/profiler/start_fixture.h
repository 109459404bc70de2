// SPDX-License-Identifier: Apache-2.0
/* Helpers to make events of a start for tests. */
#ifndef BOOTSEER_TESTS_START_FIXTURE_H
#define BOOTSEER_TESTS_START_FIXTURE_H

#include "profiler/start_report.h"

#define S INT64_C(1000000000)

extern struct start_set *set; /* made by open_set(); the test frees it */

void open_set(void);

/* Add an event with both clocks, which agree, `s` seconds after the start's begin. */
void at_with(double s, const char *node, int64_t rank, const char *stage,
	     enum stage_ev ev, const uint64_t *facts);

#endif
