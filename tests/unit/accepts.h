// SPDX-License-Identifier: Apache-2.0
/*
 * Descriptors run out, and each accept4(2) that finds none is counted.  For programs
 * that are linked with accepts_args, which has their calls of it come here.
 */
#ifndef BOOTSEER_TESTS_UNIT_ACCEPTS_H
#define BOOTSEER_TESTS_UNIT_ACCEPTS_H

#include <stdatomic.h>

extern atomic_int accepts_starved;

/* From now on no descriptor can be made, until accepts_feed(). */
void accepts_starve(void);
void accepts_feed(void);

#endif
