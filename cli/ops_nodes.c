// SPDX-License-Identifier: Apache-2.0
/* bootseer ops nodes: nodes that large jobs do not use, and whether that is intended. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "cli/ops_history.h"
#include "cli/start_gantt.h"
#include "common/json.h"

#define ROWS_MAX 50
#define HOUR_S 3600.0

static const struct option_spec options[] = {
	OPS_OPTIONS,
	OPS_DRAINS_OPTION,
	OPS_JSON_OPTION,
	{ .key = NULL },
};

static double share_of(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

void ops_print_nodes(FILE *out, const struct ops_set *s,
		     const struct ops_rule *r, const struct ops_exclusions *e)
{
	size_t n = 0;

	ops_print_scope(out, s, r);
	if (!e->sessions)
		return;
	fprintf(out, "\n  %-28s %8s %10s %8s %6s", "NODE", "LEFT OUT", "HOURS",
		"SHARE", "HELD");
	if (s->n_outages)
		fprintf(out, " %8s %6s", "CORDONED", "AWAY");
	(void)fputc('\n', out);
	for (; n < e->n && n < ROWS_MAX && e->v[n].sessions; n++) {
		const struct ops_exclusion *v = &e->v[n];

		fprintf(out, "  ");
		start_print_text(s->nodes[v->node], 28, 255, out);
		fprintf(out, " %8zu %10.1f %6.1f %% %4.0f %%", v->sessions,
			v->excluded_s / HOUR_S,
			100 * share_of(v->excluded_s, e->run_s),
			100 * share_of(v->held_s, v->excluded_s));
		if (s->n_outages)
			fprintf(out, " %6.0f %% %4.0f %%",
				100 * share_of(v->cordoned_s, v->excluded_s),
				100 * share_of(v->away_s, v->excluded_s));
		(void)fputc('\n', out);
	}
	if (!n)
		fprintf(out, "no node was left out of any of them\n");
	else if (n < e->n && e->v[n].sessions)
		fprintf(out, "more of them: the JSON output has all\n");
}

json_t *ops_nodes_json(const struct ops_set *s, const struct ops_rule *r,
		       const struct ops_exclusions *e)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < e->n; i++)
		(void)json_array_append_new(
			rows,
			json_pack("{s:o,s:I,s:f,s:f,s:f,s:f}", "node",
				  json_bytes(s->nodes[e->v[i].node]),
				  "left_out", (json_int_t)e->v[i].sessions,
				  "excluded_s", e->v[i].excluded_s, "held_s",
				  e->v[i].held_s, "cordoned_s",
				  e->v[i].cordoned_s, "away_s",
				  e->v[i].away_s));
	return json_pack("{s:I,s:I,s:I,s:f,s:b,s:o}", "nodes_min",
			 (json_int_t)r->nodes_min, "rows_bad",
			 (json_int_t)s->n_bad, "jobs", (json_int_t)e->sessions,
			 "run_s", e->run_s, "has_outages", s->n_outages > 0,
			 "nodes", rows);
}

static int show_nodes(const struct ops_config *c, const struct ops_set *s,
		      const struct ops_rule *rule,
		      const struct ops_exclusions *e, struct error *err)
{
	struct ops_history h;
	int rc = ops_history_make(s, rule, e, NULL, &h, err);

	if (rc == 0 && c->json) {
		json_t *v = ops_nodes_json(s, rule, e);

		(void)json_object_set_new(v, "history", ops_history_json(&h));
		rc = ops_print_json(v, err);
	} else if (rc == 0) {
		ops_print_nodes(stdout, s, rule, e);
		ops_history_print(stdout, &h);
	}
	ops_history_fini(&h);
	return rc;
}

static int run_nodes(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;
	AUTO(ops_set) s = NULL;
	AUTO_FINI(ops_exclusions) e = { .n = 0 };
	struct ops_rule rule;
	int rc = ops_read_jobs(c, &s, &rule, err);

	(void)args;
	if (rc == 0)
		rc = ops_add_drains(c, s, err);
	if (rc == 0)
		rc = ops_find_exclusions(s, &rule, &e, err);
	if (rc == 0)
		rc = ops_add_outages(s, &rule, &e, err);
	if (rc == 0)
		rc = show_nodes(c, s, &rule, &e, err);
	return rc;
}

const struct command ops_nodes_command = {
	.brief = "Show nodes that large jobs of Slurm run without",
	.program = {
		.name = "bootseer ops nodes",
		.usage = "[OPTIONS]",
		.summary = "Show which nodes large jobs of Slurm ran without, "
			   "the longest first: of how many they were left out, "
			   "for how many hours, and the share of all hours of "
			   "large jobs. HELD is the share of it in which another "
			   "job ran on that node alone: near 100 % somebody "
			   "keeps the node away on purpose, near 0 % the "
			   "scheduler did not choose it, or it was down. "
			   "Where cordons, drains and outages are known, so are "
			   "their shares, and each node's history is one list.",
		.options = options,
		.examples = "bootseer ops nodes\n"
			    "bootseer ops nodes --sacct jobs.txt --nodes 60\n",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_nodes,
};
