// SPDX-License-Identifier: Apache-2.0
/* Chooses windows of time before failures and without any, and stores a metric's values over
 * them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/error.h"
#include "profiler/ops/precursors.h"

static bool is_near_failure(int64_t begin_s, int64_t length_s,
			    const struct ops_failure *f, size_t n)
{
	/* Keep a window's length of distance after a failure: recovery may change the node's
	 * metrics. */
	for (size_t i = 0; i < n; i++)
		if (f[i].at_s > (double)(begin_s - length_s) &&
		    f[i].at_s < (double)(begin_s + 2 * length_s))
			return true;
	return false;
}

int ops_choose_windows(int64_t from_s, int64_t to_s, uint32_t step_s,
		       int64_t before_s, const struct ops_failure *f, size_t n,
		       struct ops_windows *ret, struct error *err)
{
	struct ops_windows w = { .step_s = step_s,
				 .n_before = (size_t)(before_s / step_s) };
	int64_t length_s;
	size_t slots, n_free = 0;
	AUTO_FREE int64_t *free_s = NULL;

	w.n = w.n_before + OPS_AFTER;
	length_s = (int64_t)w.n * step_s;
	slots = to_s > from_s ? (size_t)((to_s - from_s) / length_s) : 0;
	free_s = calloc(slots + 1, sizeof(*free_s));
	if (!free_s)
		return error_nomem(err);
	for (size_t i = 0; i < slots; i++) {
		int64_t begin_s = from_s + (int64_t)i * length_s;

		if (!is_near_failure(begin_s, length_s, f, n))
			free_s[n_free++] = begin_s;
	}
	if (n_free < OPS_REST_MIN)
		return error_set(err, ENODATA,
				 "less than %u times %.1f h without a failure: "
				 "how far healthy nodes go is not known; ask "
				 "for more days",
				 OPS_REST_MIN, (double)length_s / 3600);
	w.n_rest = n_free < OPS_REST_MAX ? n_free : OPS_REST_MAX;
	w.n_all = w.n_rest + n;
	w.v = calloc(w.n_all, sizeof(*w.v));
	if (!w.v)
		return error_nomem(err);
	for (size_t i = 0; i < w.n_rest; i++)
		w.v[i] = (struct ops_window){
			.begin_s =
				free_s[(2 * i + 1) * n_free / (2 * w.n_rest)],
			.failure = SIZE_MAX,
		};
	/* Sample n_before is the first at or after the failure. */
	for (size_t i = 0; i < n; i++)
		w.v[w.n_rest + i] = (struct ops_window){
			.begin_s = (int64_t)ceil(f[i].at_s) -
				   (int64_t)w.n_before * step_s,
			.failure = i,
		};
	*ret = w;
	return 0;
}

void ops_windows_fini(struct ops_windows *w)
{
	free(w->v);
	w->v = NULL;
}

int ops_panel_row(struct ops_panel *p, uint32_t node, size_t window,
		  float **ret, struct error *err)
{
	size_t n = p->windows->n_all * p->windows->n;

	if (node >= OPS_PEERS_MAX)
		return error_set(err, E2BIG, "more than %u nodes",
				 OPS_PEERS_MAX);
	if (!p->rows[node]) {
		if (p->bytes + n * sizeof(float) > OPS_PANEL_MAX)
			return error_set(err, E2BIG,
					 "samples of more than %zu nodes over "
					 "%zu windows are too many",
					 p->n_nodes, p->windows->n_all);
		p->rows[node] = malloc(n * sizeof(float));
		if (!p->rows[node])
			return error_nomem(err);
		for (size_t i = 0; i < n; i++)
			p->rows[node][i] = NAN;
		p->bytes += n * sizeof(float);
		if (node >= p->n_nodes)
			p->n_nodes = node + 1;
	}
	*ret = p->rows[node] + window * p->windows->n;
	return 0;
}

void ops_panel_fini(struct ops_panel *p)
{
	for (size_t i = 0; i < p->n_nodes; i++) {
		free(p->rows[i]);
		p->rows[i] = NULL;
	}
	p->n_nodes = 0;
	p->bytes = 0;
}
