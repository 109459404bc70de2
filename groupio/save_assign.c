// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes that keep and write each unit: docs/formats/group-save.md, "The plan".  Most bytes of
 * training with shared optimizer states are on one node alone.  They are sent to one other node
 * each, so that no node is sent much more than others are: buffering ends with the last.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "groupio/save_plan.h"

#define RUN_UNITS 4u /* units in a row have the same nodes at most */
#define RUNS_OF_NODE 16u

/* Units in a row that have the same nodes. */
struct assigned_run {
	uint64_t from, to;
	uint64_t bytes;   /* that are stored */
	uint64_t seconds; /* nodes that lack least of them, beside `first` */
	uint64_t first_lacks;  /* bytes */
	uint64_t second_lacks; /* bytes that each of `seconds` lacks */
	uint8_t first, second; /* that keep them */
};

struct assigning {
	struct save_plan *plan;
	struct assigned_run *runs;
	size_t n;
	uint64_t sent_to[SAVE_NODES_MAX], written[SAVE_NODES_MAX]; /* bytes */
};

/* Add the bytes of a run that each node lacks. */
static void count_lacks(const struct save_plan *p, const struct assigned_run *r,
			uint64_t ret[SAVE_NODES_MAX])
{
	const uint64_t from = r->from * p->unit, to = r->to * p->unit;

	for (size_t i = save_plan_find(p, from);
	     i < p->n_entries && p->entries[i].start < to; i++) {
		const struct save_entry *e = &p->entries[i];
		const uint64_t end = e->start + e->tensor->len;
		const uint64_t begin = from > e->start ? from : e->start;

		for (size_t k = 0; k < p->n_nodes && !e->is_zero; k++)
			if (!(e->holders >> k & 1))
				ret[k] += (to < end ? to : end) - begin;
	}
}

static void look_at_run(const struct save_plan *p, struct assigned_run *r)
{
	uint64_t lacks[SAVE_NODES_MAX];

	for (uint64_t u = r->from; u < r->to; u++)
		r->bytes += p->stored[u];
	memset(lacks, 0, sizeof(lacks));
	if (r->bytes)
		count_lacks(p, r, lacks);
	for (size_t i = 1; i < p->n_nodes; i++)
		if (lacks[i] < lacks[r->first])
			r->first = (uint8_t)i;
	r->first_lacks = lacks[r->first];
	r->second_lacks = UINT64_MAX;
	for (size_t i = 0; i < p->n_nodes; i++) {
		if (i == r->first || lacks[i] > r->second_lacks)
			continue;
		if (lacks[i] < r->second_lacks)
			r->seconds = 0;
		r->second_lacks = lacks[i];
		r->seconds |= UINT64_C(1) << i;
	}
}

/* Units in a row are read, and named in a manifest, in one piece; of a small file they are few, as
 * all nodes are to have some. */
static int make_runs(struct assigning *a, struct error *err)
{
	const struct save_plan *p = a->plan;
	uint64_t len = p->n_units / (RUNS_OF_NODE * p->n_nodes);

	len = len < 1 ? 1 : len > RUN_UNITS ? RUN_UNITS : len;
	a->runs = calloc(p->n_units / len + 1, sizeof(*a->runs));
	if (!a->runs)
		return error_nomem(err);
	for (uint64_t u = 0; u < p->n_units; u += len) {
		struct assigned_run *r = &a->runs[a->n++];

		r->from = u;
		r->to = u + len < p->n_units ? u + len : p->n_units;
		look_at_run(p, r);
	}
	return 0;
}

static bool is_single(uint64_t nodes)
{
	return (nodes & (nodes - 1)) == 0;
}

/* Count the bytes that each node alone has, and that may go to any other; where the rest is sent is
 * known. */
static void count_alone(struct assigning *a, uint64_t ret[SAVE_NODES_MAX])
{
	memset(ret, 0, SAVE_NODES_MAX * sizeof(*ret));
	for (size_t i = 0; i < a->n; i++) {
		struct assigned_run *r = &a->runs[i];

		a->sent_to[r->first] += r->first_lacks;
		if (!is_single(r->seconds)) {
			ret[r->first] += r->second_lacks;
			continue;
		}
		r->second = (uint8_t)__builtin_ctzll(r->seconds);
		a->sent_to[r->second] += r->second_lacks;
	}
}

