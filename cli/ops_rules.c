// SPDX-License-Identifier: Apache-2.0
/* Prometheus rules that compare nodes as profiler/ops does, with the thresholds found in the
 * data. */
#include "cli/ops_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Group by the node's name without the port, as the exporters of a node have different ports; the
 * regular expression is that of prom_node_length(). */
#define BY_NODE \
	"max by(node)(label_replace(%s, \"node\", \"$1\", \"%s\", " \
	"\"([^:]+|.*[]]|.*)(:[0-9]+)?\"))"

static const char head[] =
	"# Written by bootseer ops precursors: nodes that leave their peers. "
	"bootseer:peer_score is how\n"
	"# many deviations a node is from the median of all.\n"
	"groups:\n"
	"  - name: bootseer-peers\n"
	"    interval: %" PRIu32 "s\n"
	"    rules:\n";

/* Append a line of an expression. */
static int PRINTF(2, 3) add_line(struct buf *b, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	for (char *p = text; *p; p++)
		if (*p == '\n' || *p == '\r')
			*p = ' ';
	return buf_printf(b, "%s\n", text);
}

static int write_peer_gpu_rule(const struct ops_inquiry *q, struct buf *ret)
{
	const struct ops_prom_config *c = &q->c->prom;
	AUTO_BUF gpu = BUF_INIT;

	if (buf_printf(&gpu, "avg_over_time(%s{%s}[10m])", c->gpu,
		       c->match ? c->match : "") < 0 ||
	    buf_puts(ret, "      - record: bootseer:peer_gpu\n"
			  "        expr: |-\n") < 0)
		return -ENOMEM;
	return add_line(ret, "          " BY_NODE, gpu.data, c->node_label);
}

static int write_metric(const struct ops_inquiry *q, const char *name,
			const struct ops_signal *s, struct buf *ret,
			struct error *err)
{
	static const char busy[] = " and on(node) (bootseer:peer_gpu >= 0.5 * "
				   "scalar(quantile(0.75, bootseer:peer_gpu)))";
	AUTO_BUF query = BUF_INIT;
	int rc = ops_signal_query(s, &q->c->prom, q->windows.step_s, &query,
				  err);

	if (rc < 0)
		return rc;
	if (buf_printf(ret,
		       "      - record: bootseer:peer_metric\n"
		       "        labels: {signal: \"%s\"}\n"
		       "        expr: |-\n",
		       name) < 0 ||
	    add_line(ret, "          " BY_NODE "%s", query.data,
		     q->c->prom.node_label, q->has_gpus ? busy : "") < 0)
		return error_nomem(err);
	return 0;
}

#define SCORED "bootseer:peer_metric"
#define MIDDLE "quantile by(signal) (0.5, " SCORED ")"
#define BESIDE " on(signal) group_left() "
#define DISTANCE "abs(" SCORED " -" BESIDE MIDDLE ")"

/* A node that always differs from its peers has not changed, so subtract its usual score, the
 * median of a day. */
static const char tail[] =
	"      - record: bootseer:peer_scale\n"
	"        expr: |-\n"
	"          avg by(signal) (" DISTANCE " <=" BESIDE
	"(1.0001 * quantile by(signal) (0.667, " DISTANCE
	"))) / 0.447 > 0.01 * abs(" MIDDLE ") + 1e-9\n"
	"          or 0.01 * abs(" MIDDLE ") + 1e-9\n"
	"      - record: bootseer:peer_score\n"
	"        expr: |-\n"
	"          clamp((" SCORED " -" BESIDE MIDDLE ") /" BESIDE
	"bootseer:peer_scale, -100, 100)\n"
	"          and on(signal) (count by(signal) (" SCORED ") >= 5)\n"
	"      - alert: BootseerNodeLeftPeers\n"
	"        expr: |-\n"
	"          abs(bootseer:peer_score - quantile_over_time(0.5, "
	"bootseer:peer_score[1d:15m])) >" BESIDE "bootseer:peer_threshold\n"
	"        for: %" PRIu32 "s\n"
	"        labels: {severity: warning}\n"
	"        annotations:\n"
	"          summary: \"{{ $labels.node }}: {{ $labels.signal }} is {{ "
	"printf \\\"%%.1f\\\" $value }} deviations from where it usually is "
	"among its peers\"\n"
	"      - alert: BootseerNodeSlow\n"
	"        expr: |-\n"
	"          (" SCORED " /" BESIDE MIDDLE " - 1) *" BESIDE
	"bootseer:peer_slow_side >= 0.05\n"
	"          and quantile_over_time(0.5, bootseer:peer_score[6h:5m]) *" BESIDE
	"bootseer:peer_slow_side >= 6\n"
	"        for: 1h\n"
	"        labels: {severity: warning}\n"
	"        annotations:\n"
	"          summary: \"{{ $labels.node }} is slow: {{ $labels.signal }} "
	"is {{ $value | humanizePercentage }} behind its peers\"\n";

/* Append a rule that records a constant for a metric. */
static int write_constant(const char *record, const char *name, double v,
			  struct buf *ret)
{
	return buf_printf(ret,
			  "      - record: %s\n"
			  "        labels: {signal: \"%s\"}\n"
			  "        expr: vector(%.3g)\n",
			  record, name, v);
}

static int write_signal(const struct ops_inquiry *q, size_t i, struct buf *ret,
			struct error *err)
{
	const struct ops_signal *s = &q->signals.v[i];
	char name[OPS_SIGNAL_NAME_MAX];
	int rc;

	ops_signal_name(&q->signals, i, name);
	rc = write_metric(q, name, s, ret, err);
	if (rc < 0)
		return rc;
	if (write_constant("bootseer:peer_threshold", name,
			   q->found->signals[i].threshold, ret) < 0 ||
	    (s->slow &&
	     write_constant("bootseer:peer_slow_side", name, s->slow, ret) < 0))
		return error_nomem(err);
	return 0;
}

int ops_rules_write(const struct ops_inquiry *q, struct buf *ret,
		    struct error *err)
{
	size_t n = 0;
	int rc = 0;

	if (buf_printf(ret, head, q->windows.step_s) < 0 ||
	    (q->has_gpus && write_peer_gpu_rule(q, ret) < 0))
		return error_nomem(err);
	for (size_t i = 0; rc == 0 && i < q->signals.n; i++)
		if (isfinite(q->found->signals[i].threshold)) {
			n++;
			rc = write_signal(q, i, ret, err);
		}
	if (rc == 0 && !n)
		rc = error_set(err, ENODATA,
			       "no metric has a threshold, so that there is no "
			       "rule");
	if (rc == 0 &&
	    buf_printf(ret, tail, (OPS_STAY - 1) * q->windows.step_s) < 0)
		rc = error_nomem(err);
	return rc;
}
