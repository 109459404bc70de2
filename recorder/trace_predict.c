// SPDX-License-Identifier: Apache-2.0
/*
 * Merges starts of other images into one trace, from which predict.c chooses the part that
 * applies to an image. The entries of all donors are sorted by path and block, and those with
 * the same path and block become one.
 */
#include <errno.h>
#include <string.h>

#include "common/compare.h"
#include "recorder/trace_priv.h"

struct donor_entry {
	const struct trace_entry *entry;
	uint32_t donor, owner;
};

/* An entry of the prediction, with its rank. */
struct predicted_entry {
	struct trace_entry entry;
	uint64_t readers; /* bit mask of donors that read the path */
	/* rank: own start or not, then number of owners, then number of own donors */
	uint32_t weight;
};

struct prediction {
	const struct trace_donor *donors;
	struct donor_entry *refs; /* sorted by path, block, owner */
	size_t n_refs;
	struct predicted_entry *groups;
	size_t n_groups;
};

static void prediction_fini(struct prediction *p)
{
	free(p->refs);
	free(p->groups);
}

static int compare_trace_content(const struct trace_entry *a,
				 const struct trace_entry *b)
{
	int c = strcmp(a->path, b->path);

	return c ? c : memcmp(a->block.b, b->block.b, DIGEST_SIZE);
}

static int compare_donors_by_content(const void *a, const void *b)
{
	const struct donor_entry *x = a, *y = b;
	int c = compare_trace_content(x->entry, y->entry);

	c = c ? c : ORDER(x->owner, y->owner);
	c = c ? c : ORDER(x->donor, y->donor);
	return c ? c : ORDER(x->entry->off, y->entry->off);
}

static int compare_predicted_by_weight(const void *a, const void *b)
{
	const struct predicted_entry *x = a, *y = b;
	int c = ORDER(y->weight, x->weight);

	return c ? c : compare_trace_content(&x->entry, &y->entry);
}

static int compare_predicted_by_time(const void *a, const void *b)
{
	const struct predicted_entry *x = a, *y = b;
	int c = ORDER(x->entry.at_ms, y->entry.at_ms);

	return c ? c : compare_trace_content(&x->entry, &y->entry);
}

static void unite_ranges(struct trace_entry *e, const struct trace_entry *x)
{
	uint64_t off = x->off < e->off ? x->off : e->off;
	uint64_t end = x->off + x->len > e->off + e->len ? x->off + x->len
							 : e->off + e->len;

	if (end - off > TRACE_BLOCK_MAX)
		return;
	e->off = off;
	e->len = (uint32_t)(end - off);
	e->at_ms = x->at_ms < e->at_ms ? x->at_ms : e->at_ms;
}

/* Unite what the starts of one owner read of a path and block; the `n` refs are of that
 * owner. Uses either the requester's own starts or the others. */
static bool unite_reads_of_owner(const struct prediction *p,
				 const struct donor_entry *r, size_t n,
				 bool are_own, struct trace_entry *ret)
{
	bool has_any = false;

	for (size_t i = 0; i < n; i++) {
		if (p->donors[r[i].donor].is_own != are_own)
			continue;
		if (has_any)
			unite_ranges(ret, r[i].entry);
		else
			*ret = *r[i].entry;
		has_any = true;
	}
	return has_any;
}

/* Find the range of a path and block. What the starts of one owner read is united; of
 * several owners the shortest range counts, so that none can enlarge it. Starts that the
 * requester may see decide if they have the entry. Returns the set of owners. */
static uint32_t find_range(const struct prediction *p,
			   const struct donor_entry *r, size_t n, bool is_own,
			   struct trace_entry *ret)
{
	struct trace_entry e;
	uint32_t owners = 0;
	bool has_any = false;
	size_t from = 0, to;

	for (; from < n; from = to, owners++) {
		for (to = from + 1; to < n && r[to].owner == r[from].owner;
		     to++)
			;
		if (!unite_reads_of_owner(p, r + from, to - from, is_own, &e))
			continue;
		if (!has_any || e.len < ret->len)
			*ret = e;
		has_any = true;
	}
	return owners;
}

/* Make an entry of the `n` refs at `r`, if the requester may learn of it. */
static void add_group(struct prediction *p, const struct donor_entry *r,
		      size_t n, uint32_t owners_min)
{
	struct predicted_entry g = { .readers = 0 };
	uint64_t own = 0, strangers = 0;

	for (size_t i = 0; i < n; i++)
		if (p->donors[r[i].donor].is_own)
			own |= UINT64_C(1) << r[i].donor;
		else
			strangers |= UINT64_C(1) << r[i].owner;
	if (!own && (uint32_t)__builtin_popcountll(strangers) < owners_min)
		return;
	g.weight = find_range(p, r, n, own, &g.entry) << 8;
	g.weight |= (own ? 1u << 16 : 0) | (uint32_t)__builtin_popcountll(own);
	p->groups[p->n_groups++] = g;
}