/* Bytes that no node is to be sent more of. */
static uint64_t share_of_node(const struct assigning *a,
			      const uint64_t alone[SAVE_NODES_MAX])
{
	const size_t n = a->plan->n_nodes;
	uint64_t sum = 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		sum += a->sent_to[i] + alone[i];
		most = alone[i] > most ? alone[i] : most;
	}
	sum = (sum + n - 1) / n;
	/* A node keeps none of its own twice. */
	most = n > 1 ? (most + n - 2) / (n - 1) : most;
	return sum > most ? sum : most;
}

/* The first of `order` that has room for the run; where none has, that which is sent least. */
static uint8_t choose_second(const struct assigning *a,
			     const struct assigned_run *r, const uint8_t *order,
			     uint64_t share)
{
	uint8_t best = UINT8_MAX;

	for (size_t i = 0; i < a->plan->n_nodes; i++) {
		const uint8_t node = order[i];

		if (!(r->seconds >> node & 1))
			continue;
		if (a->sent_to[node] + r->second_lacks / 2 <= share)
			return node;
		if (best == UINT8_MAX || a->sent_to[node] < a->sent_to[best])
			best = node;
	}
	return best;
}

/* Copies of bytes that one node alone has.  Nodes are filled up one after the other, each with what
 * lies in a row: in the order of what they have alone, most first, from the second one on, with
 * what the first one has, then the second one, and so on.  So a node's turn comes before its own
 * bytes', and no node is left with room for its own alone. */
static void spread_copies(struct assigning *a)
{
	const size_t n = a->plan->n_nodes;
	uint64_t alone[SAVE_NODES_MAX], share;
	uint8_t order[SAVE_NODES_MAX + 1];

	count_alone(a, alone);
	share = share_of_node(a, alone);
	for (size_t i = 0; i < n; i++) {
		size_t at = i;

		for (; at && alone[order[at - 1]] < alone[i]; at--)
			order[at] = order[at - 1];
		order[at] = (uint8_t)i;
	}
	order[n] = order[0];
	for (size_t k = 0; k < n; k++)
		for (size_t i = 0; i < a->n && alone[order[k]]; i++) {
			struct assigned_run *r = &a->runs[i];

			if (r->first != order[k] || is_single(r->seconds) ||
			    !r->second_lacks)
				continue;
			r->second = choose_second(a, r, order + 1, share);
			a->sent_to[r->second] += r->second_lacks;
		}
}

/* Bytes that several nodes have are kept by the two that write least. */
static void choose_holders(const struct assigning *a, struct assigned_run *r)
{
	uint64_t left = r->seconds | UINT64_C(1) << r->first;
	uint8_t *const ret[] = { &r->first, &r->second };

	for (size_t k = 0; k < 2; k++) {
		uint8_t best = (uint8_t)__builtin_ctzll(left);

		for (uint8_t i = best; i < a->plan->n_nodes; i++)
			if (left >> i & 1 && a->written[i] < a->written[best])
				best = i;
		*ret[k] = best;
		left &= ~(UINT64_C(1) << best);
	}
}

/* The keeper with less to write writes a run; runs that several nodes have are the last. */
static void choose_writers(struct assigning *a, bool is_free)
{
	struct save_plan *p = a->plan;

	for (size_t i = 0; i < a->n; i++) {
		struct assigned_run *r = &a->runs[i];
		struct save_unit by;

		if (!r->second_lacks != is_free)
			continue;
		if (is_free)
			choose_holders(a, r);
		by = a->written[r->second] < a->written[r->first]
			     ? (struct save_unit){ r->second, r->first }
			     : (struct save_unit){ r->first, r->second };
		a->written[by.writer] += r->bytes;
		for (uint64_t u = r->from; u < r->to; u++)
			p->units[u] = by;
	}
}

int save_plan_assign(struct save_plan *p, struct error *err)
{
	struct assigning a = { .plan = p };
	const int rc = p->n_nodes > 1 ? make_runs(&a, err) : 0;

	/* A node alone, 0, keeps and writes all. */
	if (rc == 0) {
		spread_copies(&a);
		choose_writers(&a, false);
		choose_writers(&a, true);
	}
	free(a.runs);
	return rc;
}
