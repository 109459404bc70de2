// SPDX-License-Identifier: Apache-2.0
/* bootseer ops precursors: metrics that changed on a node before it failed, and slow nodes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/ops_server.h"
#include "cli/ops_rules.h"
#include "cli/ops_study.h"
#include "common/duration.h"
#include "common/fs.h"
#include "common/json.h"
#include "profiler/ops/recover.h"

#define SHOWN_MAX 4 /* metrics shown for one failure */
#define RULES_MODE 0644

static const struct option_spec options[] = {
	OPS_DAYS_OPTION,
	OPS_PRECURSOR_OPTIONS,
	{ .key = "rules",
	  .type = OPTION_STRING,
	  .arg = "FILE",
	  .offset = offsetof(struct ops_config, rules),
	  .help = "Write rules into this file by which Prometheus gives an "
		  "alert for what is found here." },
	OPS_PROM_OPTIONS(struct ops_config),
	OPS_JSON_OPTION,
	{ .key = NULL },
};

/* ---------------------------------------------------------------------- text --- */

static void print_departures(FILE *out, const struct ops_inquiry *q,
			     size_t failure, bool is_before)
{
	const struct ops_precursors *p = q->found;
	size_t n = 0;

	for (size_t i = 0; i < p->n_departures; i++) {
		const struct ops_departure *d = &p->departures[i];
		char lead[DURATION_TEXT_MAX];

		if (d->failure != failure || (d->warning_s > 0) != is_before ||
		    n++ >= SHOWN_MAX)
			continue;
		fprintf(out, "    %-7s %s %+.1f (outside from %.1f on)",
			is_before ? ops_text_of(d->lead_s, lead) : "with it",
			q->signals.v[d->signal].metric, (double)d->score,
			p->signals[d->signal].threshold);
		fprintf(out, "\n");
	}
	if (n > SHOWN_MAX)
		fprintf(out, "    and %zu more\n", n - SHOWN_MAX);
}

static void print_failure(FILE *out, const struct ops_inquiry *q, size_t i)
{
	const struct ops_failure *f = &q->failures[i];
	const char *cure;
	char at[32];

	fprintf(out, "  %s  %s", ops_time_text(f->at_s, at),
		q->nodes[f->node]->name);
	cure = recover_xid_text(recover_read_xid(f->xid));
	if (f->xid)
		fprintf(out, "  XID %u%s%s%s", f->xid, *cure ? " (" : "", cure,
			*cure ? ")" : "");
	if (!q->found->samples[i])
		fprintf(out, ": its metrics are unknown, or it had no work\n");
	else if (!ops_was_preceded(q->found, i))
		fprintf(out, ": nothing preceded it\n");
	else
		fprintf(out, ": preceded by\n");
	print_departures(out, q, i, true);
	print_departures(out, q, i, false);
}

static void count_kinds(const struct ops_inquiry *q, size_t n[RECOVER_N_KINDS])
{
	memset(n, 0, RECOVER_N_KINDS * sizeof(*n));
	for (size_t i = 0; i < q->n_failures; i++)
		n[recover_kind_of(q->failures[i].xid)]++;
}

/* Print "failures by kind: NVLink 5 (29.4 %; Minder's clusters 1.7 %), other 5 (29.4 %)". */
static void print_kinds(FILE *out, const struct ops_inquiry *q)
{
	const char *sign = "failures by kind:";
	size_t n[RECOVER_N_KINDS];

	count_kinds(q, n);
	for (int k = 0; k < RECOVER_N_KINDS; k++) {
		double elsewhere = recover_kind_elsewhere(k);

		if (!n[k])
			continue;
		fprintf(out, "%s %s %zu (%.1f %%", sign, recover_kind_text(k),
			n[k], 100.0 * (double)n[k] / (double)q->n_failures);
		if (!isnan(elsewhere))
			fprintf(out, "; Minder's clusters %.1f %%", elsewhere);
		fprintf(out, ")");
		sign = ",";
	}
	if (q->n_failures)
		fprintf(out, "\n");
}

