// SPDX-License-Identifier: Apache-2.0
/* Finds chains of sessions, in which each is a retry of the one before that failed. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "profiler/ops/ops_priv.h"

/* After so many attempts with the same end, further ones teach nothing new. */
#define ALIKE_ENOUGH 3

/* A growing array of values, to compute their spread. */
struct ops_values {
	double *v;
	size_t n, cap;
};

static int add_value(struct ops_values *a, double v, struct error *err)
{
	if (array_grow(&a->v, a->n, &a->cap, 64) < 0)
		return error_nomem(err);
	a->v[a->n++] = v;
	return 0;
}

static bool is_same_job(const struct ops_session *a,
			const struct ops_session *b)
{
	return strcmp(a->job, b->job) == 0;
}

static bool is_retry(const struct ops_session *before,
		     const struct ops_session *s)
{
	if (before->end != OPS_FAILED && before->end != OPS_REQUEUED)
		return false;
	if (strcmp(before->user, s->user) != 0 ||
	    strcmp(before->name, s->name) != 0)
		return false;
	/* Tasks of an array share a name, but are no retries of each other. */
	if ((strchr(before->job, '_') || strchr(s->job, '_')) &&
	    !is_same_job(before, s))
		return false;
	return s->begin_s >= before->end_s &&
	       s->begin_s - before->end_s <= OPS_GAP_MAX_S;
}

static bool have_same_end(const struct ops_session *a,
			  const struct ops_session *b)
{
	return strcmp(a->state, b->state) == 0 && strcmp(a->exit, b->exit) == 0;
}

/* Find the longest run of attempts with the same end, and the time that those past the third
 * took. */
static void count_alike_failures(const struct ops_set *s,
				 const struct ops_rule *r, struct ops_chain *c)
{
	double node_s = 0, gpu_s = 0;
	size_t n = 0;

	for (size_t i = c->first; i < c->first + c->n; i++) {
		const struct ops_session *v = &s->sessions[i];

		if (v->end == OPS_RUNS || ops_has_trained(v, r)) {
			n = 0;
			continue;
		}
		if (n == 0 || !have_same_end(v, v - 1)) {
			n = 0;
			node_s = gpu_s = 0;
		}
		if (++n > ALIKE_ENOUGH) {
			node_s += (double)ops_length(v) * v->n_nodes;
			gpu_s += (double)ops_length(v) * v->gpus;
		}
		if (n > c->alike) {
			c->alike = n;
			c->alike_last = i;
			c->alike_node_s = node_s;
			c->alike_gpu_s = gpu_s;
		}
	}
}

/* Fill in a chain's outcome, and the node time of its attempts that did not train. */
static void judge_chain(const struct ops_set *s, const struct ops_rule *r,
			struct ops_chain *c)
{
	const struct ops_session *v = &s->sessions[c->first];

	c->outcome = v[c->n - 1].end == OPS_RUNS ? OPS_GOES_ON : OPS_GIVEN_UP;
	for (size_t i = 0; i < c->n; i++) {
		bool trained = ops_has_trained(&v[i], r);

		if (i && is_same_job(&v[i - 1], &v[i]))
			c->automatic++;
		if (!trained && v[i].end != OPS_RUNS) {
			c->wasted_node_s +=
				(double)ops_length(&v[i]) * v[i].n_nodes;
			c->wasted_gpu_s +=
				(double)ops_length(&v[i]) * v[i].gpus;
		}
		if (i && trained)
			c->outcome = OPS_RECOVERED;
	}
	count_alike_failures(s, r, c);
}

static int compare_chains_by_waste(const void *x, const void *y)
{
	const struct ops_chain *a = x, *b = y;

	if (a->wasted_node_s != b->wasted_node_s)
		return a->wasted_node_s < b->wasted_node_s ? 1 : -1;
	return (a->first > b->first) - (a->first < b->first);
}

static int add_chain(struct ops_chains *c, size_t *cap,
		     const struct ops_chain *chain, struct error *err)
{
	if (array_grow(&c->v, c->n, cap, 64) < 0)
		return error_nomem(err);
	c->v[c->n++] = *chain;
	c->attempts += chain->n;
	c->recovered += chain->outcome == OPS_RECOVERED;
	c->wasted_node_s += chain->wasted_node_s;
	c->wasted_gpu_s += chain->wasted_gpu_s;
	return 0;
}

/* Add a chain's gaps and down times. Index 0: retries by the scheduler; 1: all others. */
static int measure_chain(const struct ops_set *s, const struct ops_rule *r,
			 const struct ops_chain *c, struct ops_values gaps[2],
			 struct ops_values downs[2], struct error *err)
{
	const struct ops_session *v = &s->sessions[c->first];
	/* a retry since `from` was not the scheduler's */
	bool by_others = false;
	/* the last attempt that trained; the first one if none did */
	size_t from = 0;
	int rc = 0;

	for (size_t i = 1; rc == 0 && i < c->n; i++) {
		bool is_other = !is_same_job(&v[i - 1], &v[i]);

		by_others = by_others || is_other;
		rc = add_value(&gaps[is_other],
			       (double)(v[i].begin_s - v[i - 1].end_s), err);
		if (rc < 0 || !ops_has_trained(&v[i], r))
			continue;
		rc = add_value(&downs[by_others],
			       (double)(v[i].begin_s - v[from].end_s), err);
		by_others = false;
		from = i;
	}
	return rc;
}

static int collect_chains(const struct ops_set *s, const struct ops_rule *r,
			  struct ops_chains *ret, struct ops_values gaps[2],
			  struct ops_values downs[2], struct error *err)
{
	size_t cap = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n_sessions;) {
		struct ops_chain c = { .first = i, .n = 1 };

		if (!ops_is_of(&s->sessions[i], r)) {
			i++;
			continue;
		}
		while (i + c.n < s->n_sessions &&
		       ops_is_of(&s->sessions[i + c.n], r) &&
		       is_retry(&s->sessions[i + c.n - 1],
				&s->sessions[i + c.n]))
			c.n++;
		i += c.n;
		if (c.n < 2)
			continue;
		judge_chain(s, r, &c);
		rc = add_chain(ret, &cap, &c, err);
		if (rc == 0)
			rc = measure_chain(s, r, &c, gaps, downs, err);
	}
	return rc;
}

int ops_find_chains(const struct ops_set *s, const struct ops_rule *r,
		    struct ops_chains *ret, struct error *err)
{
	struct ops_values gaps[2] = { { .n = 0 } }, downs[2] = { { .n = 0 } };
	int rc;

	*ret = (struct ops_chains){ .n = 0 };
	rc = collect_chains(s, r, ret, gaps, downs, err);
	if (rc == 0) {
		ret->gap_automatic_s = ops_spread_of(gaps[0].v, gaps[0].n);
		ret->gap_other_s = ops_spread_of(gaps[1].v, gaps[1].n);
		ret->down_automatic_s = ops_spread_of(downs[0].v, downs[0].n);
		ret->down_other_s = ops_spread_of(downs[1].v, downs[1].n);
		if (ret->n)
			qsort(ret->v, ret->n, sizeof(*ret->v),
			      compare_chains_by_waste);
	}
	for (size_t i = 0; i < 2; i++) {
		free(gaps[i].v);
		free(downs[i].v);
	}
	if (rc < 0)
		ops_chains_fini(ret);
	return rc;
}

void ops_chains_fini(struct ops_chains *c)
{
	free(c->v);
	*c = (struct ops_chains){ .n = 0 };
}
