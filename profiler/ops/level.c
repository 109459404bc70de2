// SPDX-License-Identifier: Apache-2.0
/* Finds a threshold between the low and the high values of a series, from the values alone. */
#include <math.h>

#include "profiler/ops/ops_priv.h"

#define BINS 512
#define ROUNDS_MAX 100
/* decades below the largest values; smaller rates count as zero */
#define RATE_DECADES 6.0
#define RATE_ABOVE 1.0 /* decades above, for single larger values */
#define WRONG_MAX 3
#define MANY 10000
/* Required distance of the groups, in deviations. Halves of a single group that was cut in two are
 * only 2 to 2.5 apart. */
#define APART 3.0
/* Distance from the median, in deviations, that none of 10^8 values of a normal group exceeds. */
#define TAIL 6.0
#define MAD_TO_DEVIATION 1.4826

struct level_scale {
	bool of_rate;
	double low, high; /* bounds of the histogram, in its unit */
};

struct level_group {
	double n, mean, deviation;
};

static double scale_value(const struct level_scale *s, double v)
{
	double x = s->of_rate ? log10(fmax(v, 1e-30)) : v;

	return fmin(fmax(x, s->low), s->high);
}

/* The largest value; of many values the fourth largest, because single ones may be wrong. */
static double find_largest_value(const struct ops_series *s, size_t known)
{
	double top[WRONG_MAX + 1] = { 0 }; /* falling */
	size_t rank = known < MANY ? 0 : WRONG_MAX;

	for (size_t i = 0; i < s->n; i++) {
		double v = s->v[i];
		size_t k = rank;

		if (isnan(v) || v <= top[rank])
			continue;
		for (; k > 0 && top[k - 1] < v; k--)
			top[k] = top[k - 1];
		top[k] = v;
	}
	return top[rank];
}

static double get_bin_center(const struct level_scale *s, size_t bin)
{
	return s->low + ((double)bin + 0.5) * (s->high - s->low) / BINS;
}

static struct level_group sum_group(const double *bins, size_t from, size_t to,
				    const struct level_scale *s)
{
	double sum = 0, squares = 0;
	struct level_group g = { .n = 0 };

	for (size_t i = from; i < to; i++) {
		double x = get_bin_center(s, i);

		g.n += bins[i];
		sum += bins[i] * x;
		squares += bins[i] * x * x;
	}
	if (g.n > 0) {
		g.mean = sum / g.n;
		g.deviation = sqrt(fmax(0, squares / g.n - g.mean * g.mean));
	}
	return g;
}

static size_t find_median_bin(const double *bins)
{
	double sum = 0, below = 0;
	size_t i = 0;

	for (size_t k = 0; k < BINS; k++)
		sum += bins[k];
	while (i + 1 < BINS && (below += bins[i]) < sum / 2)
		i++;
	return i;
}

/* Choose a threshold above the noise. Bursts are rare, so the median is a value outside of bursts,
 * and the median distance from it measures the spread of such values. */
static struct ops_level divide_noise(const double *bins,
				     const struct level_scale *s)
{
	double distances[BINS] = { 0 }, tail;
	size_t median = find_median_bin(bins), cut;
	struct level_group high;
	struct ops_level l = { .low = get_bin_center(s, median) };

	for (size_t i = 0; i < BINS; i++)
		distances[i > median ? i - median : median - i] += bins[i];
	tail = l.low + TAIL * MAD_TO_DEVIATION *
			       (double)find_median_bin(distances) *
			       (s->high - s->low) / BINS;
	cut = (size_t)fmin(BINS,
			   (tail - s->low) / (s->high - s->low) * BINS + 1);
	high = sum_group(bins, cut, BINS, s);
	l.is_found = high.n > 0;
	l.high = high.mean;
	l.threshold = fmax(tail, (l.low + l.high) / 2);
	return l;
}

/* Choose a threshold half-way between the means of the two groups it makes (Ridler and Calvard,
 * 1978). Both groups have the same weight, however rare one is. */
static struct ops_level divide_shares(const double *bins,
				      const struct level_scale *s)
{
	double width = (s->high - s->low) / BINS;
	struct level_group low = { .n = 0 }, high = { .n = 0 };
	size_t cut = BINS * 3 / 4;

	for (int i = 0; i < ROUNDS_MAX; i++) {
		double at;
		size_t next;

		low = sum_group(bins, 0, cut, s);
		high = sum_group(bins, cut, BINS, s);
		if (low.n == 0 || high.n == 0)
			return (struct ops_level){ .is_found = false };
		at = (low.mean + high.mean) / 2;
		next = (size_t)((at - s->low) / width + 0.5);
		if (next == cut)
			break;
		cut = next;
	}
	return (struct ops_level){
		.is_found = high.mean - low.mean >
			    APART * hypot(low.deviation, high.deviation),
		.threshold = s->low + (double)cut * width,
		.low = low.mean,
		.high = high.mean,
	};
}

/* Divide rates. If most are zero, divide only the upper half of the decades: values below a 300th
 * of the largest count as zero. */
static struct ops_level divide_rates(double *bins, const struct level_scale *s)
{
	double all = 0;

	for (size_t i = 0; i < BINS; i++)
		all += bins[i];
	if (bins[0] < all / 2) {
		bins[0] = 0;
		return divide_noise(bins, s);
	}
	for (size_t i = 0; i < BINS / 2; i++) {
		bins[BINS / 2] += bins[i];
		bins[i] = 0;
	}
	return divide_shares(bins, s);
}

struct ops_level ops_find_level(const struct ops_series *s, bool of_rate)
{
	struct level_scale scale = { .of_rate = of_rate };
	double bins[BINS] = { 0 };
	struct ops_level ret;
	size_t known = 0;

	for (size_t i = 0; i < s->n; i++)
		known += !isnan(s->v[i]);
	scale.high = known ? find_largest_value(s, known) : 0;
	if (!(scale.high > 0) || isinf(scale.high))
		return (struct ops_level){ .is_found = false };
	if (of_rate) {
		scale.high = log10(scale.high) + RATE_ABOVE;
		scale.low = scale.high - RATE_ABOVE - RATE_DECADES;
	}
	for (size_t i = 0; i < s->n; i++) {
		double part;

		if (isnan(s->v[i]))
			continue;
		part = (scale_value(&scale, s->v[i]) - scale.low) /
		       (scale.high - scale.low);
		bins[part < 1 ? (size_t)(part * BINS) : BINS - 1]++;
	}
	ret = of_rate ? divide_rates(bins, &scale)
		      : divide_shares(bins, &scale);
	if (of_rate) {
		ret.threshold = pow(10, ret.threshold);
		ret.low = pow(10, ret.low);
		ret.high = pow(10, ret.high);
	}
	return ret;
}
