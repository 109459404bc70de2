// SPDX-License-Identifier: Apache-2.0
/* bootseer ops cost: what failures cost, and how often to save. */
#include <math.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "common/clock.h"
#include "common/duration.h"

#define HOUR_S 3600.0
/* The model's: a save is short beside the time between failures. */
#define SAVE_SHARE_MAX 0.1

static const struct option_spec options[] = {
	OPS_OPTIONS,
	OPS_TRAINED_OPTION,
	{ .key = "save",
	  .type = OPTION_DURATION,
	  .arg = "TIME",
	  .min = "1ms",
	  .max = "24h",
	  .offset = offsetof(struct ops_config, save_ns),
	  .help = "Training stands still so long for a checkpoint "
		  "(bootseer start checkpoints JOB shows it)." },
	{ .key = "interval",
	  .type = OPTION_DURATION,
	  .arg = "TIME",
	  .min = "1s",
	  .max = "720h",
	  .offset = offsetof(struct ops_config, interval_ns),
	  .help = "Checkpoints are that far apart now." },
	{ .key = NULL },
};

/* The cost of today's interval between saves, and of the best one. */
struct ops_plan {
	bool has_now, has_best;
	struct ops_share now, best;
	double saved; /* of all time */
};

static struct ops_plan make_plan(const struct ops_config *c,
				 const struct ops_cost *cost)
{
	double save_s = (double)c->save_ns / (double)NS_PER_S;
	struct ops_plan p = { .has_best = save_s > 0 && cost->failed > 0 };

	p.has_now = p.has_best && c->interval_ns > 0;
	if (p.has_best)
		p.best = ops_share_of(save_s,
				      ops_best_interval(save_s, cost->mtbf_s),
				      cost->mtbf_s);
	if (p.has_now) {
		p.now = ops_share_of(save_s,
				     (double)c->interval_ns / (double)NS_PER_S,
				     cost->mtbf_s);
		p.saved = p.now.save + p.now.lost - p.best.save - p.best.lost;
	}
	return p;
}

static void print_share(const char *what, const struct ops_share *s)
{
	char interval[DURATION_TEXT_MAX];

	printf("  %-6s %-14s %7.2f %% %9.2f %% %7.2f %%\n", what,
	       ops_text_of(s->interval_s, interval), 100 * s->save,
	       100 * s->lost, 100 * (s->save + s->lost));
}

static void print_plan(const struct ops_config *c, const struct ops_cost *cost,
		       const struct ops_plan *p)
{
	double save_s = (double)c->save_ns / (double)NS_PER_S;

	if (!p->has_best) {
		if (cost->failed)
			printf("with --save TIME the best interval between "
			       "checkpoints is computed, with --interval what "
			       "today's costs\n");
		return;
	}
	printf("\n  %-6s %-14s %9s %11s %9s\n", "", "INTERVAL", "SAVES",
	       "LOST WORK", "BOTH");
	if (p->has_now)
		print_share("now", &p->now);
	print_share("best", &p->best);
	if (p->has_now)
		printf("the best interval gives back %.2f %% of all time: %.1f "
		       "GPU hours of %.1f\n",
		       100 * p->saved, p->saved * cost->gpu_s / HOUR_S,
		       cost->gpu_s / HOUR_S);
	if (save_s > SAVE_SHARE_MAX * cost->mtbf_s)
		printf("this is rough: a save takes more than a tenth of the "
		       "time between failures, for which the model is not "
		       "made\n");
}

static void print_cost(const struct ops_config *c, const struct ops_set *s,
		       const struct ops_rule *r, const struct ops_cost *cost,
		       const struct ops_plan *p)
{
	char trained[DURATION_TEXT_MAX], mtbf[DURATION_TEXT_MAX],
		low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];

	ops_print_scope(s, r);
	printf("%zu of them ran %s or longer, or ended well: %.1f h, %.1f GPU "
	       "hours; %zu of these failed\n",
	       cost->sessions, ops_text_of((double)r->trained_s, trained),
	       cost->run_s / HOUR_S, cost->gpu_s / HOUR_S, cost->failed);
	if (cost->early)
		printf("%zu more failed before that, and are not counted\n",
		       cost->early);
	if (cost->sessions)
		printf("mean time between failures: %s; with 95 %% certainty "
		       "between %s and %s, if failures come at random\n",
		       ops_text_of(cost->mtbf_s, mtbf),
		       ops_text_of(cost->low_s, low),
		       ops_text_of(cost->high_s, high));
	print_plan(c, cost, p);
}

/* ---------------------------------------------------------------------- JSON --- */

static json_t *share_json(bool is_there, const struct ops_share *s)
{
	return is_there
		       ? json_pack("{s:f,s:f,s:f}", "interval_s", s->interval_s,
				   "save", s->save, "lost", s->lost)
		       : json_null();
}

static json_t *cost_json(const struct ops_set *s, const struct ops_rule *r,
			 const struct ops_cost *c, const struct ops_plan *p)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:o,s:o,s:o,s:o,s:o}",
			 "nodes_min", (json_int_t)r->nodes_min, "rows_bad",
			 (json_int_t)s->n_bad, "jobs", (json_int_t)c->sessions,
			 "failed", (json_int_t)c->failed, "failed_early",
			 (json_int_t)c->early, "run_s", c->run_s, "gpu_s",
			 c->gpu_s, "mtbf_s", ops_number(c->mtbf_s),
			 "mtbf_low_s", ops_number(c->low_s), "mtbf_high_s",
			 ops_number(c->high_s), "now",
			 share_json(p->has_now, &p->now), "best",
			 share_json(p->has_best, &p->best));
}

static int run_cost(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;
	AUTO(ops_set) s = NULL;
	struct ops_cost cost;
	struct ops_rule rule;
	struct ops_plan plan;
	int rc = ops_read_jobs(c, &s, &rule, err);

	(void)args;
	if (rc < 0)
		return rc;
	ops_find_cost(s, &rule, &cost);
	plan = make_plan(c, &cost);
	if (c->json)
		return ops_print_json(cost_json(s, &rule, &cost, &plan), err);
	print_cost(c, s, &rule, &cost, &plan);
	return 0;
}

const struct command ops_cost_command = {
	.brief = "Show what failures cost, and how often to save",
	.program = {
		.name = "bootseer ops cost",
		.usage = "[OPTIONS]",
		.summary = "Show the mean time between failures of large jobs "
			   "of Slurm, and, where a save's time is given, which "
			   "interval between checkpoints costs least (Young, "
			   "1974: time for saves, and work that is lost since "
			   "the last one) beside what today's costs. A job that "
			   "a person or its time limit ended did not fail.",
		.options = options,
		.examples = "bootseer ops cost --save 18s --interval 2h\n"
			    "bootseer ops cost --sacct jobs.txt --nodes 60\n",
		.see_also = "bootseer(1)",
		.min_args = 0,
		.max_args = 0,
	},
	.config_size = sizeof(struct ops_config),
	.run = run_cost,
};
