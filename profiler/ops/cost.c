// SPDX-License-Identifier: Apache-2.0
/* The mean time between failures, and the cost of saves compared with that of lost work. */
#include <math.h>
#include <stdlib.h>

#include "common/compare.h"
#include "profiler/ops/ops_priv.h"

/* For more failures, the normal distribution is a good approximation. */
#define EXACT_MAX 1000
#define NORMAL_95 1.959964

/* The quantile `p` of sorted `v`, interpolated between the two nearest values. */
static double find_quantile(const double *v, size_t n, double p)
{
	double at = p * (double)(n - 1);
	size_t i = (size_t)at;

	return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[i];
}

struct ops_spread ops_spread_of(double *v, size_t n)
{
	if (!n)
		return (struct ops_spread){ .n = 0 };
	qsort(v, n, sizeof(*v), compare_doubles);
	return (struct ops_spread){ .n = n,
				    .min = v[0],
				    .p25 = find_quantile(v, n, 0.25),
				    .median = find_quantile(v, n, 0.5),
				    .p75 = find_quantile(v, n, 0.75),
				    .max = v[n - 1] };
}

/* The probability of at most `n` events where `mean` are expected. */
static double poisson_below(size_t n, double mean)
{
	double sum = 0;

	for (size_t k = 0; k <= n; k++)
		sum += exp((double)k * log(mean) - mean -
			   lgamma((double)k + 1));
	return sum;
}

/* The mean for which at most `n` events have the probability `p`, by bisection: the probability
 * falls as the mean grows. */
static double poisson_mean(size_t n, double p)
{
	double low = 1e-9, high = 2 * (double)n + 40;

	for (int i = 0; i < 100; i++) {
		double mid = (low + high) / 2;

		if (poisson_below(n, mid) > p)
			low = mid;
		else
			high = mid;
	}
	return low;
}

void ops_bound_events(size_t n, double *low, double *high)
{
	if (n > EXACT_MAX) {
		double part = NORMAL_95 * sqrt((double)n);

		*low = (double)n - part;
		*high = (double)n + part;
		return;
	}
	*low = n ? poisson_mean(n - 1, 0.975) : 0;
	*high = poisson_mean(n, 0.025);
}

void ops_find_cost(const struct ops_set *s, const struct ops_rule *r,
		   struct ops_cost *ret)
{
	double low, high;

	*ret = (struct ops_cost){ .sessions = 0 };
	for (size_t i = 0; i < s->n_sessions; i++) {
		const struct ops_session *v = &s->sessions[i];
		double length = (double)ops_length(v);

		if (!ops_is_of(v, r))
			continue;
		if (!ops_has_trained(v, r)) {
			ret->early += v->end == OPS_FAILED;
			continue;
		}
		ret->sessions++;
		ret->failed += v->end == OPS_FAILED;
		ret->run_s += length;
		ret->gpu_s += length * v->gpus;
	}
	ret->mtbf_s = ret->failed ? ret->run_s / (double)ret->failed : INFINITY;
	ops_bound_events(ret->failed, &low, &high);
	ret->low_s = ret->run_s / high;
	ret->high_s = low > 0 ? ret->run_s / low : INFINITY;
}

struct ops_share ops_share_of(double save_s, double interval_s, double mtbf_s)
{
	return (struct ops_share){ .interval_s = interval_s,
				   .save = save_s / interval_s,
				   .lost = interval_s / (2 * mtbf_s) };
}

double ops_best_interval(double save_s, double mtbf_s)
{
	return sqrt(2 * save_s * mtbf_s);
}
