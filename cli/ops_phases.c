// SPDX-License-Identifier: Apache-2.0
/* bootseer ops phases: when a cluster saved, loaded and trained, according to its metrics. */
#include <math.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "cli/ops_server.h"
#include "cli/start_gantt.h"
#include "common/progress.h"

#define HOUR_S 3600.0
#define DAY_S 86400.0
#define ROWS_MAX 30
#define JITTER_MUCH 0.1

static const struct option_spec options[] = {
	OPS_DAYS_OPTION,
	OPS_PROM_OPTIONS(struct ops_config),
	OPS_JSON_OPTION,
	{ .key = NULL },
};

static const char *const phase_names[OPS_N_PHASES] = {
	[OPS_UNKNOWN] = "unknown",
	[OPS_TRAIN] = "train",
	[OPS_LOAD] = "load",
	[OPS_SAVE] = "save",
};

static const char *bytes_text(double bytes, char out[PROGRESS_BYTES_MAX])
{
	progress_format_bytes(bytes > 0 && bytes < 1e19 ? (uint64_t)bytes : 0,
			      out);
	return out;
}

/* ---------------------------------------------------------------------- text --- */

static void print_level(FILE *out, const char *what, const struct ops_level *l)
{
	char at[PROGRESS_BYTES_MAX], low[PROGRESS_BYTES_MAX],
		high[PROGRESS_BYTES_MAX];

	if (!l->is_found)
		fprintf(out,
			"%s do not stand out of the rest, and none is told\n",
			what);
	else if (l->high > 0)
		fprintf(out,
			"%s: more than %s/s; typical are %s/s, otherwise %s/s\n",
			what, bytes_text(l->threshold, at),
			bytes_text(l->high, high), bytes_text(l->low, low));
	else
		fprintf(out, "%s: more than %s/s, as given\n", what,
			bytes_text(l->threshold, at));
}

static void print_missing(FILE *out, const struct ops_metrics *m)
{
	if (!m->read.v)
		fprintf(out,
			"missing: bytes that nodes read (--metric-nfs-read); no "
			"load is told from training\n");
	if (!m->gpu.v)
		fprintf(out,
			"missing: the GPUs' utilisation (--metric-gpu); whatever "
			"reads much is taken for a load\n");
	else if (!m->phases.gpu.is_found)
		fprintf(out,
			"the GPUs' utilisation does not divide itself: 50 %% is "
			"taken for busy\n");
	if (!m->used.v)
		fprintf(out,
			"missing: size and free space of NFS "
			"(--metric-storage-size); its growth is unknown\n");
	if (m->jitter > JITTER_MUCH)
		fprintf(out,
			"samples come irregularly: half of them are %.0f %% "
			"apart from the others' distance or more\n",
			100 * m->jitter);
	if (m->n_too_large)
		fprintf(out,
			"missing: the counters of single nodes, %zu times "
			"around a save or load, for they are more than one "
			"answer may have; --match takes fewer series\n",
			m->n_too_large);
	if (m->warning[0]) {
		fprintf(out, "the server says: ");
		start_print_text(m->warning, 0, PROM_WARNING_MAX, out);
		(void)fputc('\n', out);
	}
}

static void print_lengths(FILE *out, const struct ops_phases *p)
{
	double all = 0;

	for (int i = 0; i < OPS_N_PHASES; i++)
		all += p->length_s[i];
	fprintf(out, "\n  %-10s %10s %8s\n", "PHASE", "HOURS", "SHARE");
	for (int i = OPS_N_PHASES - 1; i >= 0; i--)
		fprintf(out, "  %-10s %10.1f %6.2f %%\n", phase_names[i],
			p->length_s[i] / HOUR_S, 100 * p->length_s[i] / all);
	if (p->gpu.threshold > 0 && p->idle_s > 0)
		fprintf(out,
			"  in %.1f h of training the GPUs were below %.0f %%\n",
			p->idle_s / HOUR_S, p->gpu.threshold);
}

