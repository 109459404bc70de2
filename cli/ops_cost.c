// SPDX-License-Identifier: Apache-2.0
/* bootseer ops cost: the cost of failures, and the best interval between saves. */
#include <math.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "cli/ops_server.h"
#include "common/clock.h"
#include "common/duration.h"

#define HOUR_S 3600.0
/* The model assumes that a save is short compared with the time between failures. */
#define SAVE_SHARE_MAX 0.1

static const struct option_spec options[] = {
	OPS_OPTIONS,
	OPS_JSON_OPTION,
	OPS_TRAINED_OPTION,
	OPS_SAVE_OPTIONS,
	OPS_PROM_OPTIONS(struct ops_config),
	{ .key = NULL },
};

/* Costs with the present interval between saves, and with the best interval. */
struct ops_plan {
	bool has_now, has_best;
	struct ops_share now, best;
	double saved; /* share of all time that the best interval saves */
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

static void print_share(FILE *out, const char *what, const struct ops_share *s)
{
	char interval[DURATION_TEXT_MAX];

	fprintf(out, "  %-6s %-14s %7.2f %% %9.2f %% %7.2f %%\n", what,
		ops_text_of(s->interval_s, interval), 100 * s->save,
		100 * s->lost, 100 * (s->save + s->lost));
}

static void print_plan(FILE *out, const struct ops_config *c,
		       const struct ops_cost *cost, const struct ops_plan *p)
{
	double save_s = (double)c->save_ns / (double)NS_PER_S;

	if (!p->has_best) {
		if (cost->failed)
			fprintf(out,
				"with --save TIME the best interval between "
				"checkpoints is computed, with --interval what "
				"today's costs\n");
		return;
	}
	fprintf(out, "\n  %-6s %-14s %9s %11s %9s\n", "", "INTERVAL", "SAVES",
		"LOST WORK", "BOTH");
	if (p->has_now)
		print_share(out, "now", &p->now);
	print_share(out, "best", &p->best);
	if (p->has_now)
		fprintf(out,
			"the best interval gives back %.2f %% of all time: %.1f "
			"GPU hours of %.1f\n",
			100 * p->saved, p->saved * cost->gpu_s / HOUR_S,
			cost->gpu_s / HOUR_S);
	if (save_s > SAVE_SHARE_MAX * cost->mtbf_s)
		fprintf(out,
			"this is rough: a save takes more than a tenth of the "
			"time between failures, for which the model is not "
			"made\n");
}

/* --------------------------------------------------------------- with metrics --- */

/* Print the range of the best interval, from the errors of the save's length and the failure
 * rate. */
static void print_bounds(FILE *out, const struct ops_mean *takes,
			 const struct ops_cost *cost)
{
	char low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];
	double error = isinf(takes->error) ? 0 : takes->error;

	fprintf(out,
		"  the best one is between %s and %s, by the bounds of "
		"both\n",
		ops_text_of(ops_best_interval(fmax(0, takes->mean - error),
					      cost->low_s),
			    low),
		ops_text_of(ops_best_interval(takes->mean + error,
					      cost->high_s),
			    high));
}

static struct ops_plan plan_setting(const struct ops_setting *s,
				    const struct ops_cost *cost)
{
	const struct ops_config c = {
		.save_ns = s->takes_s.n ? (int64_t)(s->takes_s.mean *
						    (double)NS_PER_S)
					: 0,
		.interval_ns = (int64_t)(s->interval_s * (double)NS_PER_S),
	};

	return make_plan(&c, cost);
}

