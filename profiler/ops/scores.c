// SPDX-License-Identifier: Apache-2.0
/* Computes how far a node is from its peers, the threshold for that, and when it was first
 * exceeded. */
#include <math.h>
#include <stdlib.h>

#include "profiler/ops/scores.h"

/* For a normal distribution, the mean distance of the nearer two thirds from the median is this
 * part of the standard deviation. It is nearly as robust as the median distance, which for values
 * in whole degrees jumps between 0 and 1. */
#define NEAR_MEAN 0.447
/* Least scale: if all peers are equal, differences of a hundredth mean nothing. */
#define SCALE_SHARE 0.01
#define SCALE_MIN 1e-9
/* the largest one in so many scores shows how the tail falls */
#define TAIL_SHARE 20
#define TAIL_MIN 5u
#define TAIL_MAX 200u
#define TAIL_LEAST 0.5 /* smaller scores do not belong to a tail */
#define BEYOND 1.1

static int compare_floats(const void *x, const void *y)
{
	float a = *(const float *)x, b = *(const float *)y;

	return (a > b) - (a < b);
}

/* Hoare's selection algorithm. */
float ops_rank(float *v, size_t n, size_t k)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		float pivot = v[low + (high - low) / 2];
		size_t i = low, j = high;

		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i <= j) {
				float swap = v[i];

				v[i++] = v[j];
				v[j] = swap;
				if (j-- == 0)
					break;
			}
		}
		if (k >= i)
			low = i;
		else if (j != SIZE_MAX && k <= j)
			high = j;
		else
			break;
	}
	return v[k];
}

float ops_median(float *v, size_t n)
{
	float upper, lower;

	if (!n)
		return NAN;
	upper = ops_rank(v, n, n / 2);
	if (n % 2)
		return upper;
	lower = v[0];
	for (size_t i = 1; i < n / 2; i++)
		lower = fmaxf(lower, v[i]);
	return (lower + upper) / 2;
}

static float bound_score(double z)
{
	return (float)fmax(-(double)OPS_SCORE_MAX,
			   fmin((double)OPS_SCORE_MAX, z));
}

/* The deviation from `n` distances; changes their order. */
static double deviation_of(float *distance, size_t n)
{
	size_t near = n - n / 3;
	double sum = 0;

	(void)ops_rank(distance, n, near - 1);
	for (size_t i = 0; i < near; i++)
		sum += (double)distance[i];
	return sum / (double)near / NEAR_MEAN;
}

float ops_score_nodes(const float *v, size_t n, float *ret, float *room)
{
	size_t known = 0;
	double scale;
	float middle;

	for (size_t i = 0; i < n; i++)
		if (!isnan(v[i]))
			room[known++] = v[i];
	if (known < OPS_PEERS_MIN) {
		for (size_t i = 0; i < n; i++)
			ret[i] = NAN;
		return NAN;
	}
	middle = ops_median(room, known);
	for (size_t i = 0; i < known; i++)
		room[i] = fabsf(room[i] - middle);
	scale = fmax(deviation_of(room, known),
		     SCALE_SHARE * fabs((double)middle));
	scale = fmax(scale, SCALE_MIN);
	for (size_t i = 0; i < n; i++)
		ret[i] = isnan(v[i])
				 ? NAN
				 : bound_score(((double)v[i] - (double)middle) /
					       scale);
	return middle;
}

float ops_stayed(const float *z, float base)
{
	float least = OPS_SCORE_MAX * 2;
	float side = z[0] - base > 0 ? 1 : -1;

	for (size_t i = 0; i < OPS_STAY; i++) {
		float here = side * (z[i] - base);

		if (!(here > 0))
			return 0;
		least = fminf(least, here);
	}
	return side * least;
}

float ops_farthest(const float *z, size_t n, float base)
{
	float most = 0;

	for (size_t i = 0; i + OPS_STAY <= n; i++)
		most = fmaxf(most, fabsf(ops_stayed(z + i, base)));
	return most;
}

bool ops_find_outside(const float *z, size_t n, float base, double threshold,
		      struct ops_outside *ret)
{
	for (size_t i = 0; i + OPS_STAY <= n; i++) {
		float side = z[i] - base > 0 ? 1 : -1, most = 0;

		if (!((double)fabsf(ops_stayed(z + i, base)) >= threshold))
			continue;
		for (size_t k = i;
		     k < n && (double)(side * (z[k] - base)) >= threshold; k++)
			most = fmaxf(most, side * (z[k] - base));
		*ret = (struct ops_outside){ .first = i, .score = side * most };
		return true;
	}
	return false;
}

/* Extrapolate the tail beyond the k-th largest score as a power law, which is more cautious than
 * the tails of most metrics; its exponent is Hill's estimate (1975). */
double ops_find_threshold(float *farthest, size_t n, double chance)
{
	size_t k = n / TAIL_SHARE;
	double start, sum = 0, most, second;

	k = k < TAIL_MIN ? TAIL_MIN : k > TAIL_MAX ? TAIL_MAX : k;
	if (n < OPS_SCORES_MIN)
		return INFINITY;
	qsort(farthest, n, sizeof(*farthest), compare_floats);
	start = fmax(TAIL_LEAST, (double)farthest[n - k - 1]);
	for (size_t i = n - k; i < n; i++)
		sum += log(fmax(1, (double)farthest[i] / start));
	most = start * exp(sum / (double)k *
			   log(fmax(1, (double)k / (double)n / chance)));
	/* The threshold must also exceed the second largest score: a single window may have had an
	 * unknown fault, but two show that the metric is like that. */
	second = (double)farthest[n - 2] * BEYOND;
	most = fmax(OPS_THRESHOLD_MIN, fmax(most, second));
	return most > (double)OPS_SCORE_MAX ? INFINITY : most;
}
