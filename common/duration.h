// SPDX-License-Identifier: Apache-2.0
/* Durations as people write them. */
#ifndef BOOTSEER_COMMON_DURATION_H
#define BOOTSEER_COMMON_DURATION_H

#include <stdint.h>

/* Format nanoseconds as "4.2 s", "42.0 s", "5 min 3 s", "2 h 5 min" or "3 d 4 h". */
#define DURATION_TEXT_MAX 32
void duration_format(int64_t ns, char out[DURATION_TEXT_MAX]);

#endif