/* Print the false alarms, and how many hits chance alone would give. */
static void print_alarms(FILE *out, const struct ops_precursors *p)
{
	fprintf(out,
		"false alarms: %zu in %.1f days without failures, %.1f a day "
		"(%.1f to %.1f); by chance %.2f of %zu failures would be "
		"preceded\n",
		p->alarms, p->days, (double)p->alarms / p->days,
		p->alarms_low / p->days, p->alarms_high / p->days, p->by_chance,
		p->compared);
}

static void print_slow(FILE *out, const struct ops_inquiry *q)
{
	const struct ops_precursors *p = q->found;

	for (size_t i = 0; i < p->n_slow; i++) {
		const struct ops_slow *s = &p->slow[i];
		char from[32], to[32];

		fprintf(out, "slow: %s from %s to %s: %s is %+.0f %%\n",
			q->nodes[s->node]->name, ops_time_text(s->from_s, from),
			ops_time_text(s->to_s, to),
			q->signals.v[s->signal].metric, 100 * s->share);
	}
	if (!p->n_slow)
		fprintf(out, "slow: no node was behind its peers for long\n");
}

static void print_signals(FILE *out, const struct ops_inquiry *q)
{
	const struct ops_precursors *p = q->found;
	size_t n = 0;

	for (size_t i = 0; i < p->n_signals; i++)
		n += p->signals[i].nodes >= OPS_PEERS_MIN;
	fprintf(out, "%zu of %zu metrics were compared%s\n", n, p->n_signals,
		q->has_gpus ? ", of nodes whose GPUs worked"
			    : "; missing: the GPUs' utilisation "
			      "(--metric-gpu): idle nodes are compared, too");
	for (size_t i = 0; i < p->n_signals; i++) {
		const struct ops_signal_result *r = &p->signals[i];

		if (r->is_elsewhere)
			fprintf(out,
				"  %s: only nodes without GPUs have it, or it "
				"names them otherwise (--node-label)\n",
				q->signals.v[i].metric);
		else if (r->nodes >= OPS_PEERS_MIN && isinf(r->threshold))
			fprintf(out,
				"  %s: leaps at healthy nodes, too, or too "
				"few are known: it tells nothing\n",
				q->signals.v[i].metric);
	}
}

void ops_print_precursors(FILE *out, const struct ops_inquiry *q)
{
	const struct ops_precursors *p = q->found;
	char before[DURATION_TEXT_MAX];

	print_signals(out, q);
	fprintf(out,
		"%zu failures, %zu of nodes that can be compared; %zu had a "
		"warning in the %s before\n",
		q->n_failures, p->compared, p->preceded,
		ops_text_of((double)(q->windows.n_before * q->windows.step_s),
			    before));
	if (q->n_left_out)
		fprintf(out, "%zu failures of other times are left out\n",
			q->n_left_out);
	for (size_t i = 0; i < q->n_failures; i++)
		print_failure(out, q, i);
	print_kinds(out, q);
	print_alarms(out, p);
	print_slow(out, q);
}

/* ---------------------------------------------------------------------- JSON --- */

static json_t *departures_json(const struct ops_inquiry *q, size_t failure)
{
	const struct ops_precursors *p = q->found;
	json_t *rows = json_array();

	for (size_t i = 0; i < p->n_departures; i++) {
		const struct ops_departure *d = &p->departures[i];

		if (d->failure == failure)
			(void)json_array_append_new(
				rows,
				json_pack("{s:s,s:f,s:f,s:f,s:b}", "metric",
					  q->signals.v[d->signal].metric,
					  "lead_s", d->lead_s, "warning_s",
					  d->warning_s, "score",
					  (double)d->score, "is_before",
					  d->warning_s > 0));
	}
	return rows;
}

static json_t *failures_json(const struct ops_inquiry *q)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < q->n_failures; i++)
		(void)json_array_append_new(
			rows,
			json_pack("{s:o,s:f,s:I,s:b,s:o}", "node",
				  json_bytes(
					  q->nodes[q->failures[i].node]->name),
				  "at_s", q->failures[i].at_s, "xid",
				  (json_int_t)q->failures[i].xid, "is_known",
				  q->found->samples[i] > 0, "metrics",
				  departures_json(q, i)));
	return rows;
}