static void print_takes(FILE *out, const struct ops_mean *t)
{
	if (!t->n)
		fprintf(out, " %18s", "-");
	else if (isinf(t->error))
		fprintf(out, " %16.1f s", t->mean);
	else
		fprintf(out, " %9.1f +-%5.1f s", t->mean, t->error);
}

static void print_settings(FILE *out, const struct ops_phases *p)
{
	char bytes[PROGRESS_BYTES_MAX], node[PROGRESS_BYTES_MAX],
		peak[PROGRESS_BYTES_MAX];

	if (p->n_settings)
		fprintf(out, "\n  %-17s %6s %11s %9s %18s %11s %11s %13s\n",
			"FROM", "SAVES", "INTERVAL", "+-", "TAKES", "BYTES",
			"BY NODE", "PEAK");
	for (size_t i = 0; i < p->n_settings && i < ROWS_MAX; i++) {
		const struct ops_setting *s = &p->settings[i];
		char from[32];

		fprintf(out, "  %-17s %6zu %7.1f min %5.1f min",
			ops_time_text(s->from_s, from), s->saves,
			s->interval_s / 60, s->sd_s / 60);
		print_takes(out, &s->takes_s);
		fprintf(out, " %11s %11s %11s/s\n", bytes_text(s->bytes, bytes),
			s->takes_s.n ? bytes_text(s->node_mid, node) : "-",
			bytes_text(s->peak, peak));
	}
	if (p->n_settings > ROWS_MAX)
		fprintf(out, "  more of them: the JSON output has all\n");
}

static void print_used(FILE *out, const struct ops_series *used)
{
	size_t first = SIZE_MAX, last = 0;
	char from[PROGRESS_BYTES_MAX], to[PROGRESS_BYTES_MAX],
		day[PROGRESS_BYTES_MAX];
	double days;

	for (size_t i = 0; used->v && i < used->n; i++)
		if (!isnan(used->v[i])) {
			first = first == SIZE_MAX ? i : first;
			last = i;
		}
	if (first >= last)
		return;
	days = (double)(last - first) * used->step_s / DAY_S;
	fprintf(out,
		"\nthe fullest file system of NFS went from %s to %s: %s%s a "
		"day\n",
		bytes_text(used->v[first], from), bytes_text(used->v[last], to),
		used->v[last] < used->v[first] ? "-" : "",
		bytes_text(fabs(used->v[last] - used->v[first]) / days, day));
}

void ops_print_phases(FILE *out, const struct ops_metrics *m)
{
	const struct ops_phases *p = &m->phases;
	char from[32], to[32], count[PROGRESS_COUNT_MAX];
	size_t alone = 0;

	progress_format_count((uint64_t)m->nodes, "node", count);
	fprintf(out, "%s to %s, a sample each %u s of %s\n",
		ops_time_text((double)m->from_s, from),
		ops_time_text((double)m->to_s, to), m->step_s, count);
	print_level(out, "saves", &p->write);
	if (m->read.v)
		print_level(out, "loads", &p->read);
	print_missing(out, m);
	print_lengths(out, p);
	for (size_t i = 0; i < p->n_saves; i++)
		alone += p->saves[i].setting == SIZE_MAX;
	progress_format_count(p->n_saves, "save", count);
	fprintf(out, "\n%s, ", count);
	progress_format_count(p->n_loads, "load", count);
	fprintf(out, "%s\n", count);
	print_settings(out, p);
	if (alone)
		fprintf(out,
			"  %zu saves are of no configuration: three intervals "
			"in a row have to be alike\n",
			alone);
	print_used(out, &m->used);
}

/* ---------------------------------------------------------------------- JSON --- */

static json_t *level_json(const struct ops_level *l)
{
	if (!l->is_found)
		return json_null();
	return json_pack("{s:f,s:f,s:f}", "threshold", l->threshold, "low",
			 l->low, "high", l->high);
}

static json_t *bursts_json(const struct ops_burst *v, size_t n)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(
			rows,
			json_pack("{s:f,s:f,s:f,s:f,s:o,s:I,s:o}", "begin_s",
				  v[i].begin_s, "end_s", v[i].end_s, "bytes",
				  v[i].bytes, "peak", v[i].peak, "takes_s",
				  v[i].nodes ? ops_number(v[i].takes_s)
					     : json_null(),
				  "nodes", (json_int_t)v[i].nodes, "setting",
				  v[i].setting == SIZE_MAX
					  ? json_null()
					  : json_integer(
						    (json_int_t)v[i].setting)));
	return rows;
}

