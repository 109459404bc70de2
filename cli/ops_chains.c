// SPDX-License-Identifier: Apache-2.0
/* bootseer ops chains: jobs that were retried, and whether the retries helped. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "cli/start_gantt.h"
#include "common/duration.h"
#include "common/json.h"
#include "common/progress.h"

#define ROWS_MAX 50
#define HOUR_S 3600.0
/* this many alike failures: more than three in a row teach nothing */
#define ALIKE_MANY 4

static const struct option_spec options[] = {
	OPS_OPTIONS,
	OPS_JSON_OPTION,
	OPS_TRAINED_OPTION,
	{ .key = NULL },
};

static const char *outcome_text(enum ops_outcome o)
{
	static const char *const texts[] = { [OPS_RECOVERED] = "trained",
					     [OPS_GIVEN_UP] = "given up",
					     [OPS_GOES_ON] = "goes on" };

	return texts[o];
}

/* -------------------------------------------------------------------- tables --- */

static void print_spread(FILE *out, const char *what,
			 const struct ops_spread *s)
{
	char low[DURATION_TEXT_MAX], mid[DURATION_TEXT_MAX],
		high[DURATION_TEXT_MAX];

	if (s->n)
		fprintf(out, "  %-34s %5zu  %-14s %s to %s\n", what, s->n,
			ops_text_of(s->median, mid), ops_text_of(s->min, low),
			ops_text_of(s->max, high));
}

static void print_spreads(FILE *out, const struct ops_chains *c)
{
	fprintf(out, "\n  %-34s %5s  %-14s %s\n", "", "TIMES", "MEDIAN",
		"RANGE");
	print_spread(out, "until the scheduler's own retry",
		     &c->gap_automatic_s);
	print_spread(out, "until a job submitted anew", &c->gap_other_s);
	print_spread(out, "without training, by the scheduler",
		     &c->down_automatic_s);
	print_spread(out, "without training, submitted anew", &c->down_other_s);
}

static void print_rows(FILE *out, const struct ops_set *s,
		       const struct ops_chains *c)
{
	fprintf(out, "\n%-12s %-24s %6s %6s %-9s %12s %10s  %s\n", "USER",
		"NAME", "TRIES", "OWN", "OUTCOME", "NODE HOURS", "GPU HOURS",
		"MOST ENDS ALIKE");
	for (size_t i = 0; i < c->n && i < ROWS_MAX; i++) {
		const struct ops_chain *v = &c->v[i];
		const struct ops_session *first = &s->sessions[v->first],
					 *alike = &s->sessions[v->alike_last];

		start_print_text(first->user, 12, 32, out);
		(void)fputc(' ', out);
		start_print_text(first->name, 24, 64, out);
		fprintf(out, " %6zu %6zu %-9s %12.1f %10.1f  ", v->n,
			v->automatic, outcome_text(v->outcome),
			v->wasted_node_s / HOUR_S, v->wasted_gpu_s / HOUR_S);
		if (v->alike > 1) {
			fprintf(out, "%zu of ", v->alike);
			start_print_text(alike->state, 0, 32, out);
			(void)fputc(' ', out);
			start_print_text(alike->exit, 0, 16, out);
		}
		fprintf(out, "\n");
	}
	if (c->n > ROWS_MAX)
		fprintf(out, "%zu more: the JSON output has all\n",
			c->n - ROWS_MAX);
}

/* Print advice, with the hours that it would save. */
static void print_advice(FILE *out, const struct ops_chains *c)
{
	double node_s = 0, gpu_s = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		n += c->v[i].alike >= ALIKE_MANY;
		node_s += c->v[i].alike_node_s;
		gpu_s += c->v[i].alike_gpu_s;
	}
	if (n)
		fprintf(out,
			"\n%zu of them went on after three tries that ended "
			"alike: a limit of three saves %.1f node hours, %.1f GPU "
			"hours\n",
			n, node_s / HOUR_S, gpu_s / HOUR_S);
}

