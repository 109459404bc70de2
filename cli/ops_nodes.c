// SPDX-License-Identifier: Apache-2.0
/* bootseer ops nodes: which nodes large jobs run without, and whether that is meant. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "cli/start_gantt.h"
#include "common/duration.h"
#include "common/json.h"

#define ROWS_MAX 50
#define HOUR_S 3600.0

static const struct option_spec options[] = {
	OPS_OPTIONS,
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
	fprintf(out, "\n  %-28s %8s %10s %8s %6s\n", "NODE", "LEFT OUT",
		"HOURS", "SHARE", "HELD");
	for (; n < e->n && n < ROWS_MAX && e->v[n].sessions; n++) {
		const struct ops_exclusion *v = &e->v[n];

		fprintf(out, "  ");
		start_print_text(s->nodes[v->node], 28, 255, out);
		fprintf(out, " %8zu %10.1f %6.1f %% %4.0f %%\n", v->sessions,
			v->excluded_s / HOUR_S,
			100 * share_of(v->excluded_s, e->run_s),
			100 * share_of(v->held_s, v->excluded_s));
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
			json_pack("{s:o,s:I,s:f,s:f}", "node",
				  json_bytes(s->nodes[e->v[i].node]),
				  "left_out", (json_int_t)e->v[i].sessions,
				  "excluded_s", e->v[i].excluded_s, "held_s",
				  e->v[i].held_s));
	return json_pack("{s:I,s:I,s:I,s:f,s:o}", "nodes_min",
			 (json_int_t)r->nodes_min, "rows_bad",
			 (json_int_t)s->n_bad, "jobs", (json_int_t)e->sessions,
			 "run_s", e->run_s, "nodes", rows);
}

static int run_nodes(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;
	AUTO(ops_set) s = NULL;
	struct ops_exclusions e;
	struct ops_rule rule;
	int rc = ops_read_jobs(c, &s, &rule, err);

	(void)args;
	if (rc == 0)
		rc = ops_find_exclusions(s, &rule, &e, err);
	if (rc < 0)
		return rc;
	if (c->json)
		rc = ops_print_json(ops_nodes_json(s, &rule, &e), err);
	else
		ops_print_nodes(stdout, s, &rule, &e);
	ops_exclusions_fini(&e);
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
			   "scheduler did not choose it, or it was down.",
		.options = options,
		.examples = "bootseer ops nodes\n"
			    "bootseer ops nodes --sacct jobs.txt --nodes 60\n",
		.see_also = "bootseer(1)",
		.min_args = 0,
		.max_args = 0,
	},
	.config_size = sizeof(struct ops_config),
	.run = run_nodes,
};
