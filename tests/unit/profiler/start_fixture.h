// SPDX-License-Identifier: Apache-2.0
/* Events of a start that a test makes up. */
#ifndef BOOTSEER_TESTS_START_FIXTURE_H
#define BOOTSEER_TESTS_START_FIXTURE_H

#include "profiler/start_report.h"

#define S INT64_C(1000000000)

extern struct start_set *set; /* of open_set(), the test's to free */

void open_set(void);

/* An event of both clocks, which agree; `s` seconds after the start. */
void at_with(double s, const char *node, int64_t rank, const char *stage,
	     enum stage_ev ev, const uint64_t *facts);

#endif
