// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_PROFILER_PROM_PROM_PRIV_H
#define BOOTSEER_PROFILER_PROM_PROM_PRIV_H

#include <jansson.h>

#include "profiler/prom/prom.h"

/* Most JSON values of an answer, as bounded_json.h counts them. A sample counts as 4 and has at
 * least 17 bytes, so even the longest answer passes; its tree takes at most 400 MiB. */
#define PROM_VALUES_MAX (PROM_ANSWER_MAX / 4)

/*
 * Parse an answer: a JSON array of series, which the caller owns. `warning`, if empty, gets the
 * server's first warning. -EBADMSG: the text is no answer of this API.
 */
int prom_answer_read(const char *text, size_t len,
		     char warning[PROM_WARNING_MAX], json_t **ret,
		     struct error *err) MUST_CHECK;
/* The same for an answer that is a list of names. */
int prom_answer_read_names(const char *text, size_t len,
			   char warning[PROM_WARNING_MAX], json_t **ret,
			   struct error *err) MUST_CHECK;
/* Store the values of the series in `v` by their times; values at other times are ignored.
 * -EBADMSG. */
int prom_answer_fill(const json_t *series, int64_t begin_s, uint32_t step_s,
		     size_t n, double *v, struct error *err) MUST_CHECK;
/* The same for prom_ask_nodes(): the values begin at index `first` of the rows. */
int prom_answer_fill_nodes(const json_t *series, const struct prom_nodes *q,
			   int64_t begin_s, size_t n, size_t first,
			   struct error *err) MUST_CHECK;
/* Call `fn` with the series of an answer to prom_samples(). */
int prom_answer_each(const json_t *series, const struct prom_samples *s,
		     prom_series_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;
/* Write ": error" from a refusal, printable characters only; "": the refusal has none. */
void prom_answer_reason(const char *text, size_t len, char *out, size_t max);

#endif
