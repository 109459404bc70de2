// SPDX-License-Identifier: Apache-2.0
/*
 * Merges runs. The entries of all runs are sorted by path and block, equal ones become one, and
 * the best of these are kept. All sorts use total orders without positions among the runs, so
 * the order of runs does not matter.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/array.h"
#include "common/compare.h"
#include "recorder/trace_priv.h"

/* For so many runs, sums of weight x runs x confidence fit in 63 bits. */
#define RUNS_MAX 4096u
#define WEIGHT_MAX 1000000u

struct ref {
	const struct trace_entry *entry;
	uint32_t run;
};

/* A time in a run or several runs, with their weight. */
struct sample {
	uint64_t weight;
	uint32_t at_ms;
	uint32_t run;
};

struct merge {
	const struct trace_run *runs;
	size_t n_runs;
	uint16_t min_confidence;
	uint64_t total; /* sum of the weights of all runs */
	struct ref *refs;
	size_t n_refs;
	struct sample *samples; /* room for the samples of one group */
	struct trace_entry *groups;
	size_t n_groups, cap_groups;
};

static void merge_fini(struct merge *m)
{
	free(m->refs);
	free(m->samples);
	free(m->groups);
}

/* ------------------------------------------------------------------- orders --- */

static int compare_entries_by_place(const struct trace_entry *a,
				    const struct trace_entry *b)
{
	int c = a->path == b->path ? 0 : strcmp(a->path, b->path);

	if (c)
		return c;
	c = memcmp(a->block.b, b->block.b, DIGEST_SIZE);
	return c ? c : ORDER(a->off, b->off);
}

static int compare_refs_by_place(const void *a, const void *b)
{
	const struct ref *x = a, *y = b;
	int c = compare_entries_by_place(x->entry, y->entry);

	return c ? c : ORDER(x->entry->len, y->entry->len);
}

static int compare_entries_by_time(const void *a, const void *b)
{
	const struct trace_entry *x = a, *y = b;
	int c = ORDER(x->at_ms, y->at_ms);

	return c ? c : compare_entries_by_place(x, y);
}

/* Order by confidence, highest first, then by time. */
static int compare_entries_by_rank(const void *a, const void *b)
{
	const struct trace_entry *x = a, *y = b;
	int c = ORDER(y->confidence, x->confidence);

	return c ? c : compare_entries_by_time(a, b);
}

static int compare_samples_by_run(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return ORDER(x->run, y->run);
}

static int compare_samples_by_time(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return ORDER(x->at_ms, y->at_ms);
}

/* ------------------------------------------------------------------- groups --- */

/* Smallest time by which half of the weight is reached; sorts `s`. */
static uint32_t weighted_median(struct sample *s, size_t n)
{
	uint64_t total = 0, sum = 0;
	size_t i;

	if (!n)
		return 0;
	for (i = 0; i < n; i++)
		total += s[i].weight;
	qsort(s, n, sizeof(*s), compare_samples_by_time);
	for (i = 0; i + 1 < n; i++) {
		sum += s[i].weight;
		if (sum * 2 >= total)
			break;
	}
	return s[i].at_ms;
}

static uint64_t get_run_weight(const struct trace_run *r)
{
	return (uint64_t)r->weight * r->trace->info.runs;
}

/* Join several entries of one run into one, with its first time and highest confidence. */
static size_t join_samples_of_each_run(struct sample *s, size_t n)
{
	size_t kept = 0;

	qsort(s, n, sizeof(*s), compare_samples_by_run);
	for (size_t i = 0; i < n; i++) {
		struct sample *last = kept ? &s[kept - 1] : NULL;

		if (!last || last->run != s[i].run) {
			s[kept++] = s[i];
			continue;
		}
		if (s[i].at_ms < last->at_ms)
			last->at_ms = s[i].at_ms;
		if (s[i].weight > last->weight)
			last->weight = s[i].weight;
	}
	return kept;
}

static int add_group(struct merge *m, const struct trace_entry *e,
		     struct error *err)
{
	if (array_grow(&m->groups, m->n_groups, &m->cap_groups, 1024) < 0)
		return error_nomem(err);
	m->groups[m->n_groups++] = *e;
	return 0;
}

/* Make one entry of the `n` refs at `r`; none if the confidence is too low. */
static int make_group(struct merge *m, const struct ref *r, size_t n,
		      struct error *err)
{
	struct trace_entry e = *r[0].entry;
	uint64_t end = e.off, sum = 0;
	size_t n_samples;