static json_t *kinds_json(const struct ops_inquiry *q)
{
	json_t *kinds = json_object();
	size_t n[RECOVER_N_KINDS];

	count_kinds(q, n);
	for (int k = 0; k < RECOVER_N_KINDS; k++)
		(void)json_object_set_new(kinds, recover_kind_text(k),
					  json_integer((json_int_t)n[k]));
	return kinds;
}

static json_t *signals_json(const struct ops_inquiry *q)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < q->signals.n; i++) {
		const struct ops_signal_result *r = &q->found->signals[i];

		(void)json_array_append_new(rows,
					    json_pack("{s:s,s:I,s:o,s:I}",
						      "metric",
						      q->signals.v[i].metric,
						      "nodes",
						      (json_int_t)r->nodes,
						      "threshold",
						      ops_number(r->threshold),
						      "alarms",
						      (json_int_t)r->alarms));
	}
	return rows;
}

static json_t *slow_json(const struct ops_inquiry *q)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < q->found->n_slow; i++) {
		const struct ops_slow *s = &q->found->slow[i];

		(void)json_array_append_new(rows,
					    json_pack("{s:o,s:s,s:f,s:f,s:f}",
						      "node",
						      json_bytes(
							      q->nodes[s->node]
								      ->name),
						      "metric",
						      q->signals.v[s->signal]
							      .metric,
						      "from_s", s->from_s,
						      "to_s", s->to_s, "share",
						      s->share));
	}
	return rows;
}

json_t *ops_precursors_json(const struct ops_inquiry *q)
{
	const struct ops_precursors *p = q->found;

	return json_pack(
		"{s:f,s:I,s:I,s:I,s:f,s:I,s:f,s:f,s:f,s:I,s:o,s:o,s:o,s:o}",
		"before_s", (double)(q->windows.n_before * q->windows.step_s),
		"compared", (json_int_t)p->compared, "preceded",
		(json_int_t)p->preceded, "left_out", (json_int_t)q->n_left_out,
		"days", p->days, "alarms", (json_int_t)p->alarms,
		"alarms_a_day_low", p->alarms_low / p->days,
		"alarms_a_day_high", p->alarms_high / p->days, "by_chance",
		p->by_chance, "requests", (json_int_t)prom_requests(q->prom),
		"failures", failures_json(q), "kinds", kinds_json(q), "metrics",
		signals_json(q), "slow", slow_json(q));
}

static int write_rules(const struct ops_inquiry *q, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = ops_rules_write(q, &text, err);

	return rc < 0 ? rc
		      : fs_replace_file(q->c->rules, text.data, text.len,
					RULES_MODE, err);
}

static int run_precursors(const void *config, char **args, struct error *err)
{
	struct ops_config own;
	const struct ops_config *c = &own;
	AUTO(ops_server) server = NULL;
	AUTO(ops_inquiry) q = NULL;
	int rc = ops_server_open(config, &own, &server, err);

	(void)args;
	if (rc == 0)
		rc = ops_read_inquiry(c, &q, err);
	if (rc == 0 && c->rules)
		rc = write_rules(q, err);
	if (rc < 0)
		return rc;
	if (c->json)
		return ops_print_json(ops_precursors_json(q), err);
	ops_print_precursors(stdout, q);
	return 0;
}

const struct command ops_precursors_command = {
	.brief = "Show what moved at nodes before they failed",
	.check = ops_check_metrics,
	.program = {
		.name = "bootseer ops precursors",
		.usage = "--prometheus URL [OPTIONS]",
		.summary = "Show by the metrics that a Prometheus has of nodes "
			   "which of them left those of the other nodes before a "
			   "node failed, how long before and how far, and which "
			   "nodes are slow for long; with how many false alarms "
			   "the same thresholds give where nothing failed. A "
			   "failure is an XID of a GPU, or a line of --failures.",
		.options = options,
		.examples = "bootseer ops precursors --prometheus "
			    "https://prom:9090 --rules peers.yml\n",
		.see_also = "bootseer(1), promtool(1)",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_precursors,
};
