// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_PROFILER_OPS_SCORES_H
#define BOOTSEER_PROFILER_OPS_SCORES_H

#include "profiler/ops/precursors.h"

#define OPS_THRESHOLD_MIN 5.0
#define OPS_SCORES_MIN 40u /* windows of nodes needed to find a threshold */

/* The k-th smallest of `v`, counted from 0. Reorders `v` so that it is at index k, with no larger
 * value before it. */
float ops_rank(float *v, size_t n, size_t k);
/* The median of `v`, which must contain no NAN; reorders `v`. NAN if n is 0. */
float ops_median(float *v, size_t n);

/* The farthest absolute score that a node held over OPS_STAY samples in a row. */
float ops_farthest(const float *z, size_t n, float base);

/* The score that a node stayed beyond in all of OPS_STAY samples, with the sign of its side; 0: the
 * samples are on both sides. */
float ops_stayed(const float *z, float base);

struct ops_outside {
	size_t first;
	float score; /* farthest score; the sign is the side */
};

/* Find when a node was first outside for OPS_STAY samples; false: never. */
bool ops_find_outside(const float *z, size_t n, float base, double threshold,
		      struct ops_outside *ret);

/* The score that a window of a healthy node exceeds with probability `chance`, from the scores of
 * such windows, which are sorted. Infinite: cannot be determined. */
double ops_find_threshold(float *farthest, size_t n, double chance);

#endif
