// SPDX-License-Identifier: Apache-2.0
/* Finds nodes that large sessions ran without, and whether other sessions used them at that
 * time. */
#include <stdlib.h>
#include <string.h>

#include "profiler/ops/ops_priv.h"

/* Large sessions in the order of their begins. latest_s[i] is the latest end up to session i, which
 * tells where a search for overlapping sessions may stop. */
struct large {
	const struct ops_session **v;
	int64_t *latest_s;
	size_t n;
};

static int compare_sessions_by_begin(const void *x, const void *y)
{
	const struct ops_session *a = *(const struct ops_session *const *)x,
				 *b = *(const struct ops_session *const *)y;

	return (a->begin_s > b->begin_s) - (a->begin_s < b->begin_s);
}

static int find_large(const struct ops_set *s, const struct ops_rule *r,
		      struct large *ret, struct error *err)
{
	ret->v = calloc(s->n_sessions + 1, sizeof(const struct ops_session *));
	ret->latest_s = calloc(s->n_sessions + 1, sizeof(*ret->latest_s));
	if (!ret->v || !ret->latest_s)
		return error_nomem(err);
	for (size_t i = 0; i < s->n_sessions; i++)
		if (ops_is_of(&s->sessions[i], r) && s->sessions[i].n_nodes > 1)
			ret->v[ret->n++] = &s->sessions[i];
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(const struct ops_session *),
		      compare_sessions_by_begin);
	for (size_t i = 0; i < ret->n; i++)
		ret->latest_s[i] = i && ret->latest_s[i - 1] > ret->v[i]->end_s
					   ? ret->latest_s[i - 1]
					   : ret->v[i]->end_s;
	return 0;
}

/* Index of the first large session that begins at `at_s` or later. */
static size_t find_session_after(const struct large *l, int64_t at_s)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (l->v[mid]->begin_s < at_s)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool has_node(const struct ops_set *s, const struct ops_session *v,
		     uint32_t node)
{
	return bsearch(&node, s->places + v->first, v->n_nodes, sizeof(node),
		       ops_places_compare) != NULL;
}

/* Seconds from `begin_s` to `end_s` in which large sessions ran without a node. */
static double sum_time_without_node(const struct ops_set *s,
				    const struct large *l, uint32_t node,
				    int64_t begin_s, int64_t end_s)
{
	double held = 0;

	for (size_t i = find_session_after(l, end_s);
	     i > 0 && l->latest_s[i - 1] > begin_s; i--) {
		const struct ops_session *v = l->v[i - 1];
		int64_t from = v->begin_s > begin_s ? v->begin_s : begin_s;
		int64_t to = v->end_s < end_s ? v->end_s : end_s;

		if (to > from && !has_node(s, v, node))
			held += (double)(to - from);
	}
	return held;
}

static int compare_exclusions_by_time(const void *x, const void *y)
{
	const struct ops_exclusion *a = x, *b = y;

	if (a->excluded_s != b->excluded_s)
		return a->excluded_s < b->excluded_s ? 1 : -1;
	return (a->node > b->node) - (a->node < b->node);
}

static void fill_exclusions(const struct ops_set *s, const struct large *l,
			    struct ops_exclusions *e)
{
	e->n = s->n_nodes;
	e->sessions = l->n;
	for (size_t i = 0; i < l->n; i++)
		e->run_s += (double)ops_length(l->v[i]);
	for (size_t i = 0; i < e->n; i++)
		e->v[i] = (struct ops_exclusion){ .node = (uint32_t)i,
						  .sessions = l->n,
						  .excluded_s = e->run_s };
	for (size_t i = 0; i < l->n; i++)
		for (uint32_t k = 0; k < l->v[i]->n_nodes; k++) {
			uint32_t node = s->places[l->v[i]->first + k];

			e->v[node].sessions--;
			e->v[node].excluded_s -= (double)ops_length(l->v[i]);
		}
	for (size_t i = 0; i < s->n_sessions; i++)
		if (s->sessions[i].n_nodes == 1)
			e->v[s->places[s->sessions[i].first]].held_s +=
				sum_time_without_node(s, l,
						      s->places[s->sessions[i]
									.first],
						      s->sessions[i].begin_s,
						      s->sessions[i].end_s);
	/* Two sessions may share a node: bound the sum. */
	for (size_t i = 0; i < e->n; i++)
		if (e->v[i].held_s > e->v[i].excluded_s)
			e->v[i].held_s = e->v[i].excluded_s;
}

