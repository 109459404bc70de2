// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_PROFILER_OPS_SCORES_H
#define BOOTSEER_PROFILER_OPS_SCORES_H

#include "profiler/ops/precursors.h"

#define OPS_THRESHOLD_MIN 5.0
#define OPS_SCORES_MIN 40u /* windows of nodes; fewer tell no threshold */

/* The k-th smallest of `v`, from 0 on, which comes to its place, with none larger before it. */
float ops_rank(float *v, size_t n, size_t k);
/* `v` has none that is NAN, and is put into another order; NAN of none. */
float ops_median(float *v, size_t n);

/* The farthest score, without its side, that a node had over OPS_STAY samples in a row. */
float ops_farthest(const float *z, size_t n, float base);

/* The score that a node stayed beyond in all of OPS_STAY samples, with the sign of that side;
 * 0: they are on both sides. */
float ops_stayed(const float *z, float base);

struct ops_outside {
	size_t first;
	float score; /* the farthest, and on which side */
};

/* When a node first was outside for OPS_STAY samples. */
bool ops_find_outside(const float *z, size_t n, float base, double threshold,
		      struct ops_outside *ret);

/* Above which score a window of a healthy node has a farthest one with this chance, by
 * those of others, which are sorted.  Infinite: above what can be told. */
double ops_find_threshold(float *farthest, size_t n, double chance);

#endif