/* The donors, among the `n` refs of one path, that may be revealed: the requester's own, and
 * others if they belong to enough owners, since a path could otherwise reveal who has it. */
static uint64_t get_shown_readers(const struct prediction *p,
				  const struct donor_entry *r, size_t n,
				  uint32_t owners_min)
{
	uint64_t own = 0, strangers = 0, owners = 0;

	for (size_t i = 0; i < n; i++) {
		const struct trace_donor *d = &p->donors[r[i].donor];
		uint64_t bit = UINT64_C(1) << r[i].donor;

		own |= d->is_own ? bit : 0;
		strangers |= d->is_own ? 0 : bit;
		owners |= d->is_own ? 0 : UINT64_C(1) << d->owner;
	}
	return (uint32_t)__builtin_popcountll(owners) >= owners_min
		       ? own | strangers
		       : own;
}

/* Add the entries of one path, which the `n` refs are of. Its readers include those of any
 * of its blocks, since another version of a file has other blocks. */
static void add_path(struct prediction *p, const struct donor_entry *r,
		     size_t n, uint32_t owners_min)
{
	size_t first = p->n_groups, from = 0, to;
	uint64_t readers = get_shown_readers(p, r, n, owners_min);

	for (; from < n; from = to) {
		for (to = from + 1;
		     to < n &&
		     digest_equal(&r[from].entry->block, &r[to].entry->block);
		     to++)
			;
		add_group(p, r + from, to - from, owners_min);
	}
	for (; first < p->n_groups; first++)
		p->groups[first].readers = readers;
}

static int gather_entries(struct prediction *p, size_t n_donors,
			  struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < n_donors; i++) {
		if (p->donors[i].owner >= PREDICTION_OWNERS_MAX)
			return error_set(err, EINVAL, "too many owners");
		n += p->donors[i].trace->n;
	}
	if (n_donors > PREDICTION_DONORS_MAX)
		return error_set(err, EINVAL, "too many starts at once");
	if (n > TRACE_MERGE_MAX)
		return error_set(err, EFBIG,
				 "the starts have too many entries");
	p->refs = calloc(n + 1, sizeof(*p->refs));
	p->groups = calloc(n + 1, sizeof(*p->groups));
	if (!p->refs || !p->groups)
		return error_nomem(err);
	for (uint32_t i = 0; i < n_donors; i++) {
		const struct trace *t = p->donors[i].trace;

		for (size_t k = 0; k < t->n; k++)
			if (t->entries[k].confidence >= TRACE_HOT)
				p->refs[p->n_refs++] = (struct donor_entry){
					&t->entries[k], i, p->donors[i].owner
				};
	}
	return 0;
}

static int build_predicted(const struct prediction *p, struct trace **ret,
			   struct error *err)
{
	static char none[] = "", name[] = "predicted";
	const struct trace_info info = { .repo = none,
					 .workload = name,
					 .runs = 1 };
	AUTO_FREE uint64_t *readers = calloc(p->n_groups + 1, sizeof(*readers));
	struct trace_builder *b;
	int rc = readers ? trace_builder_new(&info, &b, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < p->n_groups && rc == 0; i++) {
		struct trace_entry e = p->groups[i].entry;

		e.confidence = TRACE_CERTAIN;
		readers[i] = p->groups[i].readers;
		rc = trace_builder_add(b, &e, err);
	}
	if (rc < 0) {
		trace_builder_free(b);
		return rc;
	}
	rc = trace_builder_finish(b, ret, err);
	if (rc == 0)
		(*ret)->readers = steal_ptr(&readers);
	return rc;
}

static void group_entries_by_path(struct prediction *p, uint32_t owners_min)
{
	size_t from = 0, to;

	for (; from < p->n_refs; from = to) {
		for (to = from + 1;
		     to < p->n_refs && strcmp(p->refs[from].entry->path,
					      p->refs[to].entry->path) == 0;
		     to++)
			;
		add_path(p, p->refs + from, to - from, owners_min);
	}
}

int trace_predict(const struct trace_donor *donors, size_t n,
		  uint32_t owners_min, struct trace **ret, struct error *err)
{
	AUTO_FINI(prediction) p = { .donors = donors };
	int rc = gather_entries(&p, n, err);

	if (rc == 0 && p.n_refs)
		qsort(p.refs, p.n_refs, sizeof(*p.refs),
		      compare_donors_by_content);
	if (rc == 0)
		group_entries_by_path(&p, owners_min);
	if (rc == 0 && p.n_groups) {
		qsort(p.groups, p.n_groups, sizeof(*p.groups),
		      compare_predicted_by_weight);
		if (p.n_groups > PREDICTION_ENTRIES_MAX)
			p.n_groups = PREDICTION_ENTRIES_MAX;
		qsort(p.groups, p.n_groups, sizeof(*p.groups),
		      compare_predicted_by_time);
	}
	if (rc == 0)
		rc = build_predicted(&p, ret, err);
	return rc;
}
