// SPDX-License-Identifier: Apache-2.0
/* The interface of the kinds of trace store. Private to store*.c. */
#ifndef BOOTSEER_RECORDER_STORE_PRIV_H
#define BOOTSEER_RECORDER_STORE_PRIV_H

#include "recorder/recorder.h"

/* After so many runs, another one hardly changes the merged trace. */
#define STORE_RUNS_WANTED 8
/* Age after which a trace should be renewed: a start may change without the image, as its
 * environment changes. */
#define STORE_FRESH_S (7 * 24 * 3600)

#define STORE_NO_MATCH (-1)

/* How closely a trace matches the query: enum trace_match, or STORE_NO_MATCH. `same_repo`:
 * the trace is of the query's repository. */
int store_match(const struct trace_query *q, const struct digest *image,
		const char *workload, bool same_repo);

/* The trace as it is sent to a store: counted as one run, however many it claims; the result
 * borrows from `t`. */
struct trace store_as_one_run(const struct trace *t);

/* Would more recordings improve this trace? */
bool store_wants_more(const struct trace_info *own);

/* Does the query name an image: is its digest not all zeros? */
bool store_has_image(const struct trace_query *q);

/* Make a name for files and tags from a key, which may hold any printable character: the
 * first `n` (up to 64) hex digits of its SHA-256, and a NUL. */
int store_workload_hash(const char *workload, size_t n, char *out) MUST_CHECK;

/* Add `info` (its strings are taken, also on failure) to a growing list. */
struct store_list {
	struct trace_info *infos;
	size_t n, cap;
};
int store_list_add(struct store_list *l, struct trace_info *info,
		   struct error *err) MUST_CHECK;
void store_list_fini(struct store_list *l);

/* Parse a list of traces (docs/formats/registry-api.md); keep only those of `workload`
 * unless that is NULL. Pure; -EINVAL. */
int store_list_parse(const char *text, size_t len, const char *workload,
		     struct store_list *ret, struct error *err) MUST_CHECK;

#endif
