// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_TESTS_UNIT_PAUSE_H
#define BOOTSEER_TESTS_UNIT_PAUSE_H

#include <time.h>

/* Between two looks at what another thread does: looks without a pause cost as much
 * processor time as the wait is long. */
static inline void unit_pause(void)
{
	const struct timespec pause = { .tv_nsec = 100000 };

	(void)nanosleep(&pause, NULL);
}

#endif
