// SPDX-License-Identifier: Apache-2.0
/* Exports a start in formats of other tools. Pure. */
#ifndef BOOTSEER_PROFILER_START_EXPORT_H
#define BOOTSEER_PROFILER_START_EXPORT_H

#include "profiler/start_blame.h"

struct start_title {
	const char *job; /* name of the job; stage_is_job() must hold */
	int64_t attempt;
	enum start_class class;
	/* causes of the report's stragglers, in their order */
	const struct start_blame *blames;
	size_t n_blames;
};

struct start_export_kind {
	const char *name; /* "chrome" */
	const char *type; /* media type */
	int (*write)(const struct start_report *r, const struct start_title *n,
		     struct buf *ret);
};

/* Find a format: "chrome", "otlp" or "csv"; NULL: unknown. */
const struct start_export_kind *start_export_find(const char *name);

/* Append the start as Chrome's trace events (JSON), as OTLP's ExportTraceServiceRequest (JSON, for
 * POST to a collector's /v1/traces), or as a table with a line for each run. -ENOMEM. */
int start_export(const struct start_export_kind *k,
		 const struct start_report *r, const struct start_title *n,
		 struct buf *ret) MUST_CHECK;

#endif
