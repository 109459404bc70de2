// SPDX-License-Identifier: Apache-2.0
/* The interface of the kinds of trace store. Private to store*.c. */
#ifndef BOOTSEER_RECORDER_STORE_PRIV_H
#define BOOTSEER_RECORDER_STORE_PRIV_H

#include "recorder/recorder.h"

/* Runs after which a further one hardly changes what was merged. */
#define STORE_RUNS_WANTED 8
/* An image's start may change without the image: its environment does. */
#define STORE_FRESH_S (7 * 24 * 3600)

#define STORE_NO_MATCH (-1)

/* How near a trace is to what is asked for: enum trace_match, or
 * STORE_NO_MATCH.  `same_repo`: it is of the repository of the query. */
int store_match(const struct trace_query *q, const struct digest *image,
		const char *workload, bool same_repo);

/* The form in which a trace is sent to a store: one vote, however many runs it says it is
 * of; the result borrows from `t`. */
struct trace store_as_one_run(const struct trace *t);

/* More recordings would make this one better. */
bool store_wants_more(const struct trace_info *own);

/* The query names an image: its digest is not all zeros. */
bool store_has_image(const struct trace_query *q);

/* Names files and tags after a key that may hold any printable character: the
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

/* The list of traces of docs/formats/registry-api.md; only those of `workload` unless
 * that is NULL.  Pure; -EINVAL. */
int store_list_parse(const char *text, size_t len, const char *workload,
		     struct store_list *ret, struct error *err) MUST_CHECK;

#endif
