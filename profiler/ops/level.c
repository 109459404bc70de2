// SPDX-License-Identifier: Apache-2.0
/* A threshold between a series' low and high values, found from the values alone. */
#include <math.h>

#include "profiler/ops/ops_priv.h"

#define BINS 512
#define ROUNDS_MAX 100
#define RATE_DECADES 6.0 /* below the largest values; less is nothing */
#define RATE_ABOVE 1.0   /* for what is larger than these */
#define WRONG_MAX 3
#define MANY 10000
/* A group that is cut in two has its halves' means 2 to 2.5 deviations apart. */
#define APART 3.0
/* Deviations from the median: of 10^8 values of one normal group none is further. */
#define TAIL 6.0
#define MAD_TO_DEVIATION 1.4826

struct level_scale {
	bool of_rate;
	double low, high; /* of the histogram, in its unit */
};

struct level_group {
	double n, mean, deviation;
};

static double scale_value(const struct level_scale *s, double v)
{
	double x = s->of_rate ? log10(fmax(v, 1e-30)) : v;

	return fmin(fmax(x, s->low), s->high);
}

/* The largest value but for three, where there are many: single ones may be wrong. */
static double find_top(const struct ops_series *s, size_t known)
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

static double center_of(const struct level_scale *s, size_t bin)
{
	return s->low + ((double)bin + 0.5) * (s->high - s->low) / BINS;
}

static struct level_group sum_group(const double *bins, size_t from, size_t to,
				    const struct level_scale *s)
{
	double sum = 0, squares = 0;
	struct level_group g = { .n = 0 };

	for (size_t i = from; i < to; i++) {
		double x = center_of(s, i);

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

/* Bursts are rare, so that the median is one of the other values, and the median distance
 * from it says how far these spread, whatever the bursts are. */
static struct ops_level divide_noise(const double *bins,
				     const struct level_scale *s)
{
	double distances[BINS] = { 0 }, tail;
	size_t median = find_median_bin(bins), cut;
	struct level_group high;
	struct ops_level l = { .low = center_of(s, median) };

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

/* Ridler and Calvard, 1978: half-way between the means of the groups that it makes.  Both
 * groups count alike, however rare one is. */
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

/* Where most values are nothing, the upper half of the decades is divided instead: what is
 * below a 300th of the largest is as good as nothing. */
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
	scale.high = known ? find_top(s, known) : 0;
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
