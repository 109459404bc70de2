// SPDX-License-Identifier: Apache-2.0
/* Entry points of the trace stores, and code that all kinds share. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "recorder/store_priv.h"
#include "recorder/trace_priv.h"

#define WEIGHT_NEWEST 1000000u /* largest value of trace_run.weight */
#define MIN_CONFIDENCE (TRACE_CERTAIN / 20)

/* -------------------------------------------------------------- entry points --- */

static int check_query(const struct trace_query *q, bool needs_image,
		       bool needs_workload, struct error *err)
{
	if (needs_image && !store_has_image(q))
		return error_set(err, EINVAL, "no image is named");
	if (needs_workload && (!q->workload || !*q->workload))
		return error_set(err, EINVAL, "no workload is named");
	return 0;
}

/* Check that the found trace matches the query, whatever the store sent. */
static int check_found_trace_matches(const struct trace_query *q,
				     const struct trace_found *f,
				     struct error *err)
{
	const struct trace_info *i = &f->trace->info;
	bool image = digest_equal(&i->image, &q->image);
	bool workload = strcmp(i->workload, q->workload) == 0;

	if ((f->match == TRACE_MATCH_OWN && !(image && workload)) ||
	    (f->match == TRACE_MATCH_RELATIVE && !workload) ||
	    (f->match == TRACE_MATCH_WORKLOAD && !image) ||
	    (f->match == TRACE_MATCH_PREDICTED && !q->predict) ||
	    (q->exact && f->match != TRACE_MATCH_OWN))
		return error_set(err, EBADMSG,
				 "the trace that came is not the one asked "
				 "for");
	return 0;
}

int trace_store_get(struct trace_store *s, const struct trace_query *q,
		    struct trace_found *ret, struct error *err)
{
	struct trace_found found = { .trace = NULL };
	int rc = check_query(q, true, true, err);

	if (rc == 0)
		rc = s->ops->get(s, q, &found, err);
	if (rc < 0)
		return rc;
	rc = check_found_trace_matches(q, &found, err);
	if (rc < 0) {
		trace_free(found.trace);
		return rc;
	}
	*ret = found;
	return 0;
}

int trace_store_put(struct trace_store *s, const struct trace *t,
		    struct error *err)
{
	int rc = trace_info_check(&t->info, err);

	return rc < 0 ? rc : s->ops->put(s, t, err);
}

static int compare_infos(const void *a, const void *b)
{
	const struct trace_info *x = a, *y = b;

	if (x->created_at != y->created_at)
		return x->created_at < y->created_at ? 1 : -1;
	return strcmp(x->workload, y->workload);
}

int trace_store_list(struct trace_store *s, const struct trace_query *q,
		     struct trace_info **ret, size_t *ret_n, struct error *err)
{
	int rc = s->ops->list(s, q, ret, ret_n, err);

	if (rc == 0 && *ret_n)
		qsort(*ret, *ret_n, sizeof(**ret), compare_infos);
	return rc;
}

int trace_store_remove(struct trace_store *s, const struct trace_query *q,
		       struct error *err)
{
	int rc = check_query(q, true, false, err);

	return rc < 0 ? rc : s->ops->remove(s, q, err);
}

void trace_store_free(struct trace_store *s)
{
	if (s)
		s->ops->free(s);
}

/* -------------------------------------------------------------------- shared --- */

int store_match(const struct trace_query *q, const struct digest *image,
		const char *workload, bool same_repo)
{
	bool same_workload = strcmp(workload, q->workload) == 0;

	if (digest_equal(image, &q->image)) {
		if (same_workload)
			return TRACE_MATCH_OWN;
		return q->exact ? STORE_NO_MATCH : TRACE_MATCH_WORKLOAD;
	}
	if (!same_repo || q->exact)
		return STORE_NO_MATCH;
	return same_workload ? TRACE_MATCH_RELATIVE : TRACE_MATCH_FAR;
}

struct trace store_as_one_run(const struct trace *t)
{
	struct trace one = *t;

	one.info.runs = 1;
	return one;
}

bool store_wants_more(const struct trace_info *own)
{
	return own->runs < STORE_RUNS_WANTED ||
	       own->created_at + STORE_FRESH_S < (uint64_t)time(NULL);
}

bool store_has_image(const struct trace_query *q)
{
	static const struct digest none;

	return !digest_equal(&q->image, &none);
}

int store_workload_hash(const char *workload, size_t n, char *out)
{
	char text[DIGEST_STR_MAX];
	struct digest d;
	int rc = digest_of(workload, strlen(workload), &d);

	if (rc < 0)
		return rc;
	digest_format(&d, text);
	memcpy(out, strchr(text, ':') + 1, n);
	out[n] = '\0';
	return 0;
}

/* ------------------------------------------------------------------- merging --- */

/* Average weight of `runs` runs, when `newer` runs are newer than they are. */
static uint32_t average_run_weight(uint64_t newer, uint32_t runs)
{
	uint64_t w = WEIGHT_NEWEST, sum = 0;

	for (; newer && w; newer--)
		w = w * 7 / 8;
	for (uint32_t i = 0; i < runs && w; i++) {
		sum += w;
		w = w * 7 / 8;
	}
	sum /= runs;
	return sum ? (uint32_t)sum : 1;
}

int trace_merge_recent(const struct trace *const *traces, size_t n,
		       struct trace **ret, struct error *err)
{
	const struct trace_merge_config cfg = {
		.min_confidence = MIN_CONFIDENCE,
		.entries_max = TRACE_ENTRIES_MAX,
	};
	AUTO_FREE struct trace_run *runs = calloc(n + 1, sizeof(*runs));

	if (!runs)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		uint64_t newer = 0;

		for (size_t k = 0; k < n; k++)
			if (traces[k]->info.created_at >
			    traces[i]->info.created_at)
				newer += traces[k]->info.runs;
		runs[i].trace = traces[i];
		runs[i].weight =
			average_run_weight(newer, traces[i]->info.runs);
	}
	return trace_merge(runs, n, &cfg, ret, err);
}
