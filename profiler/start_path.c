// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the critical path backwards from the last run to end. The step before a run is the run that
 * the same node did directly before it, or else the run that ended last on any node, which is what
 * the node waited for.
 */
#include <errno.h>

#include "profiler/start_priv.h"

/* Precision of aligning the clocks of two nodes. */
#define SLACK_NS INT64_C(100000000)
/* Bounds on the cost, since events come from untrusted nodes; real paths have tens of steps. */
#define LOOKS_MAX 10000u /* runs examined for one step */
#define STEPS_MAX 1000u

static bool run_is_work(const struct start_run *run)
{
	return run->is_top && !run->is_open && !run->is_wait;
}

static int compare_runs_by_end(const void *x, const void *y, void *arg)
{
	const struct start_run *runs = arg;
	const struct start_run *a = &runs[*(const uint32_t *)x],
			       *b = &runs[*(const uint32_t *)y];

	return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

/* Number of runs that ended at or before `at_ns`; `order` sorts them by end. */
static size_t count_runs_ended_by(const struct start_report *r,
				  const uint32_t *order, size_t n,
				  int64_t at_ns)
{
	size_t lo = 0;

	while (lo < n) {
		size_t mid = lo + (n - lo) / 2;

		if (r->runs[order[mid]].end_ns <= at_ns)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

/*
 * Find the step before `run`; `*ret` is its index in `order`. It must begin before `run`, so that
 * the path comes to an end.
 */
static bool find_before(const struct start_report *r, const uint32_t *order,
			size_t n, const struct start_run *run, size_t *ret)
{
	size_t last =
		count_runs_ended_by(r, order, n, run->begin_ns + SLACK_NS);
	bool is_found = false;

	for (size_t i = last; i > 0 && last - i < LOOKS_MAX; i--) {
		const struct start_run *b = &r->runs[order[i - 1]];

		if (is_found && b->end_ns < run->begin_ns - SLACK_NS)
			break;
		if (b->begin_ns >= run->begin_ns)
			continue;
		if (b->node == run->node || !is_found) {
			*ret = i - 1;
			is_found = true;
		}
		if (b->node == run->node)
			break;
	}
	return is_found;
}

static void reverse_path(struct start_report *r)
{
	for (size_t i = 0, k = r->n_path; i + 1 < k; i++, k--) {
		struct start_step s = r->path[i];

		r->path[i] = r->path[k - 1];
		r->path[k - 1] = s;
	}
	for (size_t i = 0; i < r->n_path; i++) {
		int64_t since =
			i ? r->runs[r->path[i - 1].run].end_ns : r->begin_ns;
		int64_t gap = r->runs[r->path[i].run].begin_ns - since;

		r->path[i].gap_ns = gap > 0 ? gap : 0;
	}
}

int start_find_path(struct start_report *r)
{
	AUTO_FREE uint32_t *order = calloc(r->n_runs + 1, sizeof(*order));
	size_t n = 0, at;

	r->path = calloc(r->n_runs + 1, sizeof(*r->path));
	if (!order || !r->path)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_runs; i++)
		if (run_is_work(&r->runs[i]))
			order[n++] = (uint32_t)i;
	if (!n)
		return 0;
	qsort_r(order, n, sizeof(*order), compare_runs_by_end, r->runs);
	at = n - 1;
	do {
		r->path[r->n_path++].run = order[at];
	} while (r->n_path < STEPS_MAX &&
		 find_before(r, order, n, &r->runs[order[at]], &at));
	reverse_path(r);
	return 0;
}