	for (size_t i = 0; i < n; i++) {
		const struct trace_entry *x = r[i].entry;

		if (x->off + x->len > end)
			end = x->off + x->len;
		if (x->csize > e.csize)
			e.csize = x->csize;
		m->samples[i] = (struct sample){
			.weight = get_run_weight(&m->runs[r[i].run]) *
				  x->confidence,
			.at_ms = x->at_ms,
			.run = r[i].run,
		};
	}
	n_samples = join_samples_of_each_run(m->samples, n);
	for (size_t i = 0; i < n_samples; i++)
		sum += m->samples[i].weight;
	e.len = (uint32_t)(end - e.off);
	e.confidence = (uint16_t)((sum + m->total / 2) / m->total);
	if (!e.confidence)
		e.confidence = 1;
	if (e.confidence < m->min_confidence)
		return 0;
	e.at_ms = weighted_median(m->samples, n_samples);
	return add_group(m, &e, err);
}

/* Does the entry belong to the group that begins with `first`? The same content may be far
 * away in the same file: then it is a group of its own. */
static bool belongs_to_group_of(const struct trace_entry *first,
				const struct trace_entry *e)
{
	return strcmp(first->path, e->path) == 0 &&
	       digest_equal(&first->block, &e->block) &&
	       e->off + e->len - first->off <= TRACE_BLOCK_MAX;
}

static int make_groups(struct merge *m, struct error *err)
{
	size_t from = 0;
	int rc = 0;

	if (m->n_refs)
		qsort(m->refs, m->n_refs, sizeof(*m->refs),
		      compare_refs_by_place);
	while (from < m->n_refs && rc == 0) {
		size_t to = from + 1;

		while (to < m->n_refs &&
		       belongs_to_group_of(m->refs[from].entry,
					   m->refs[to].entry))
			to++;
		rc = make_group(m, m->refs + from, to - from, err);
		from = to;
	}
	return rc;
}

/* ---------------------------------------------------------------- selecting --- */

struct merge_member {
	const struct trace_entry *entry;
	uint32_t group;
};

static int compare_members_by_digest(const void *a, const void *b)
{
	const struct merge_member *x = a, *y = b;
	int c = memcmp(x->entry->block.b, y->entry->block.b, DIGEST_SIZE);

	return c ? c : ORDER(x->group, y->group);
}

/* For each group, in order of rank, find the first group with the same block. */
static uint32_t *first_with_block(const struct merge *m)
{
	AUTO_FREE struct merge_member *v = calloc(m->n_groups, sizeof(*v));
	AUTO_FREE uint32_t *first = calloc(m->n_groups, sizeof(*first));

	if (!v || !first)
		return NULL;
	for (size_t i = 0; i < m->n_groups; i++)
		v[i] = (struct merge_member){ &m->groups[i], (uint32_t)i };
	qsort(v, m->n_groups, sizeof(*v), compare_members_by_digest);
	for (size_t i = 0; i < m->n_groups; i++)
		first[v[i].group] = i && digest_equal(&v[i - 1].entry->block,
						      &v[i].entry->block)
					    ? first[v[i - 1].group]
					    : v[i].group;
	return steal_ptr(&first);
}

/* Leave out, in order of rank, entries whose block does not fit any more. */
static int drop_entries_over_size(struct merge *m, uint64_t max,
				  struct error *err)
{
	AUTO_FREE uint32_t *first = first_with_block(m);
	AUTO_FREE bool *taken = calloc(m->n_groups, sizeof(*taken));
	size_t kept = 0;

	if (!first || !taken)
		return error_nomem(err);
	for (size_t i = 0; i < m->n_groups; i++) {
		uint32_t block = first[i];

		/* The first group with a block decides whether it fits; the others follow. */
		if (block == i && m->groups[i].csize <= max) {
			taken[i] = true;
			max -= m->groups[i].csize;
		}
		if (taken[block])
			m->groups[kept++] = m->groups[i];
	}
	m->n_groups = kept;
	return 0;
}

static int select_best(struct merge *m, const struct trace_merge_config *cfg,
		       struct error *err)
{
	size_t max = cfg->entries_max ? cfg->entries_max : TRACE_ENTRIES_MAX;
	int rc = 0;

	if (!m->n_groups)
		return 0;
	qsort(m->groups, m->n_groups, sizeof(*m->groups),
	      compare_entries_by_rank);
	if (cfg->bytes_max)
		rc = drop_entries_over_size(m, cfg->bytes_max, err);
	if (max > TRACE_ENTRIES_MAX)
		max = TRACE_ENTRIES_MAX;
	if (m->n_groups > max)
		m->n_groups = max;
	qsort(m->groups, m->n_groups, sizeof(*m->groups),
	      compare_entries_by_time);
	return rc;
}

/* -------------------------------------------------------------------- whole --- */