int ops_find_exclusions(const struct ops_set *s, const struct ops_rule *r,
			struct ops_exclusions *ret, struct error *err)
{
	struct large l = { .n = 0 };
	int rc = find_large(s, r, &l, err);

	*ret = (struct ops_exclusions){ .n = 0 };
	if (rc == 0) {
		ret->v = calloc(s->n_nodes + 1, sizeof(*ret->v));
		rc = ret->v ? 0 : error_nomem(err);
	}
	if (rc == 0) {
		fill_exclusions(s, &l, ret);
		qsort(ret->v, ret->n, sizeof(*ret->v),
		      compare_exclusions_by_time);
	}
	free(l.v);
	free(l.latest_s);
	return rc;
}

int ops_find_absences(const struct ops_set *s, const struct ops_rule *r,
		      uint32_t node, struct ops_absence **ret, size_t *ret_n,
		      struct error *err)
{
	struct ops_absence *v = calloc(s->n_sessions + 1, sizeof(*v));
	struct large l = { .n = 0 };
	bool is_absent = false;
	size_t n = 0;
	int rc = v ? find_large(s, r, &l, err) : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		bool was_absent = is_absent;

		is_absent = !has_node(s, l.v[i], node);
		if (!is_absent)
			continue;
		if (!was_absent)
			v[n++] = (struct ops_absence){ l.v[i]->begin_s,
						       l.v[i]->end_s, 0 };
		v[n - 1].sessions++;
		if (l.v[i]->end_s > v[n - 1].to_s)
			v[n - 1].to_s = l.v[i]->end_s;
	}
	free(l.v);
	free(l.latest_s);
	if (rc < 0) {
		free(v);
		return rc;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

static int compare_outages_by_node(const void *x, const void *y)
{
	const struct ops_outage *const *a = x, *const *b = y;

	return strcmp((*a)->node, (*b)->node);
}

/* Sort the outages by node name; the caller frees the array. NULL: memory is short. */
static const struct ops_outage **sort_outages(const struct ops_set *s)
{
	const struct ops_outage **v =
		calloc(s->n_outages + 1, sizeof(struct ops_outage *));

	for (size_t i = 0; v && i < s->n_outages; i++)
		v[i] = &s->outages[i];
	if (v && s->n_outages)
		qsort(v, s->n_outages, sizeof(struct ops_outage *),
		      compare_outages_by_node);
	return v;
}

static double shorter_of(double a, double b)
{
	return a < b ? a : b;
}

/* Add to `x` the time of its node's outages. `v`: all n outages, sorted by node. */
static void add_node_outages(const struct ops_set *s, const struct large *l,
			     const struct ops_outage **v, size_t n,
			     struct ops_exclusion *x)
{
	const char *name = s->nodes[x->node];
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(v[mid]->node, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < n && strcmp(v[low]->node, name) == 0; low++) {
		double t = sum_time_without_node(s, l, x->node, v[low]->from_s,
						 v[low]->to_s);

		if (v[low]->kind == OPS_CORDONED)
			x->cordoned_s += t;
		else
			x->away_s += t;
	}
	/* Outages may overlap (from two logs, say): bound the sums. */
	x->cordoned_s = shorter_of(x->cordoned_s, x->excluded_s);
	x->away_s = shorter_of(x->away_s, x->excluded_s);
}

int ops_add_outages(const struct ops_set *s, const struct ops_rule *r,
		    struct ops_exclusions *e, struct error *err)
{
	AUTO_FREE const struct ops_outage **v = sort_outages(s);
	struct large l = { .n = 0 };
	int rc = v ? find_large(s, r, &l, err) : error_nomem(err);

	for (size_t i = 0; rc == 0 && i < e->n; i++)
		add_node_outages(s, &l, v, s->n_outages, &e->v[i]);
	free(l.v);
	free(l.latest_s);
	return rc;
}

void ops_exclusions_fini(struct ops_exclusions *e)
{
	free(e->v);
	*e = (struct ops_exclusions){ .n = 0 };
}