void ops_print_chains(FILE *out, const struct ops_set *s,
		      const struct ops_rule *r, const struct ops_chains *c)
{
	char chains[PROGRESS_COUNT_MAX];

	ops_print_scope(out, s, r);
	if (!c->n) {
		fprintf(out, "none of them was tried again after it failed\n");
		return;
	}
	progress_format_count(c->n, "chain", chains);
	fprintf(out,
		"%s of %zu tries; a retry trained in %zu; tries that did "
		"not train held %.1f node hours, %.1f GPU hours\n",
		chains, c->attempts, c->recovered, c->wasted_node_s / HOUR_S,
		c->wasted_gpu_s / HOUR_S);
	print_spreads(out, c);
	print_rows(out, s, c);
	print_advice(out, c);
}

/* ---------------------------------------------------------------------- JSON --- */

static json_t *spread_json(const struct ops_spread *s)
{
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f}", "n", (json_int_t)s->n,
			 "min", s->min, "p25", s->p25, "median", s->median,
			 "p75", s->p75, "max", s->max);
}

static json_t *chain_json(const struct ops_set *s, const struct ops_chain *v)
{
	const struct ops_session *first = &s->sessions[v->first],
				 *last = first + v->n - 1,
				 *alike = &s->sessions[v->alike_last];

	return json_pack(
		"{s:o,s:o,s:I,s:I,s:I,s:I,s:s,s:f,s:f,s:I,s:o,s:o,s:f,s:f}",
		"user", json_bytes(first->user), "name",
		json_bytes(first->name), "begin", (json_int_t)first->begin_s,
		"end", (json_int_t)last->end_s, "tries", (json_int_t)v->n,
		"automatic", (json_int_t)v->automatic, "outcome",
		outcome_text(v->outcome), "wasted_node_s", v->wasted_node_s,
		"wasted_gpu_s", v->wasted_gpu_s, "alike", (json_int_t)v->alike,
		"alike_state", json_bytes(v->alike ? alike->state : ""),
		"alike_exit", json_bytes(v->alike ? alike->exit : ""),
		"alike_node_s", v->alike_node_s, "alike_gpu_s", v->alike_gpu_s);
}

json_t *ops_chains_json(const struct ops_set *s, const struct ops_rule *r,
			const struct ops_chains *c)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < c->n; i++)
		(void)json_array_append_new(rows, chain_json(s, &c->v[i]));
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:o,s:o,s:o,s:o,s:o}",
			 "nodes_min", (json_int_t)r->nodes_min, "rows_bad",
			 (json_int_t)s->n_bad, "n", (json_int_t)c->n, "tries",
			 (json_int_t)c->attempts, "trained",
			 (json_int_t)c->recovered, "wasted_node_s",
			 c->wasted_node_s, "wasted_gpu_s", c->wasted_gpu_s,
			 "gap_automatic_s", spread_json(&c->gap_automatic_s),
			 "gap_other_s", spread_json(&c->gap_other_s),
			 "down_automatic_s", spread_json(&c->down_automatic_s),
			 "down_other_s", spread_json(&c->down_other_s),
			 "chains", rows);
}

static int run_chains(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;
	AUTO(ops_set) s = NULL;
	struct ops_chains chains;
	struct ops_rule rule;
	int rc = ops_read_jobs(c, &s, &rule, err);

	(void)args;
	if (rc == 0)
		rc = ops_find_chains(s, &rule, &chains, err);
	if (rc < 0)
		return rc;
	if (c->json)
		rc = ops_print_json(ops_chains_json(s, &rule, &chains), err);
	else
		ops_print_chains(stdout, s, &rule, &chains);
	ops_chains_fini(&chains);
	return rc;
}

const struct command ops_chains_command = {
	.brief = "Show jobs of Slurm that were tried again",
	.program = {
		.name = "bootseer ops chains",
		.usage = "[OPTIONS]",
		.summary = "Show which jobs of Slurm were tried again after "
			   "they failed, whether a retry trained, and what the "
			   "tries that did not train held. Jobs of one user and "
			   "name make a chain when each begins within a day "
			   "after the one before failed or was requeued; OWN of "
			   "the retries are the scheduler's, which keep the "
			   "job's number.",
		.options = options,
		.examples = "bootseer ops chains --days 30\n"
			    "bootseer ops chains --sacct jobs.txt --nodes 8\n",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_chains,
};
