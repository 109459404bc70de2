// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/profiler/start_fixture.h"

#include <criterion/criterion.h>

struct start_set *set;

void open_set(void)
{
	cr_assert_eq(start_set_new(&set, NULL), 0);
}

void at_with(double s, const char *node, int64_t rank, const char *stage,
	     enum stage_ev ev, const uint64_t *facts)
{
	const struct start_event e = {
		.stage = stage,
		.node = node,
		.rank = rank,
		.ev = ev,
		.mono_ns = (int64_t)(s * 1e9) + 50 * S,
		.ts_ns = (int64_t)(s * 1e9) + 1000 * S,
		.status = STAGE_NONE,
		.boot = 1,
		.facts = facts,
	};

	cr_assert_eq(start_set_add(set, &e, NULL), 0);
}