static int check_runs(const struct trace_run *runs, size_t n, size_t *ret_refs,
		      struct error *err)
{
	size_t sum = 0;

	if (n < 1 || n > RUNS_MAX)
		return error_set(err, EINVAL,
				 "merge of %zu traces, want 1 to %u", n,
				 RUNS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (!digest_equal(&runs[i].trace->info.image,
				  &runs[0].trace->info.image))
			return error_set(err, EINVAL,
					 "merge: the traces are of several "
					 "images");
		if (runs[i].weight < 1 || runs[i].weight > WEIGHT_MAX)
			return error_set(err, EINVAL,
					 "merge: weight %" PRIu32
					 ", want 1 to %u",
					 runs[i].weight, WEIGHT_MAX);
		sum += runs[i].trace->n;
	}
	if (sum > TRACE_MERGE_MAX)
		return error_set(err, EFBIG,
				 "merge: %zu entries in all, %u at most", sum,
				 TRACE_MERGE_MAX);
	*ret_refs = sum;
	return 0;
}

static int gather_refs(struct merge *m, size_t n_refs, struct error *err)
{
	m->refs = calloc(n_refs + 1, sizeof(*m->refs));
	m->samples = calloc((n_refs > m->n_runs ? n_refs : m->n_runs) + 1,
			    sizeof(*m->samples));
	if (!m->refs || !m->samples)
		return error_nomem(err);
	for (size_t i = 0; i < m->n_runs; i++) {
		const struct trace *t = m->runs[i].trace;

		m->total += get_run_weight(&m->runs[i]);
		for (size_t k = 0; k < t->n; k++)
			m->refs[m->n_refs++] = (struct ref){
				.entry = &t->entries[k],
				.run = (uint32_t)i,
			};
	}
	return 0;
}

/* Should `a` rather than `b` name the result? The newer one does. */
static bool is_newer(const struct trace_info *a, const struct trace_info *b)
{
	int c = ORDER(a->created_at, b->created_at);

	if (c == 0)
		c = strcmp(b->workload, a->workload);
	if (c == 0)
		c = strcmp(b->repo, a->repo);
	return c > 0;
}

/* Make the info of the result; its texts are borrowed. */
static void merge_infos(struct merge *m, struct trace_info *ret)
{
	uint64_t runs = 0;
	size_t n = 0;

	*ret = m->runs[0].trace->info;
	for (size_t i = 0; i < m->n_runs; i++) {
		const struct trace_info *x = &m->runs[i].trace->info;

		if (is_newer(x, ret)) {
			ret->created_at = x->created_at;
			ret->workload = x->workload;
			ret->repo = x->repo;
		}
		if (x->window_ms > ret->window_ms)
			ret->window_ms = x->window_ms;
		ret->truncated |= x->truncated;
		runs += x->runs;
		if (x->ready_ms)
			m->samples[n++] = (struct sample){
				.weight = get_run_weight(&m->runs[i]),
				.at_ms = x->ready_ms,
			};
	}
	ret->runs = runs > TRACE_RUNS_MAX ? TRACE_RUNS_MAX : (uint32_t)runs;
	ret->ready_ms = weighted_median(m->samples, n);
}

/* Build the result; if a limit is reached, its tail is missing. */
static int build_merged(const struct merge *m, const struct trace_info *info,
			struct trace **ret, struct error *err)
{
	AUTO(trace_builder) b = NULL;
	bool full = false;
	int rc = trace_builder_new(info, &b, err);

	for (size_t i = 0; rc == 0 && i < m->n_groups; i++)
		rc = trace_builder_add(b, &m->groups[i], err);
	if (rc == -ENOSPC) {
		full = true;
		rc = 0;
	}
	if (rc == 0)
		rc = trace_builder_finish(steal_ptr(&b), ret, err);
	if (rc == 0 && full)
		(*ret)->info.truncated = true;
	return rc;
}

int trace_merge(const struct trace_run *runs, size_t n,
		const struct trace_merge_config *cfg, struct trace **ret,
		struct error *err)
{
	AUTO_FINI(merge) m = {
		.runs = runs,
		.n_runs = n,
		.min_confidence = cfg->min_confidence,
	};
	struct trace_info info;
	size_t n_refs = 0;
	int rc = check_runs(runs, n, &n_refs, err);

	if (rc < 0)
		return rc;
	rc = gather_refs(&m, n_refs, err);
	if (rc == 0)
		rc = make_groups(&m, err);
	if (rc == 0)
		rc = select_best(&m, cfg, err);
	if (rc == 0) {
		merge_infos(&m, &info);
		rc = build_merged(&m, &info, ret, err);
	}
	return rc;
}
