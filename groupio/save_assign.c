// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses the nodes that keep and write each unit: docs/formats/group-save.md, "The plan". With
 * sharded optimizer states, most bytes are on one node only, and a copy goes to a second one. No
 * node should receive much more than others: buffering ends when the last node has its copies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "groupio/save_plan.h"

#define RUN_UNITS 4u /* longest run of units with the same nodes */
#define RUNS_OF_NODE 16u

/* A run of neighbouring units that the same nodes keep. */
struct assigned_run {
	uint64_t from, to;
	uint64_t bytes; /* bytes of the run that are stored */
	/* bit mask of the nodes, other than `first`, that lack the fewest bytes */
	uint64_t seconds;
	uint64_t first_lacks;  /* bytes */
	uint64_t second_lacks; /* bytes that each of `seconds` lacks */
	uint8_t first, second; /* the two nodes that keep the run */
};

struct assigning {
	struct save_plan *plan;
	struct assigned_run *runs;
	size_t n;
	uint64_t sent_to[SAVE_NODES_MAX], written[SAVE_NODES_MAX]; /* bytes */
};

/* Add to `ret` the bytes of a run that each node lacks. */
static void count_bytes_nodes_lack(const struct save_plan *p,
				   const struct assigned_run *r,
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

static void measure_run(const struct save_plan *p, struct assigned_run *r)
{
	uint64_t lacks[SAVE_NODES_MAX];

	for (uint64_t u = r->from; u < r->to; u++)
		r->bytes += p->stored[u];
	memset(lacks, 0, sizeof(lacks));
	if (r->bytes)
		count_bytes_nodes_lack(p, r, lacks);
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

/* Group the units into runs: a run is read in one piece and named as one in a manifest. Runs
 * of a small file are short, so that all nodes get some. */
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
		measure_run(p, r);
	}
	return 0;
}

static bool is_at_most_one_node(uint64_t nodes)
{
	return (nodes & (nodes - 1)) == 0;
}

/* Choose the second node of runs where only one node qualifies. For the others, count in
 * `ret` the bytes that a node alone has and that may go to any other. */
static void choose_only_seconds_and_count(struct assigning *a,
					  uint64_t ret[SAVE_NODES_MAX])
{
	memset(ret, 0, SAVE_NODES_MAX * sizeof(*ret));
	for (size_t i = 0; i < a->n; i++) {
		struct assigned_run *r = &a->runs[i];

		a->sent_to[r->first] += r->first_lacks;
		if (!is_at_most_one_node(r->seconds)) {
			ret[r->first] += r->second_lacks;
			continue;
		}
		r->second = (uint8_t)__builtin_ctzll(r->seconds);
		a->sent_to[r->second] += r->second_lacks;
	}
}

/* Bytes that a node should receive at most. */
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
	/* The node with the most bytes of its own cannot take a copy of them, so the others
	 * must. */
	most = n > 1 ? (most + n - 2) / (n - 1) : most;
	return sum > most ? sum : most;
}

/* The first node of `order` that has room for the run, else the node that receives least. */
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

/* Choose the nodes for copies of bytes that only one node has. Nodes are sorted by the bytes
 * that they alone have, most first. The contents of the first are given to the second until its
 * share is full, then to the third, and so on; then those of the second, ... So a node is
 * mostly full before its own contents are placed, and no node is left with room for nothing but
 * its own. */
static void assign_copies_evenly(struct assigning *a)
{
	const size_t n = a->plan->n_nodes;
	uint64_t alone[SAVE_NODES_MAX], share;
	uint8_t order[SAVE_NODES_MAX + 1];

	choose_only_seconds_and_count(a, alone);
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

			if (r->first != order[k] ||
			    is_at_most_one_node(r->seconds) || !r->second_lacks)
				continue;
			r->second = choose_second(a, r, order + 1, share);
			a->sent_to[r->second] += r->second_lacks;
		}
}

/* Choose the nodes that keep a run which several nodes have: the two that write least. */
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

/* Choose the writer of each run: the keeper that has less to write. Runs that several nodes
 * have (`is_free`) come last, since they can even out the rest. */
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

	/* With one node, units keep node 0 as writer and keeper. */
	if (rc == 0) {
		assign_copies_evenly(&a);
		choose_writers(&a, false);
		choose_writers(&a, true);
	}
	free(a.runs);
	return rc;
}
