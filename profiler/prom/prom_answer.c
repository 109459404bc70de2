// SPDX-License-Identifier: Apache-2.0
/* Parses answers of Prometheus's HTTP API. No I/O. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/buf.h"
#include "common/compare.h"
#include "common/json.h"
#include "common/text.h"
#include "profiler/prom/prom_priv.h"

#define LABELS_MAX 256 /* labels of a series */

static int refuse_answer(struct error *err)
{
	return error_set(err, EBADMSG,
			 "the answer is none of Prometheus's HTTP API");
}

static void keep_warning(const json_t *answer, char out[PROM_WARNING_MAX])
{
	const char *text = json_string_value(
		json_array_get(json_object_get(answer, "warnings"), 0));

	if (!text || out[0])
		return;
	(void)snprintf(out, PROM_WARNING_MAX, "%s", text);
	text_end_whole(out);
	text_make_printable(out);
}

/* Parse an answer and return its "data", borrowed from `*answer`; NULL: there is none, or the
 * answer is an error. */
static const json_t *answer_data(const char *text, size_t len, json_t **answer)
{
	const char *status;

	if (bounded_json_load_large(text, len, PROM_VALUES_MAX, "it", answer,
				    NULL) < 0)
		return NULL;
	status = json_string_value(json_object_get(*answer, "status"));
	return status && strcmp(status, "success") == 0
		       ? json_object_get(*answer, "data")
		       : NULL;
}

/* Take a reference to `result`, and keep the warning of `answer`, which contains it. */
static int keep_answer(const json_t *answer, json_t *result,
		       char warning[PROM_WARNING_MAX], json_t **ret,
		       struct error *err)
{
	if (!json_is_array(result))
		return refuse_answer(err);
	keep_warning(answer, warning);
	*ret = json_incref(result);
	return 0;
}

int prom_answer_read(const char *text, size_t len,
		     char warning[PROM_WARNING_MAX], json_t **ret,
		     struct error *err)
{
	AUTO_JSON *answer = NULL;
	const json_t *data = answer_data(text, len, &answer);
	const char *type =
		json_string_value(json_object_get(data, "resultType"));

	if (!type || strcmp(type, "matrix") != 0)
		return refuse_answer(err);
	return keep_answer(answer, json_object_get(data, "result"), warning,
			   ret, err);
}

int prom_answer_read_names(const char *text, size_t len,
			   char warning[PROM_WARNING_MAX], json_t **ret,
			   struct error *err)
{
	AUTO_JSON *answer = NULL;
	const json_t *data = answer_data(text, len, &answer);

	return keep_answer(answer, (json_t *)(uintptr_t)data, warning, ret,
			   err);
}

void prom_answer_reason(const char *text, size_t len, char *out, size_t max)
{
	AUTO_JSON *answer = NULL;
	const char *reason = NULL;

	if (bounded_json_load(text, len, "it", &answer, NULL) == 0)
		reason = json_string_value(json_object_get(answer, "error"));
	(void)snprintf(out, max, "%s%s", reason ? ": " : "",
		       reason ? reason : "");
	text_end_whole(out);
	text_make_printable(out);
}

/* Read a sample such as [1435781430.781, "1.5"]. */
static bool read_value(const json_t *pair, double *at_s, double *v)
{
	const json_t *at = json_array_get(pair, 0);
	const char *text = json_string_value(json_array_get(pair, 1));
	char *end;

	if (!json_is_number(at) || !text || !*text)
		return false;
	*at_s = json_number_value(at);
	*v = strtod(text, &end);
	return *end == '\0';
}

int prom_answer_fill(const json_t *series, int64_t begin_s, uint32_t step_s,
		     size_t n, double *v, struct error *err)
{
	const json_t *one, *pair;
	size_t i, k;

	json_array_foreach(series, i, one)
	{
		json_array_foreach(json_object_get(one, "values"), k, pair)
		{
			double at, value, index;

			if (!read_value(pair, &at, &value))
				return refuse_answer(err);
			index = round((at - (double)begin_s) / step_s);
			if (index >= 0 && index < (double)n)
				v[(size_t)index] =
					isinf(value) ? (double)NAN : value;
		}
	}
	return 0;
}

