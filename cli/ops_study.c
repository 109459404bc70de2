// SPDX-License-Identifier: Apache-2.0
/* Read failures, and the metrics of nodes around them, for ops precursors. */
#include "cli/ops_study.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

#define LIST_MAX (16u << 20)
#define XID_MAX 100000u
/* distance of points of the query for changes of the XID */
#define XID_STEP_S 300u
#define XID_POINTS_MAX 200000u
/* most changes read; enough for OPS_FAILURES_MAX failures */
#define XIDS_MAX 5000u
/* errors of a node within this time are one failure */
#define SAME_FAILURE_S 600.0
#define WINDOW_SAMPLES 240
#define FALSE_ALARMS 1.0 /* a day; thresholds are chosen to cause that many */
#define TOLD_AFTER_NS (2 * NS_PER_S)

/* Get the number of the node with this name, without a port at its end.  -E2BIG, -ENOMEM. */
static int ops_node_number(struct ops_inquiry *q, const char *label,
			   uint32_t *ret, struct error *err)
{
	size_t len = prom_node_length(label);
	AUTO_FREE char *name = strndup(label, len);
	struct ops_node_name *n;

	if (!name)
		return error_nomem(err);
	text_make_printable(name);
	HASH_FIND(hh, q->names, name, len, n);
	if (!n) {
		if (q->n_nodes == OPS_PEERS_MAX)
			return error_set(err, E2BIG,
					 "more than %u nodes: take fewer by "
					 "--match",
					 OPS_PEERS_MAX);
		if (array_grow(&q->nodes, q->n_nodes, &q->cap_nodes, 64) < 0)
			return error_nomem(err);
		n = calloc(1, sizeof(*n) + len + 1);
		if (!n)
			return error_nomem(err);
		memcpy(n->name, name, len);
		n->number = (uint32_t)q->n_nodes;
		HASH_ADD_KEYPTR(hh, q->names, n->name, len, n);
		if (!hash_has_added(n)) {
			free(n);
			return error_nomem(err);
		}
		q->nodes[q->n_nodes++] = n;
	}
	*ret = n->number;
	return 0;
}

/* ------------------------------------------------------------------ failures --- */

static int add_failure(struct ops_inquiry *q, const char *node, double at_s,
		       uint32_t xid, struct error *err)
{
	struct ops_failure f = { .at_s = at_s, .xid = xid };
	int rc = ops_node_number(q, node, &f.node, err);

	if (rc < 0)
		return rc;
	if (array_grow(&q->failures, q->n_failures, &q->cap_failures, 64) < 0)
		return error_nomem(err);
	q->failures[q->n_failures++] = f;
	return 0;
}