static void print_setting(FILE *out, const struct ops_setting *s,
			  const struct ops_cost *cost)
{
	struct ops_plan p = plan_setting(s, cost);
	char from[32];

	fprintf(out, "\nsaves from %s on", ops_time_text(s->from_s, from));
	if (!s->takes_s.n || !(s->takes_s.mean > 0)) {
		fprintf(out, ": what one takes is unknown\n");
		return;
	}
	fprintf(out, " take %.1f s", s->takes_s.mean);
	if (isfinite(s->takes_s.error))
		fprintf(out, " (+- %.1f s, 95 %%)", s->takes_s.error);
	fprintf(out, "%s\n",
		p.has_best ? ""
			   : "; without a failure no interval is "
			     "best");
	if (!p.has_best)
		return;
	fprintf(out, "  %-6s %-14s %9s %11s %9s\n", "", "INTERVAL", "SAVES",
		"LOST WORK", "BOTH");
	print_share(out, "now", &p.now);
	print_share(out, "best", &p.best);
	print_bounds(out, &s->takes_s, cost);
}

static void print_losses(FILE *out, const struct ops_losses *l)
{
	size_t without = 0;
	char mean[DURATION_TEXT_MAX];

	for (size_t i = 0; i < l->n; i++)
		without += !l->v[i].has_save;
	if (l->n)
		fprintf(out,
			"\n%zu failures lost %.1f h since the last save "
			"before them, %s in the mean: %.1f GPU hours\n",
			l->n, l->sum_s / HOUR_S,
			ops_text_of(l->sum_s / (double)l->n, mean),
			l->gpu_s / HOUR_S);
	if (without)
		fprintf(out, "%zu of them had no save, and lost all\n",
			without);
	if (l->n_unknown)
		fprintf(out, "of %zu more the metrics do not say it\n",
			l->n_unknown);
}

void ops_print_cost(FILE *out, const struct ops_cost_view *v)
{
	char trained[DURATION_TEXT_MAX], mtbf[DURATION_TEXT_MAX],
		low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];
	const struct ops_cost *cost = v->cost;
	struct ops_plan plan = make_plan(v->config, cost);

	ops_print_scope(out, v->set, v->rule);
	fprintf(out,
		"%zu of them ran %s or longer, or ended well: %.1f h, %.1f "
		"GPU hours; %zu of these failed\n",
		cost->sessions,
		ops_text_of((double)v->rule->trained_s, trained),
		cost->run_s / HOUR_S, cost->gpu_s / HOUR_S, cost->failed);
	if (cost->early)
		fprintf(out,
			"%zu more failed before that, and are not "
			"counted\n",
			cost->early);
	if (cost->sessions)
		fprintf(out,
			"mean time between failures: %s; with 95 %% "
			"certainty between %s and %s, if failures come at "
			"random\n",
			ops_text_of(cost->mtbf_s, mtbf),
			ops_text_of(cost->low_s, low),
			ops_text_of(cost->high_s, high));
	if (v->l)
		print_losses(out, v->l);
	for (size_t i = 0; v->m && i < v->m->phases.n_settings; i++)
		print_setting(out, &v->m->phases.settings[i], cost);
	if (!v->m || v->config->save_ns)
		print_plan(out, v->config, cost, &plan);
}

/* ---------------------------------------------------------------------- JSON --- */

static json_t *share_json(bool is_there, const struct ops_share *s)
{
	return is_there
		       ? json_pack("{s:f,s:f,s:f}", "interval_s", s->interval_s,
				   "save", s->save, "lost", s->lost)
		       : json_null();
}

static json_t *setting_plans_json(const struct ops_cost_view *v)
{
	json_t *rows = v->m ? json_array() : json_null();

	for (size_t i = 0; v->m && i < v->m->phases.n_settings; i++) {
		const struct ops_setting *s = &v->m->phases.settings[i];
		struct ops_plan p = plan_setting(s, v->cost);

		(void)json_array_append_new(
			rows,
			json_pack("{s:f,s:I,s:o,s:o,s:o,s:o}", "from_s",
				  s->from_s, "saves", (json_int_t)s->saves,
				  "takes_s",
				  s->takes_s.n ? ops_number(s->takes_s.mean)
					       : json_null(),
				  "takes_error_s", ops_number(s->takes_s.error),
				  "now", share_json(p.has_now, &p.now), "best",
				  share_json(p.has_best, &p.best)));
	}
	return rows;
}

