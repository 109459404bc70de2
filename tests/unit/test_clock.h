// SPDX-License-Identifier: Apache-2.0
/*
 * The monotonic clock of a unit test's own code, as clock_now_ns() reads it: the
 * machine's until it is held, so that nothing expires because the machine is slow.
 * Libraries keep the machine's clock: timers of the loop fire as ever, and what they
 * find is that no time has passed.
 */
#ifndef BOOTSEER_TESTS_UNIT_TEST_CLOCK_H
#define BOOTSEER_TESTS_UNIT_TEST_CLOCK_H

#include <stdint.h>

/* It stands still from now on. */
void test_clock_hold(void);
/* It stands still, `ns` later. */
void test_clock_step(int64_t ns);
/* It goes on from where it stands. */
void test_clock_run(void);

#endif