static int compare_failures_by_time(const void *x, const void *y)
{
	const struct ops_failure *a = x, *b = y;

	if (a->at_s != b->at_s)
		return a->at_s < b->at_s ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

/* Merge errors of one or several GPUs of a node into one failure.  If there are too many failures,
 * only the last ones are kept. */
static void merge_failures(struct ops_inquiry *q)
{
	size_t n = 0, all = 0;

	/* Drop failures outside the time that has metrics. */
	for (size_t i = 0; i < q->n_failures; i++)
		if (q->failures[i].at_s >= (double)q->span.from_s &&
		    q->failures[i].at_s <= (double)q->span.to_s)
			q->failures[all++] = q->failures[i];
	q->n_left_out = q->n_failures - all;
	q->n_failures = all;
	if (q->n_failures)
		qsort(q->failures, q->n_failures, sizeof(*q->failures),
		      compare_failures_by_time);
	for (size_t i = 0; i < q->n_failures; i++) {
		bool is_same = false;

		for (size_t k = n;
		     k-- > 0 && q->failures[i].at_s - q->failures[k].at_s <
					SAME_FAILURE_S;)
			is_same |= q->failures[k].node == q->failures[i].node;
		if (!is_same)
			q->failures[n++] = q->failures[i];
	}
	all = n > OPS_FAILURES_MAX ? n - OPS_FAILURES_MAX : 0;
	if (all)
		memmove(q->failures, q->failures + all,
			(n - all) * sizeof(*q->failures));
	q->n_left_out += all;
	q->n_failures = n - all;
}

static int read_kernel_line(struct ops_inquiry *q, const char *line,
			    size_t number, struct error *err)
{
	struct ops_kernel_error e;
	int rc = ops_read_kernel_line(line, &e, err);

	if (rc < 0)
		return error_wrap(err, rc, "line %zu", number);
	return rc ? add_failure(q, e.node, e.at_s, e.xid, err) : 0;
}

/* Parse "TIME NODE [XID]", or a line of a kernel's log. */
static int read_failure(struct ops_inquiry *q, char *line, size_t number,
			struct error *err)
{
	char *save = NULL, *end = NULL;
	const char *at, *node, *xid;
	unsigned long code;
	int64_t at_s;
	int rc;

	if (ops_is_kernel_line(line))
		return read_kernel_line(q, line, number, err);
	at = strtok_r(line, " \t\r", &save);
	node = strtok_r(NULL, " \t\r", &save);
	xid = strtok_r(NULL, " \t\r", &save);
	code = xid ? strtoul(xid, &end, 10) : 0;
	if (!at || *at == '#')
		return 0;
	if (!node || (xid && (*end || code > XID_MAX)))
		return error_set(err, EINVAL,
				 "line %zu: wanted is TIME NODE [XID]", number);
	rc = ops_read_time(at, &at_s, err);
	return rc < 0 ? error_wrap(err, rc, "line %zu", number)
		      : add_failure(q, node, (double)at_s, (uint32_t)code, err);
}

static int read_failure_file(struct ops_inquiry *q, struct error *err)
{
	AUTO_BUF text = { .limit = LIST_MAX };
	size_t number = 0;
	int rc = fs_read_file(q->c->failures, LIST_MAX, &text, err);

	if (rc == 0 && buf_puts(&text, "\n") < 0)
		rc = error_nomem(err);
	for (char *line = rc == 0 ? text.data : NULL, *next;
	     rc == 0 && line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		rc = read_failure(q, line, ++number, err);
	}
	return rc < 0 ? error_wrap(err, rc, "%s", q->c->failures) : 0;
}

/* Add a failure at each sample where a GPU's error number changed. */
static int add_xids(void *arg, const struct prom_series *s, struct error *err)
{
	struct ops_inquiry *q = arg;

	for (size_t i = 1; i < s->n; i++) {
		int rc;

		if (!(s->v[i] >= 1 && s->v[i] <= XID_MAX) ||
		    s->v[i] == s->v[i - 1] || !*s->node)
			continue;
		rc = add_failure(q, s->node, s->at_s[i], (uint32_t)s->v[i],
				 err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int add_xid_selector(const struct ops_inquiry *q, struct buf *query)
{
	return buf_printf(query, "%s{%s}", q->c->xid,
			  q->c->prom.match ? q->c->prom.match : "");
}

/* Read GPU errors from the metrics.  A coarse query finds the steps in which an error number
 * changed; their samples give the time. */
static int read_xids(struct ops_inquiry *q, struct error *err)
{
	size_t n = (size_t)((q->span.to_s - q->span.from_s) / XID_STEP_S) + 1;
	AUTO_FREE double *v = calloc(n, sizeof(*v));
	AUTO_BUF query = BUF_INIT, selector = BUF_INIT;
	struct prom_samples s = { .length_s = 2 * XID_STEP_S,
				  .node_label = q->c->prom.node_label,
				  .replica_labels = q->c->prom.replica_labels };
	int rc;

	if (n > XID_POINTS_MAX)
		return error_set(err, EFBIG, "ask for fewer days");
	if (!v || buf_puts(&query, "sum(changes(") < 0 ||
	    add_xid_selector(q, &query) < 0 ||
	    buf_printf(&query, "[%us]))", XID_STEP_S + q->span.step_s) < 0 ||
	    add_xid_selector(q, &selector) < 0)
		return error_nomem(err);
	rc = prom_range(q->prom, query.data, q->span.from_s, XID_STEP_S, n, v,
			err);
	s.selector = selector.data;
	/* From the end, as only the last failures are kept. */
	for (size_t i = n; rc == 0 && i-- > 0 && q->n_failures < XIDS_MAX;) {
		if (!(v[i] > 0))
			continue;
		s.end_s = (double)q->span.from_s + (double)i * XID_STEP_S;
		rc = prom_samples(q->prom, &s, add_xids, q, err);
	}
	if (rc == -EFBIG)
		return error_wrap(err, rc,
				  "XIDs of so many GPUs (take fewer by "
				  "--match, or name --failures)");
	return rc;
}

/* -------------------------------------------------------------------- panels --- */

struct panel_fill {
	struct ops_inquiry *q;
	struct ops_panel *p;
	size_t window;
};

static int find_panel_row(void *arg, const char *name, float **ret,
			  struct error *err)
{
	struct panel_fill *f = arg;
	uint32_t node = 0;
	int rc = ops_node_number(f->q, name, &node, err);

	return rc < 0 ? rc : ops_panel_row(f->p, node, f->window, ret, err);
}

/* Read the last `n` samples of a window. */
static int ask_window(struct panel_fill *fill, const struct ops_windows *w,
		      const char *query, size_t n, struct error *err)
{
	const struct prom_nodes ask = {
		.query = query,
		.node_label = fill->q->c->prom.node_label,
		.begin_s = w->v[fill->window].begin_s +
			   (int64_t)((w->n - n) * w->step_s),
		.step_s = w->step_s,
		.n = n,
		.row = find_panel_row,
		.arg = fill,
	};

	return prom_ask_nodes(fill->q->prom, &ask, err);
}

/* Fill a window with zeros if its first samples show that no error grew in all of it.  Otherwise
 * drop these samples and return false. */
static bool fill_zeros(struct ops_panel *p, size_t window)
{
	size_t n = p->windows->n;
	bool is_zero = true;

	for (size_t i = 0; i < p->n_nodes; i++) {
		float *row = p->rows[i] ? p->rows[i] + window * n : NULL;

		is_zero &= !row || isnan(row[0]) || row[0] == 0;
	}
	for (size_t i = 0; i < p->n_nodes; i++) {
		float *row = p->rows[i] ? p->rows[i] + window * n : NULL;

		for (size_t k = 1; row && is_zero && k < n; k++)
			row[k] = row[0];
		if (row && !is_zero)
			row[0] = NAN;
	}
	return is_zero;
}

/* Read a metric over several windows.  Errors are rare, so first ask for their growth over a whole
 * window, which mostly saves asking for each sample. */
static int read_panel(struct ops_inquiry *q, const struct ops_windows *w,
		      const struct ops_signal *s, struct ops_panel *p,
		      struct error *err)
{
	struct panel_fill fill = { q, p, 0 };
	AUTO_BUF query = BUF_INIT, growth = BUF_INIT;
	bool looks = s->kind == OPS_SIGNAL_ERRORS && w->n > OPS_STAY;
	int rc = ops_signal_query(s, &q->c->prom, w->step_s, &query, err);

	if (rc == 0 && looks)
		rc = ops_signal_growth_query(s, &q->c->prom,
					     (uint32_t)w->n * w->step_s,
					     &growth, err);
	p->windows = w;
	for (; rc == 0 && fill.window < w->n_all; fill.window++) {
		if (looks)
			rc = ask_window(&fill, w, growth.data, 1, err);
		if (rc == 0 && !(looks && fill_zeros(p, fill.window)))
			rc = ask_window(&fill, w, query.data, w->n, err);
	}
	return rc;
}

static int mark_metric_present(void *arg, const char *name, struct error *err)
{
	struct ops_signals *signals = arg;

	(void)err;
	for (size_t i = 0; i < signals->n; i++)
		if (strcmp(signals->v[i].metric, name) == 0)
			signals->v[i].is_there = true;
	return 0;
}

/* Mark the metrics that exist, by one query, as most lists have metrics that a cluster lacks.  If
 * a proxy blocks this query, all metrics are read, which only takes longer. */
static int find_metrics(struct ops_inquiry *q, struct error *err)
{
	int rc = prom_each_name(q->prom, q->c->prom.match, q->span.from_s,
				q->span.to_s, mark_metric_present, &q->signals,
				err);

	if (rc != -ENOENT && rc != -EACCES)
		return rc;
	for (size_t i = 0; i < q->signals.n; i++)
		q->signals.v[i].is_there = true;
	return 0;
}

static struct ops_signal gpu_signal(const struct ops_inquiry *q)
{
	return (struct ops_signal){ .over = "max",
				    .kind = OPS_SIGNAL_VALUE,
				    .metric = q->c->prom.gpu,
				    .labels = "" };
}

static int read_busy(struct ops_inquiry *q, struct ops_panel *p,
		     struct error *err)
{
	const struct ops_signal gpu = gpu_signal(q);
	int rc = read_panel(q, &q->windows, &gpu, p, err);

	q->has_gpus = p->n_nodes > 0;
	if (rc == 0 && q->has_gpus)
		rc = ops_study_set_busy(q->study, p, err);
	ops_panel_fini(p);
	return rc;
}

static int read_signals(struct ops_inquiry *q, struct error *err)
{
	AUTO_FREE struct ops_panel *p = calloc(1, sizeof(*p));
	int rc = p ? read_busy(q, p, err) : error_nomem(err);

	if (rc == 0)
		rc = find_metrics(q, err);
	for (size_t i = 0; rc == 0 && i < q->signals.n; i++) {
		const struct ops_signal *s = &q->signals.v[i];

		if (!s->is_there)
			continue;
		if (clock_now_ns() - q->begin_ns > TOLD_AFTER_NS)
			(void)fprintf(stderr, "comparing %s\n", s->metric);
		rc = read_panel(q, &q->windows, s, p, err);
		if (rc == 0)
			rc = ops_study_add(q->study, i, s->slow, p, err);
		ops_panel_fini(p);
	}
	return rc;
}

int ops_read_now(struct ops_inquiry *q, const struct ops_signal *s,
		 int64_t now_s, struct ops_panel *p, struct error *err)
{
	q->now = (struct ops_window){
		.begin_s = now_s - (int64_t)(OPS_STAY - 1) * q->windows.step_s
	};
	q->latest = (struct ops_windows){ .v = &q->now,
					  .n_all = 1,
					  .n = OPS_STAY,
					  .step_s = q->windows.step_s };
	return read_panel(q, &q->latest, s, p, err);
}

int ops_read_now_gpus(struct ops_inquiry *q, int64_t now_s, struct ops_panel *p,
		      struct error *err)
{
	const struct ops_signal gpu = gpu_signal(q);

	return ops_read_now(q, &gpu, now_s, p, err);
}

/* ---------------------------------------------------------------------- open --- */

/* Find the time that has data: by the GPUs' metric, or else by the first metric that exists. */
static int survey_nodes(struct ops_inquiry *q, struct error *err)
{
	AUTO_FREE const char **names = calloc(q->signals.n + 1, sizeof(*names));
	int rc;

	if (!names)
		return error_nomem(err);
	names[0] = q->c->prom.gpu;
	for (size_t i = 0; i < q->signals.n; i++)
		names[i + 1] = q->signals.v[i].metric;
	rc = ops_prom_survey(&q->c->prom, q->prom, q->c->days, names,
			     q->signals.n + 1, &q->span, err);
	return rc == -ENOENT
		       ? error_wrap(err, rc, "none of the metrics is there")
		       : rc;
}

static int choose_windows(struct ops_inquiry *q, struct error *err)
{
	int64_t before_s = q->c->before_ns / NS_PER_S;
	uint32_t least = (uint32_t)(before_s / WINDOW_SAMPLES);

	return ops_choose_windows(q->span.from_s, q->span.to_s,
				  q->span.step_s > least ? q->span.step_s
							 : least,
				  before_s, q->failures, q->n_failures,
				  &q->windows, err);
}

static int fill_inquiry(struct ops_inquiry *q, struct error *err)
{
	int rc = ops_signals_read(q->c->signals, &q->signals, err);

	if (rc == 0)
		rc = ops_prom_open(&q->c->prom, &q->prom, err);
	if (rc == 0)
		rc = survey_nodes(q, err);
	if (rc == 0)
		rc = q->c->failures ? read_failure_file(q, err)
				    : read_xids(q, err);
	if (rc < 0)
		return rc;
	merge_failures(q);
	rc = choose_windows(q, err);
	if (rc == 0)
		rc = ops_study_new(&q->windows, q->failures, q->n_failures,
				   q->signals.n, FALSE_ALARMS, &q->study, err);
	if (rc == 0)
		rc = read_signals(q, err);
	if (rc == 0)
		q->found = ops_study_end(q->study);
	return rc;
}

int ops_read_inquiry(const struct ops_config *c, struct ops_inquiry **ret,
		     struct error *err)
{
	AUTO(ops_inquiry) q = calloc(1, sizeof(*q));
	int rc;

	if (!q)
		return error_nomem(err);
	q->c = c;
	q->begin_ns = clock_now_ns();
	rc = fill_inquiry(q, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&q);
	return 0;
}

void ops_inquiry_free(struct ops_inquiry *q)
{
	if (!q)
		return;
	HASH_CLEAR(hh, q->names);
	for (size_t i = 0; i < q->n_nodes; i++)
		free(q->nodes[i]);
	free(q->nodes);
	free(q->failures);
	ops_study_free(q->study);
	ops_windows_fini(&q->windows);
	ops_signals_fini(&q->signals);
	prom_free(q->prom);
	free(q);
}