static json_t *losses_json(const struct ops_losses *l)
{
	json_t *rows = json_array();

	if (!l) {
		json_decref(rows);
		return json_null();
	}
	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(rows, json_real(l->v[i].lost_s));
	return json_pack("{s:I,s:I,s:f,s:f,s:o}", "failures", (json_int_t)l->n,
			 "unknown", (json_int_t)l->n_unknown, "sum_s", l->sum_s,
			 "gpu_s", l->gpu_s, "lost_s", rows);
}

json_t *ops_cost_json(const struct ops_cost_view *v)
{
	const struct ops_cost *c = v->cost;
	struct ops_plan p = make_plan(v->config, c);

	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:o,s:o,s:o,s:o,s:o,s:o,"
			 "s:o}",
			 "nodes_min", (json_int_t)v->rule->nodes_min,
			 "rows_bad", (json_int_t)v->set->n_bad, "jobs",
			 (json_int_t)c->sessions, "failed",
			 (json_int_t)c->failed, "failed_early",
			 (json_int_t)c->early, "run_s", c->run_s, "gpu_s",
			 c->gpu_s, "mtbf_s", ops_number(c->mtbf_s),
			 "mtbf_low_s", ops_number(c->low_s), "mtbf_high_s",
			 ops_number(c->high_s), "now",
			 share_json(p.has_now, &p.now), "best",
			 share_json(p.has_best, &p.best), "settings",
			 setting_plans_json(v), "losses", losses_json(v->l));
}

static int check_cost(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;

	(void)args;
	return c->prom.url || c->prom.data ? ops_prom_check(&c->prom, err) : 0;
}

static int show_cost(const struct ops_cost_view *v, struct error *err)
{
	if (v->config->json)
		return ops_print_json(ops_cost_json(v), err);
	ops_print_cost(stdout, v);
	return 0;
}

static int run_cost(const void *config, char **args, struct error *err)
{
	struct ops_config own;
	const struct ops_config *c = &own;
	AUTO(ops_server) server = NULL;
	AUTO(ops_set) s = NULL;
	AUTO(ops_metrics) m = NULL;
	AUTO_FINI(ops_losses) losses = { .n = 0 };
	struct ops_cost cost;
	struct ops_rule rule;
	struct ops_cost_view v = { c, NULL, &rule, &cost, NULL, NULL };
	int rc = ops_server_open(config, &own, &server, err);

	(void)args;
	if (rc == 0)
		rc = ops_read_jobs(c, &s, &rule, err);
	if (rc == 0 && c->prom.url)
		rc = ops_read_metrics(&c->prom, c->days, &m, err);
	if (rc == 0 && m)
		rc = ops_find_losses(s, &rule, &m->phases, &m->write, &losses,
				     err);
	if (rc < 0)
		return rc;
	ops_find_cost(s, &rule, &cost);
	v.set = s;
	v.m = m;
	v.l = m ? &losses : NULL;
	return show_cost(&v, err);
}

const struct command ops_cost_command = {
	.brief = "Show what failures cost, and how often to save",
	.check = check_cost,
	.program = {
		.name = "bootseer ops cost",
		.usage = "[OPTIONS]",
		.summary = "Show the mean time between failures of large jobs "
			   "of Slurm, and, where a save's time is given, which "
			   "interval between checkpoints costs least (Young, "
			   "1974: time for saves, and work that is lost since "
			   "the last one) beside what today's costs. A job that "
			   "a person or its time limit ended did not fail. With "
			   "--prometheus, the time and distance of saves, and "
			   "what each failure lost since the last one, are "
			   "measured.",
		.options = options,
		.examples = "bootseer ops cost --save 18s --interval 2h\n"
			    "bootseer ops cost --sacct jobs.txt --nodes 60\n"
			    "bootseer ops cost --prometheus https://prom:9090\n",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_cost,
};
