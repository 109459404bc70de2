// SPDX-License-Identifier: Apache-2.0
/* Durations as people say them. */
#ifndef BOOTSEER_COMMON_DURATION_H
#define BOOTSEER_COMMON_DURATION_H

#include <stdint.h>

/* "4.2 s", "42.0 s", "5 min 3 s", "2 h 5 min", "3 d 4 h" of nanoseconds, in `out`. */
#define DURATION_TEXT_MAX 32
void duration_format(int64_t ns, char out[DURATION_TEXT_MAX]);

#endif
