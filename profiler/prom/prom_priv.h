// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_PROFILER_PROM_PROM_PRIV_H
#define BOOTSEER_PROFILER_PROM_PROM_PRIV_H

#include <jansson.h>

#include "profiler/prom/prom.h"

/* Most values of an answer, as bounded_json.h weighs them: a sample weighs 4 and has 17
 * bytes or more, so that the longest answer passes; its tree has 400 MiB at most. */
#define PROM_VALUES_MAX (PROM_ANSWER_MAX / 4)

/*
 * The series of an answer's text, a JSON array that the caller owns.  `warning` gets the
 * server's first one, where it is empty.  -EBADMSG: it is no answer of this API.
 */
int prom_answer_read(const char *text, size_t len,
		     char warning[PROM_WARNING_MAX], json_t **ret,
		     struct error *err) MUST_CHECK;
/* The same of an answer that is a list of names. */
int prom_answer_read_names(const char *text, size_t len,
			   char warning[PROM_WARNING_MAX], json_t **ret,
			   struct error *err) MUST_CHECK;
/* Put its values into the grid; those of other times are left out.  -EBADMSG. */
int prom_answer_fill(const json_t *series, int64_t begin_s, uint32_t step_s,
		     size_t n, double *v, struct error *err) MUST_CHECK;
/* The same of prom_ask_nodes(): its values begin at `first` of the rows. */
int prom_answer_fill_nodes(const json_t *series, const struct prom_nodes *q,
			   int64_t begin_s, size_t n, size_t first,
			   struct error *err) MUST_CHECK;
/* prom_samples(), of an answer. */
int prom_answer_each(const json_t *series, const struct prom_samples *s,
		     prom_series_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;
/* ": error" out of a refusal, printable; "" without one. */
void prom_answer_reason(const char *text, size_t len, char *out, size_t max);

#endif
