// SPDX-License-Identifier: Apache-2.0
/* Waiting for what other threads do. */
#ifndef BOOTSEER_TESTS_UNIT_P2P_WAIT_H
#define BOOTSEER_TESTS_UNIT_P2P_WAIT_H

#include <criterion/criterion.h>
#include <time.h>

#include "common/clock.h"

#define WAIT_MAX_NS INT64_C(110000000000) /* it hangs */

#define wait_for(cond) \
	do { \
		const struct timespec poll_ = { .tv_nsec = 2000000 }; \
		int64_t until_ = clock_now_ns() + WAIT_MAX_NS; \
\
		while (!(cond)) { \
			cr_assert_lt(clock_now_ns(), until_, "never: %s", \
				     #cond); \
			(void)nanosleep(&poll_, NULL); \
		} \
	} while (0)

#endif
