// SPDX-License-Identifier: Apache-2.0
/* Groups saves with equal intervals, and measures how long a counter grew. */
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "profiler/ops/ops_priv.h"

/* Intervals that differ by less are equal; failures cut short single ones. */
#define LIKE 0.15
#define LIKE_MIN 3 /* so many equal intervals in a row make a configuration */
#define NORMAL_95 1.959964

static bool values_are_similar(double a, double b)
{
	return fabs(a - b) <= LIKE * fmax(a, b);
}

/* Did the job load between two saves? Then it was restarted, and their distance is no interval.
 * Without GPU data, other reads look like loads, so loads are ignored. */
static bool loads_between(const struct ops_phases *p, double from_s,
			  double to_s)
{
	size_t low = 0, high = p->gpu.is_found ? p->n_loads : 0;
	size_t n = high;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->loads[mid].begin_s < from_s)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && p->loads[low].begin_s < to_s;
}

/* The interval from save `i` to the next; NAN: the job was restarted between them. */
static double interval_at(const struct ops_phases *p, size_t i)
{
	double from_s = p->saves[i].middle_s, to_s = p->saves[i + 1].middle_s;

	return loads_between(p, from_s, to_s) ? (double)NAN : to_s - from_s;
}

/* Are the intervals from `i` on equal, so that a configuration begins? */
static bool begins_setting(const struct ops_phases *p, size_t i)
{
	if (i + LIKE_MIN >= p->n_saves)
		return false;
	for (size_t k = 1; k < LIKE_MIN; k++)
		if (!values_are_similar(interval_at(p, i),
					interval_at(p, i + k)))
			return false;
	return true;
}

static double median_of(double *v, size_t n)
{
	return ops_spread_of(v, n).median;
}

/* Fill in a setting's medians and deviation; `v` has room for all saves. */
static void measure_setting(struct ops_phases *p, size_t index, double *v)
{
	struct ops_setting *s = &p->settings[index];
	double sum = 0, squares = 0;
	size_t n = 0, first = 0, last;

	while (p->saves[first].setting != index)
		first++;
	for (last = first;
	     last + 1 < p->n_saves && p->saves[last + 1].setting == index;)
		last++;
	s->saves = last - first + 1;
	s->from_s = p->saves[first].begin_s;
	s->to_s = p->saves[last].end_s;
	for (size_t i = first; i <= last; i++)
		v[i - first] = p->saves[i].bytes;
	s->bytes = median_of(v, s->saves);
	for (size_t i = first; i <= last; i++)
		v[i - first] = p->saves[i].peak;
	s->peak = median_of(v, s->saves);
	for (size_t i = first; i < last; i++)
		if (values_are_similar(interval_at(p, i), s->interval_s))
			v[n++] = interval_at(p, i);
	s->n = n;
	s->interval_s = median_of(v, n);
	for (size_t i = 0; i < n; i++) {
		sum += v[i] - s->interval_s;
		squares += (v[i] - s->interval_s) * (v[i] - s->interval_s);
	}
	if (n > 1)
		s->sd_s = sqrt(fmax(0, (squares - sum * sum / (double)n) /
					       (double)(n - 1)));
}

int ops_find_settings(struct ops_phases *p, struct error *err)
{
	AUTO_FREE double *v = calloc(p->n_saves + 1, sizeof(*v));
	size_t cap = 0, n = 0;

	if (!v)
		return error_nomem(err);
	for (size_t i = 0; i + 1 < p->n_saves; i++) {
		double length = interval_at(p, i);
		bool is_same =
			n && values_are_similar(length,
						p->settings[n - 1].interval_s);

		if (!is_same && begins_setting(p, i)) {
			if (array_grow(&p->settings, n, &cap, 4) < 0)
				return error_nomem(err);
			for (size_t k = 0; k < LIKE_MIN; k++)
				v[k] = interval_at(p, i + k);
			p->settings[n++] = (struct ops_setting){
				.interval_s = median_of(v, LIKE_MIN)
			};
			p->n_settings = n;
		}
		if (!n)
			continue;
		/* A save after a failure belongs to the configuration, but its distance is no
		 * interval. */
		if (p->saves[i].setting == SIZE_MAX)
			p->saves[i].setting = n - 1;
		p->saves[i + 1].setting = n - 1;
	}
	for (size_t i = 0; i < n; i++)
		measure_setting(p, i, v);
	return 0;
}

static double get_burst_value(const struct ops_burst *b, int which)
{
	return which == 0   ? b->node_bytes.min
	       : which == 1 ? b->node_bytes.median
	       : which == 2 ? b->node_bytes.max
			    : b->takes_s;
}

static size_t pick_values(const struct ops_phases *p, size_t setting, int which,
			  double *v)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_saves; i++)
		if (p->saves[i].setting == setting && p->saves[i].nodes &&
		    !isnan(get_burst_value(&p->saves[i], which)))
			v[n++] = get_burst_value(&p->saves[i], which);
	return n;
}

int ops_time_settings(struct ops_phases *p, struct error *err)
{
	AUTO_FREE double *v = calloc(p->n_saves + 1, sizeof(*v));

	if (!v)
		return error_nomem(err);
	for (size_t i = 0; i < p->n_settings; i++) {
		struct ops_setting *s = &p->settings[i];

		s->node_low = median_of(v, pick_values(p, i, 0, v));
		s->node_mid = median_of(v, pick_values(p, i, 1, v));
		s->node_high = median_of(v, pick_values(p, i, 2, v));
		s->takes_s = ops_mean_of(v, pick_values(p, i, 3, v));
	}
	return 0;
}

/* An interval counts as spanned by a growth only if its part is at least this share of the whole
 * growth, and of the largest part. */
#define PART_MIN 0.05
#define PART_OF_LARGEST 0.5

static double growth_between(const struct ops_sample *a,
			     const struct ops_sample *b)
{
	return b->v >= a->v ? b->v - a->v : b->v;
}

/*
 * A growth of length L that begins at a random time touches 1 + L / s sample intervals of length s
 * in the mean. Of these, 1 + (1 - 2 part) L / s are touched for longer than `part` of L.
 */
struct ops_growth ops_find_growth(const struct ops_sample *v, size_t n)
{
	struct ops_growth g = { .bytes = 0 };
	size_t first = 0, last = 0;
	double largest = 0, part;

	for (size_t i = 1; i < n; i++) {
		double grown = growth_between(&v[i - 1], &v[i]);

		g.bytes += grown;
		largest = fmax(largest, grown);
	}
	if (!(largest > 0))
		return g;
	part = fmin(PART_MIN, PART_OF_LARGEST * largest / g.bytes);
	for (size_t i = 1; i < n; i++)
		if (growth_between(&v[i - 1], &v[i]) > part * g.bytes) {
			first = first ? first : i;
			last = i;
		}
	g.begin_s = (v[first - 1].at_s + v[first].at_s) / 2;
	g.end_s = (v[last - 1].at_s + v[last].at_s) / 2;
	if (last > first)
		g.length_s = (v[last].at_s - v[first].at_s) / (1 - 2 * part);
	return g;
}

struct ops_mean ops_mean_of(const double *v, size_t n)
{
	struct ops_mean m = { .n = n, .error = INFINITY };
	double squares = 0;

	for (size_t i = 0; i < n; i++)
		m.mean += v[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (v[i] - m.mean) * (v[i] - m.mean);
	if (n > 1)
		m.error =
			NORMAL_95 * sqrt(squares / (double)(n - 1) / (double)n);
	return m;
}