static int fill_row(const json_t *values, int64_t begin_s, uint32_t step_s,
		    size_t n, float *row, struct error *err)
{
	const json_t *pair;
	size_t k;

	json_array_foreach(values, k, pair)
	{
		double at, value, index;

		if (!read_value(pair, &at, &value))
			return refuse_answer(err);
		index = round((at - (double)begin_s) / step_s);
		if (index >= 0 && index < (double)n &&
		    fabs(value) <= (double)FLT_MAX)
			row[(size_t)index] = (float)value;
	}
	return 0;
}

int prom_answer_fill_nodes(const json_t *series, const struct prom_nodes *q,
			   int64_t begin_s, size_t n, size_t first,
			   struct error *err)
{
	const json_t *one;
	size_t i;

	json_array_foreach(series, i, one)
	{
		const char *node = json_string_value(
			json_object_get(json_object_get(one, "metric"),
					q->node_label));
		float *row;
		int rc;

		if (!node)
			continue;
		rc = q->row(q->arg, node, &row, err);
		if (rc == 0)
			rc = fill_row(json_object_get(one, "values"), begin_s,
				      q->step_s, n, row + first, err);
		if (rc)
			return rc;
	}
	return 0;
}

size_t prom_node_length(const char *node)
{
	const char *port = strrchr(node, ':');
	size_t len = port ? (size_t)(port - node) : 0;
	bool is_port =
		len && port[1] &&
		port[1 + strspn(port + 1, "0123456789")] == '\0' &&
		/* several colons without brackets are an IPv6 address, not a port */
		(port[-1] == ']' || !memchr(node, ':', len));

	return is_port ? len : strlen(node);
}

/* ------------------------------------------------------------------- samples --- */

/* Is `word` in the comma-separated list? */
static bool is_listed(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ",");

		if (n == len && strncmp(p, word, n) == 0)
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

/* Join the labels in the order of their names, so that equal series get equal ids. */
static int build_id(const json_t *labels, const struct prom_samples *s,
		    struct buf *id, struct error *err)
{
	const char *names[LABELS_MAX];
	const char *name;
	const json_t *value;
	size_t n = 0;

	json_object_foreach((json_t *)(uintptr_t)labels, name, value)
	{
		if (strcmp(name, s->node_label) == 0 ||
		    is_listed(s->replica_labels, name))
			continue;
		if (n == LABELS_MAX || !json_is_string(value))
			return refuse_answer(err);
		names[n++] = name;
	}
	qsort(names, n, sizeof(*names), compare_texts);
	buf_reset(id);
	for (size_t i = 0; i < n; i++)
		if (buf_printf(id, "%s=%s\n", names[i],
			       json_string_value(
				       json_object_get(labels, names[i]))) < 0)
			return error_nomem(err);
	return 0;
}

static int read_samples(const json_t *values, double *at, double *v,
			struct error *err)
{
	const json_t *pair;
	size_t k;

	json_array_foreach(values, k, pair)
	{
		if (!read_value(pair, &at[k], &v[k]))
			return refuse_answer(err);
	}
	return 0;
}

static int each_series(const json_t *one, const struct prom_samples *s,
		       struct buf *id, prom_series_fn *fn, void *arg,
		       struct error *err)
{
	const json_t *labels = json_object_get(one, "metric");
	const json_t *values = json_object_get(one, "values");
	const char *node =
		json_string_value(json_object_get(labels, s->node_label));
	size_t n = json_array_size(values);
	AUTO_FREE double *at = calloc(n + 1, sizeof(*at));
	AUTO_FREE double *v = calloc(n + 1, sizeof(*v));
	struct prom_series series;
	int rc;

	if (!at || !v)
		return error_nomem(err);
	rc = read_samples(values, at, v, err);
	if (rc == 0)
		rc = build_id(labels, s, id, err);
	if (rc < 0)
		return rc;
	series = (struct prom_series){ .node = node ? node : "",
				       .id = id->data ? id->data : "",
				       .at_s = at,
				       .v = v,
				       .n = n };
	return fn(arg, &series, err);
}

int prom_answer_each(const json_t *series, const struct prom_samples *s,
		     prom_series_fn *fn, void *arg, struct error *err)
{
	AUTO_BUF id = BUF_INIT;
	const json_t *one;
	size_t i;

	json_array_foreach(series, i, one)
	{
		int rc = each_series(one, s, &id, fn, arg, err);

		if (rc)
			return rc;
	}
	return 0;
}

bool prom_is_name(const char *s)
{
	if (*s >= '0' && *s <= '9')
		return false;
	return *s &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyz"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:")] == '\0';
}