static json_t *settings_json(const struct ops_phases *p)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < p->n_settings; i++) {
		const struct ops_setting *s = &p->settings[i];

		(void)json_array_append_new(
			rows,
			json_pack(
				"{s:f,s:f,s:I,s:I,s:f,s:f,s:f,s:f,s:I,s:o,s:o,"
				"s:f,s:f,s:f}",
				"from_s", s->from_s, "to_s", s->to_s, "saves",
				(json_int_t)s->saves, "intervals",
				(json_int_t)s->n, "interval_s", s->interval_s,
				"deviation_s", s->sd_s, "bytes", s->bytes,
				"peak", s->peak, "timed",
				(json_int_t)s->takes_s.n, "takes_s",
				s->takes_s.n ? ops_number(s->takes_s.mean)
					     : json_null(),
				"takes_error_s", ops_number(s->takes_s.error),
				"node_bytes_low", s->node_low,
				"node_bytes_median", s->node_mid,
				"node_bytes_high", s->node_high));
	}
	return rows;
}

static json_t *lengths_json(const struct ops_phases *p)
{
	json_t *o = json_object();

	for (int i = 0; i < OPS_N_PHASES; i++)
		(void)json_object_set_new(o, phase_names[i],
					  json_real(p->length_s[i]));
	return o;
}

json_t *ops_phases_json(const struct ops_metrics *m)
{
	const struct ops_phases *p = &m->phases;

	return json_pack(
		"{s:I,s:I,s:I,s:f,s:f,s:b,s:b,s:b,s:I,s:I,s:o,s:o,s:o,s:o,s:f,s:o,"
		"s:o,s:o}",
		"from_s", (json_int_t)m->from_s, "to_s", (json_int_t)m->to_s,
		"sample_s", (json_int_t)m->step_s, "jitter", m->jitter, "nodes",
		m->nodes, "has_reads", m->read.v != NULL, "has_gpus",
		m->gpu.v != NULL, "has_storage", m->used.v != NULL, "requests",
		(json_int_t)m->requests, "too_large",
		(json_int_t)m->n_too_large, "save_rate", level_json(&p->write),
		"load_rate", level_json(&p->read), "gpu", level_json(&p->gpu),
		"phases_s", lengths_json(p), "idle_s", p->idle_s, "settings",
		settings_json(p), "saves", bursts_json(p->saves, p->n_saves),
		"loads", bursts_json(p->loads, p->n_loads));
}

static int run_phases(const void *config, char **args, struct error *err)
{
	struct ops_config own;
	const struct ops_config *c = &own;
	AUTO(ops_server) server = NULL;
	AUTO(ops_metrics) m = NULL;
	int rc = ops_server_open(config, &own, &server, err);

	(void)args;
	if (rc == 0)
		rc = ops_read_metrics(&c->prom, c->days, &m, err);
	if (rc < 0)
		return rc;
	if (c->json)
		return ops_print_json(ops_phases_json(m), err);
	ops_print_phases(stdout, m);
	return 0;
}

const struct command ops_phases_command = {
	.brief = "Show when a cluster saved, loaded and trained",
	.check = ops_check_metrics,
	.program = {
		.name = "bootseer ops phases",
		.usage = "--prometheus URL [OPTIONS]",
		.summary = "Show by the metrics that a Prometheus has of a "
			   "cluster on NFS when it saved checkpoints, loaded and "
			   "trained: how many saves there were, how far apart, "
			   "how long one takes, how much each node writes, how "
			   "fast the storage fills. Thresholds are found in the "
			   "data.",
		.options = options,
		.examples =
			"bootseer ops phases --prometheus https://prom:9090\n"
			"bootseer ops phases --prometheus http://localhost:9090 "
			"--from 2025-10-01 --to 2025-11-25 --json\n",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_phases,
};
