// SPDX-License-Identifier: Apache-2.0
#include "cli/ops_history.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/start_gantt.h"
#include "common/array.h"
#include "common/json.h"

#define NODES_MAX 50u /* nodes whose absences are listed */
#define ROWS_MAX 60u  /* rows that are printed */

static int PRINTF(5, 6)
	add_event(struct ops_history *h, const char *node, const char *what,
		  const double at[2], const char *fmt, ...)
{
	struct ops_event *e;
	va_list ap;

	if (array_grow(&h->v, h->n, &h->cap, 64) < 0)
		return -ENOMEM;
	e = &h->v[h->n++];
	*e = (struct ops_event){
		.node = node, .from_s = at[0], .to_s = at[1], .what = what
	};
	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return 0;
}

static int add_absences(const struct ops_set *s, const struct ops_rule *r,
			uint32_t node, struct ops_history *h, struct error *err)
{
	AUTO_FREE struct ops_absence *v = NULL;
	size_t n = 0;
	int rc = ops_find_absences(s, r, node, &v, &n, err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		const double at[] = { (double)v[i].from_s, (double)v[i].to_s };

		if (add_event(h, s->nodes[node], "left-out", at, "%zu jobs",
			      v[i].sessions) < 0)
			rc = error_nomem(err);
	}
	return rc;
}

static int add_outages(const struct ops_set *s, struct ops_history *h)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n_outages; i++) {
		const struct ops_outage *o = &s->outages[i];
		const double at[] = { (double)o->from_s, (double)o->to_s };

		rc = add_event(h, o->node,
			       o->kind == OPS_CORDONED ? "cordoned" : "away",
			       at, "%s%s%s", o->lasts ? "still" : "",
			       o->lasts && *o->why ? ": " : "", o->why);
	}
	return rc;
}

static int add_findings(const struct ops_inquiry *q, struct ops_history *h)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < q->n_failures; i++) {
		const struct ops_failure *f = &q->failures[i];
		const double at[] = { f->at_s, f->at_s };

		rc = f->xid ? add_event(h, q->nodes[f->node]->name, "failed",
					at, "XID %u", f->xid)
			    : add_event(h, q->nodes[f->node]->name, "failed",
					at, "%s", "");
	}
	for (size_t i = 0; rc == 0 && i < q->found->n_slow; i++) {
		const struct ops_slow *w = &q->found->slow[i];
		const double at[] = { w->from_s, w->to_s };

		rc = add_event(h, q->nodes[w->node]->name, "slow", at,
			       "%.100s is %+.0f %%",
			       q->signals.v[w->signal].metric, 100 * w->share);
	}
	return rc;
}

static int compare_events_by_node_and_time(const void *x, const void *y)
{
	const struct ops_event *a = x, *b = y;
	int rc = strcmp(a->node, b->node);

	if (rc == 0)
		rc = (a->from_s > b->from_s) - (a->from_s < b->from_s);
	return rc ? rc : strcmp(a->what, b->what);
}

int ops_history_make(const struct ops_set *s, const struct ops_rule *r,
		     const struct ops_exclusions *e,
		     const struct ops_inquiry *q, struct ops_history *ret,
		     struct error *err)
{
	int rc = 0;

	*ret = (struct ops_history){ .n = 0 };
	for (size_t i = 0;
	     rc == 0 && i < e->n && i < NODES_MAX && e->v[i].sessions; i++)
		rc = add_absences(s, r, e->v[i].node, ret, err);
	if (rc == 0 &&
	    (add_outages(s, ret) < 0 || (q && add_findings(q, ret) < 0)))
		rc = error_nomem(err);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v),
		      compare_events_by_node_and_time);
	return rc;
}

void ops_history_fini(struct ops_history *h)
{
	free(h->v);
	*h = (struct ops_history){ .n = 0 };
}

void ops_history_print(FILE *out, const struct ops_history *h)
{
	char at[32];

	if (h->n)
		fprintf(out, "\nHistory of nodes\n  %-20s %-17s  %-17s  %s\n",
			"NODE", "FROM", "TO", "WHAT");
	for (size_t i = 0; i < h->n && i < ROWS_MAX; i++) {
		const struct ops_event *e = &h->v[i];

		fprintf(out, "  ");
		start_print_text(e->node, 20, 255, out);
		fprintf(out, " %-17s", ops_time_text(e->from_s, at));
		fprintf(out, "  %-17s  %s",
			e->to_s > e->from_s ? ops_time_text(e->to_s, at) : "",
			e->what);
		if (*e->text)
			fprintf(out, ", ");
		start_print_text(e->text, 0, sizeof(e->text), out);
		(void)fputc('\n', out);
	}
	if (h->n > ROWS_MAX)
		fprintf(out, "  more of them: the JSON output has all\n");
}

json_t *ops_history_json(const struct ops_history *h)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < h->n; i++) {
		const struct ops_event *e = &h->v[i];

		(void)json_array_append_new(rows,
					    json_pack("{s:o,s:f,s:f,s:s,s:o}",
						      "node",
						      json_bytes(e->node),
						      "from_s", e->from_s,
						      "to_s", e->to_s, "what",
						      e->what, "text",
						      json_bytes(e->text)));
	}
	return rows;
}
