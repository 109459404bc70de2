// SPDX-License-Identifier: Apache-2.0
/* A start in the forms of others.  Pure. */
#ifndef BOOTSEER_PROFILER_START_EXPORT_H
#define BOOTSEER_PROFILER_START_EXPORT_H

#include "profiler/start_blame.h"

struct start_title {
	const char *job; /* of the characters that stage_is_job() allows */
	int64_t attempt;
	enum start_class class;
	const struct start_blame
		*blames; /* of the report's stragglers, in their order */
	size_t n_blames;
};

struct start_export_kind {
	const char *name; /* "chrome" */
	const char *type; /* media type */
	int (*write)(const struct start_report *r, const struct start_title *n,
		     struct buf *ret);
};

/* "chrome", "otlp" or "csv"; NULL: no such. */
const struct start_export_kind *start_export_find(const char *name);

/* Append the start: of Chrome's trace events (JSON), of OTLP's ExportTraceServiceRequest
 * (JSON, as POSTed to /v1/traces of a collector), or a table with a line for each run.
 * -ENOMEM. */
int start_export(const struct start_export_kind *k,
		 const struct start_report *r, const struct start_title *n,
		 struct buf *ret) MUST_CHECK;

#endif
