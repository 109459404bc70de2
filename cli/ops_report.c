// SPDX-License-Identifier: Apache-2.0
/* bootseer ops report: all analyses that the available sources allow, in one file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/ops.h"
#include "cli/ops_figure.h"
#include "cli/ops_history.h"
#include "cli/ops_server.h"
#include "cli/ops_study.h"
#include "common/fs.h"
#include "common/json.h"

#define HOUR_S 3600.0
#define TB 1e12
#define GB 1e9
#define BARS_MAX 40
#define REPORT_MODE 0644
#define SESSIONS_MAX 5000u /* most sessions in the JSON form */

static const struct option_spec options[] = {
	OPS_OPTIONS,
	OPS_DRAINS_OPTION,
	OPS_TRAINED_OPTION,
	OPS_SAVE_OPTIONS,
	OPS_RESTART_OPTIONS,
	OPS_PRECURSOR_OPTIONS,
	OPS_PROM_OPTIONS(struct ops_config),
	{ .key = "out",
	  .type = OPTION_STRING,
	  .arg = "FILE",
	  .offset = offsetof(struct ops_config, out),
	  .help = "Write the report into this file: NAME.html, NAME.md or "
		  "NAME.json." },
	{ .key = NULL },
};

enum report_source {
	REPORT_JOBS,
	REPORT_METRICS,
	REPORT_PEERS,
	N_REPORT_SOURCES
};

struct ops_report {
	const struct ops_config *c;
	struct ops_set *set; /* NULL: no jobs known */
	struct ops_rule rule;
	struct ops_chains chains;
	struct ops_exclusions nodes;
	struct ops_history history;
	struct ops_cost cost;
	struct ops_metrics *m; /* NULL: no metrics of the cluster known */
	struct ops_losses losses;
	struct ops_inquiry *q; /* NULL: no metrics of nodes known */
	struct error missing[N_REPORT_SOURCES]; /* why a source is missing */
};

/* An analysis as a part of the report. */
struct ops_report_part {
	const char *name, *title;
	const char *assumes; /* its assumptions */
	enum report_source needs;
	void (*print)(const struct ops_report *r, FILE *out);
	void (*draw)(const struct ops_report *r,
		     FILE *out); /* NULL: no figure */
	json_t *(*json)(const struct ops_report *r);
};

static struct ops_cost_view report_cost_view(const struct ops_report *r)
{
	return (struct ops_cost_view){ r->c,     r->set,
				       &r->rule, &r->cost,
				       r->m,     r->m ? &r->losses : NULL };
}

/* --------------------------------------------------------------------- parts --- */

static void print_report_phases(const struct ops_report *r, FILE *out)
{
	ops_print_phases(out, r->m);
}

static void draw_loads(const struct ops_phases *p, FILE *out)
{
	struct ops_figure_bar bars[BARS_MAX];
	char labels[BARS_MAX][32];
	size_t n = p->n_loads < BARS_MAX ? p->n_loads : BARS_MAX;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ops_burst *b = &p->loads[p->n_loads - n + i];

		bars[i].label = ops_time_text(b->begin_s, labels[i]);
		bars[i].value = (b->end_s - b->begin_s) / 60;
		sum += bars[i].value;
	}
	if (n)
		ops_figure_bars("Loads, the last ones, and their mean", bars, n,
				"min", sum / (double)n, out);
}

static void draw_report_phases(const struct ops_report *r, FILE *out)
{
	const struct ops_metrics *m = r->m;

	const struct ops_timeline t = { &m->phases, &m->write, r->set, &r->rule,
					r->q };

	ops_figure_timeline(&t, out);
	if (m->gpu.v)
		ops_figure_line("GPU utilisation, mean of all, the lowest",
				&m->gpu, 1, "%", true, out);
	ops_figure_line("Writes by NFS, all nodes", &m->write, GB, "GB/s",
			false, out);
	if (m->read.v)
		ops_figure_line("Reads by NFS, all nodes", &m->read, GB, "GB/s",
				false, out);
	if (m->used.v)
		ops_figure_line("Used space of NFS", &m->used, TB, "TB", false,
				out);
}

static json_t *report_phases_json(const struct ops_report *r)
{
	return ops_phases_json(r->m);
}

static void print_report_restart(const struct ops_report *r, FILE *out)
{
	ops_print_restart(out, r->c, r->m);
}

static void draw_report_restart(const struct ops_report *r, FILE *out)
{
	draw_loads(&r->m->phases, out);
}

static json_t *report_restart_json(const struct ops_report *r)
{
	return ops_restart_json(r->c, r->m);
}

static void print_report_cost(const struct ops_report *r, FILE *out)
{
	const struct ops_cost_view v = report_cost_view(r);

	ops_print_cost(out, &v);
}

static void draw_report_cost(const struct ops_report *r, FILE *out)
{
	const struct ops_losses *l = &r->losses;
	struct ops_figure_bar bars[BARS_MAX];
	size_t n = l->n < BARS_MAX ? l->n : BARS_MAX;

	for (size_t i = 0; i < n; i++) {
		const struct ops_loss *v = &l->v[l->n - n + i];

		bars[i].label = r->set->sessions[v->session].job;
		bars[i].value = v->lost_s / HOUR_S;
	}
	if (n)
		ops_figure_bars(
			"Time since the last save, of jobs that failed, "
			"and the mean",
			bars, n, "h", l->sum_s / HOUR_S / (double)l->n, out);
}

static json_t *report_cost_json(const struct ops_report *r)
{
	const struct ops_cost_view v = report_cost_view(r);

	return ops_cost_json(&v);
}

static void print_report_nodes(const struct ops_report *r, FILE *out)
{
	ops_print_nodes(out, r->set, &r->rule, &r->nodes);
	ops_history_print(out, &r->history);
}

static void draw_report_nodes(const struct ops_report *r, FILE *out)
{
	struct ops_figure_bar bars[BARS_MAX];
	size_t n = 0;

	for (; n < r->nodes.n && n < BARS_MAX && r->nodes.v[n].sessions; n++) {
		bars[n].label = r->set->nodes[r->nodes.v[n].node];
		bars[n].value = r->nodes.v[n].excluded_s / HOUR_S;
	}
	ops_figure_bars("Hours that large jobs ran without a node", bars, n,
			"h", 0, out);
}

static json_t *report_nodes_json(const struct ops_report *r)
{
	json_t *v = ops_nodes_json(r->set, &r->rule, &r->nodes);

	(void)json_object_set_new(v, "history", ops_history_json(&r->history));
	return v;
}

static void print_report_chains(const struct ops_report *r, FILE *out)
{
	ops_print_chains(out, r->set, &r->rule, &r->chains);
}

static void draw_report_chains(const struct ops_report *r, FILE *out)
{
	struct ops_figure_bar bars[BARS_MAX];
	size_t n = 0;

	for (; n < r->chains.n && n < BARS_MAX; n++) {
		bars[n].label = r->set->sessions[r->chains.v[n].first].name;
		bars[n].value = r->chains.v[n].wasted_node_s / HOUR_S;
	}
	ops_figure_bars("Node hours of tries that did not train, by chain",
			bars, n, "h", 0, out);
}

static json_t *report_chains_json(const struct ops_report *r)
{
	return ops_chains_json(r->set, &r->rule, &r->chains);
}

static void print_report_precursors(const struct ops_report *r, FILE *out)
{
	ops_print_precursors(out, r->q);
}

static void draw_report_precursors(const struct ops_report *r, FILE *out)
{
	ops_figure_leads(r->q, out);
}

static json_t *report_precursors_json(const struct ops_report *r)
{
	return ops_precursors_json(r->q);
}

static const struct ops_report_part parts[] = {
	{ "phases", "Saves, loads and training",
	  "Writes and reads of NFS are the job's own; a burst of them that "
	  "stands out is a save or a load. A save takes equally long on each "
	  "node that writes much.",
	  REPORT_METRICS, print_report_phases, draw_report_phases,
	  report_phases_json },
	{ "restart", "Loads, and where requests wait",
	  "A load is from the first sample that reads much to the last; "
	  "requests are those of the last 20 saves and loads.",
	  REPORT_METRICS, print_report_restart, draw_report_restart,
	  report_restart_json },
	{ "cost", "Cost of failures",
	  "Failures come at random, at one rate (Young, 1974); a job that a "
	  "person or its time limit ended did not fail. Bounds are of 95 %.",
	  REPORT_JOBS, print_report_cost, draw_report_cost, report_cost_json },
	{ "nodes", "Nodes that are left out",
	  "A node that no job of this time used is not known.", REPORT_JOBS,
	  print_report_nodes, draw_report_nodes, report_nodes_json },
	{ "chains", "Chains of retries",
	  "Jobs of one user and name that begin within a day after a failure "
	  "try the same again.",
	  REPORT_JOBS, print_report_chains, draw_report_chains,
	  report_chains_json },
	{ "precursors", "What moved before failures, and slow nodes",
	  "Nodes do the same at the same time, so that each is measured by the "
	  "others.",
	  REPORT_PEERS, print_report_precursors, draw_report_precursors,
	  report_precursors_json },
};

static bool has_source(const struct ops_report *r, enum report_source source)
{
	return source == REPORT_JOBS      ? r->set != NULL
	       : source == REPORT_METRICS ? r->m != NULL
					  : r->q != NULL;
}

/* ------------------------------------------------------------------- sources --- */

/* The sources, and which analyses are impossible without each. */
static const struct {
	const char *name, *costs;
} sources[N_REPORT_SOURCES] = {
	{ "jobs", "retries, the cost of failures and nodes that are left out "
		  "are unknown" },
	{ "metrics", "saves, loads, what a save takes and what each failure "
		     "lost are unknown" },
	{ "peers", "what moved before failures, and which nodes are slow, are "
		   "unknown" },
};

static const char *get_missing_reason(const struct ops_report *r,
				      enum report_source source)
{
	const struct error *e = &r->missing[source];

	return e->code ? e->msg : "--prometheus was not given";
}

static int compare_sessions_by_begin(const void *x, const void *y)
{
	const struct ops_session *const *a = x, *const *b = y;

	return ((*a)->begin_s > (*b)->begin_s) -
	       ((*a)->begin_s < (*b)->begin_s);
}

static json_t *source_json(const struct ops_report *r, enum report_source i)
{
	if (has_source(r, i))
		return json_pack("{s:s,s:b}", "name", sources[i].name,
				 "is_there", 1);
	return json_pack("{s:s,s:b,s:o,s:s}", "name", sources[i].name,
			 "is_there", 0, "why",
			 json_bytes(get_missing_reason(r, i)), "costs",
			 sources[i].costs);
}

/* The latest SESSIONS_MAX jobs that count, by time. */
static json_t *sessions_json(const struct ops_report *r)
{
	AUTO_FREE const struct ops_session **v =
		calloc(r->set->n_sessions + 1, sizeof(struct ops_session *));
	json_t *rows = v ? json_array() : NULL;
	size_t n = 0;

	for (size_t i = 0; rows && i < r->set->n_sessions; i++)
		if (ops_is_of(&r->set->sessions[i], &r->rule))
			v[n++] = &r->set->sessions[i];
	if (n)
		qsort(v, n, sizeof(struct ops_session *),
		      compare_sessions_by_begin);
	for (size_t i = n < SESSIONS_MAX ? 0 : n - SESSIONS_MAX; rows && i < n;
	     i++)
		(void)json_array_append_new(
			rows, json_pack("{s:o,s:o,s:o,s:I,s:I,s:I,s:b}", "job",
					json_bytes(v[i]->job), "name",
					json_bytes(v[i]->name), "state",
					json_bytes(v[i]->state), "begin_s",
					(json_int_t)v[i]->begin_s, "end_s",
					(json_int_t)v[i]->end_s, "nodes",
					(json_int_t)v[i]->n_nodes, "failed",
					v[i]->end == OPS_FAILED));
	return rows;
}

/* The whole report as JSON; NULL if any part could not be made, so that none is missing
 * unnoticed. */
static json_t *report_json(const struct ops_report *r)
{
	AUTO_JSON *root = json_object();
	json_t *rows = json_array();
	int rc = 0;

	for (enum report_source i = 0; i < N_REPORT_SOURCES; i++)
		rc |= json_array_append_new(rows, source_json(r, i));
	rc |= json_object_set_new(root, "made_s",
				  json_integer((json_int_t)time(NULL)));
	rc |= json_object_set_new(root, "sources", rows);
	rc |= json_object_set_new(root, "sessions",
				  r->set ? sessions_json(r) : json_null());
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		rc |= json_object_set_new(root, parts[i].name,
					  has_source(r, parts[i].needs)
						  ? parts[i].json(r)
						  : json_null());
	return rc < 0 ? NULL : steal_ptr(&root);
}

/* ---------------------------------------------------------------------- text --- */

/* The part's text as its command prints it; the caller owns it. */
static char *part_text(const struct ops_report *r,
		       const struct ops_report_part *p, struct error *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f) {
		(void)error_nomem(err);
		return NULL;
	}
	p->print(r, f);
	if (fclose(f) != 0) {
		free(text);
		(void)error_nomem(err);
		return NULL;
	}
	return text;
}

/* Indent the lines, so that Markdown shows them unchanged: a job's name could end a fenced
 * block. */
static void print_indented(const char *text, FILE *out)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		fprintf(out, "    %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

static void begin_md(const char *made, FILE *out)
{
	fprintf(out, "# Operations report\n\nMade %s.\n\n", made);
}

static void write_md_missing(const struct ops_report *r, enum report_source i,
			     FILE *out)
{
	fprintf(out, "No %s: %s.\n\n", sources[i].name, sources[i].costs);
	print_indented(get_missing_reason(r, i), out);
	(void)fputc('\n', out);
}

static void write_md_part(const struct ops_report *r,
			  const struct ops_report_part *p, const char *text,
			  FILE *out)
{
	(void)r;
	fprintf(out, "## %s\n\n", p->title);
	print_indented(text, out);
	fprintf(out, "\nAssumed: %s\n\n", p->assumes);
}

static void end_md(FILE *out)
{
	(void)out;
}

/* ---------------------------------------------------------------------- HTML --- */

static const char html_head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" "
	"content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<title>Operations report</title>\n<style>\n"
	":root{color-scheme:light dark;--f:#222;--g:#fff;--q:#666;--k:#ddd}\n"
	"@media(prefers-color-scheme:dark){:root{--f:#ddd;--g:#181818;--q:#aaa;"
	"--k:#444}}\n"
	"body{font:15px/1.5 system-ui,sans-serif;color:var(--f);"
	"background:var(--g);max-width:64rem;margin:2rem auto;padding:0 1rem}\n"
	"pre{overflow-x:auto;font-size:12px;padding:.6rem;border:1px solid "
	"var(--k)}\n"
	"figure{margin:1rem 0;overflow-x:auto}figcaption{font-weight:600}"
	"svg{width:100%;min-width:42rem;height:auto}\n"
	".t{font-size:11px;fill:var(--q)}.a{stroke:var(--k)}"
	".d{fill:none;stroke:#2a78d6}.b{fill:#2a78d6}.m{stroke:#d03b3b}\n"
	".r{fill:#b5b5b0;background:#b5b5b0}.s{fill:#eb6834;"
	"background:#eb6834}.l{fill:#1b9e5a;background:#1b9e5a}"
	".u{fill:none}.o{fill:#2a78d6;background:#2a78d6}"
	".f{fill:#d03b3b;background:#d03b3b}.x{fill:#d03b3b}"
	".k{display:inline-block;width:.8em;height:.8em;"
	"margin-left:.8em}\n"
	".q{color:var(--q)}@media print{body{margin:0;max-width:none}"
	"section{break-inside:avoid}}\n"
	"</style></head><body>\n<h1>Operations report</h1>\n";

static void begin_html(const char *made, FILE *out)
{
	fprintf(out, "%s<p>Made %s by bootseer ops report.</p>\n", html_head,
		made);
}

static void write_html_missing(const struct ops_report *r, enum report_source i,
			       FILE *out)
{
	fprintf(out, "<p><strong>No %s</strong>: %s.</p><pre>", sources[i].name,
		sources[i].costs);
	ops_figure_text(get_missing_reason(r, i), out);
	(void)fputs("</pre>\n", out);
}

static void write_html_part(const struct ops_report *r,
			    const struct ops_report_part *p, const char *text,
			    FILE *out)
{
	fprintf(out, "<section id=\"%s\"><h2>%s</h2>\n", p->name, p->title);
	p->draw(r, out);
	(void)fputs("<pre>", out);
	ops_figure_text(text, out);
	fprintf(out, "</pre><p class=\"q\">Assumed: %s</p></section>\n",
		p->assumes);
}

static void end_html(FILE *out)
{
	(void)fputs("</body></html>\n", out);
}

/* --------------------------------------------------------------------- report --- */

/* Functions that write the parts of a text report, after the list of missing sources. */
struct report_text {
	void (*begin)(const char *made, FILE *out);
	void (*missing)(const struct ops_report *r, enum report_source i,
			FILE *out);
	void (*part)(const struct ops_report *r,
		     const struct ops_report_part *p, const char *text,
		     FILE *out);
	void (*end)(FILE *out);
};

static const struct report_text md = { begin_md, write_md_missing,
				       write_md_part, end_md };
static const struct report_text html = { begin_html, write_html_missing,
					 write_html_part, end_html };

static int write_parts(const struct ops_report *r, const struct report_text *t,
		       FILE *out, struct error *err)
{
	char made[32];

	t->begin(ops_time_text((double)time(NULL), made), out);
	for (enum report_source i = 0; i < N_REPORT_SOURCES; i++)
		if (!has_source(r, i))
			t->missing(r, i, out);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		AUTO_FREE char *text = NULL;

		if (!has_source(r, parts[i].needs))
			continue;
		text = part_text(r, &parts[i], err);
		if (!text)
			return -ENOMEM;
		t->part(r, &parts[i], text, out);
	}
	t->end(out);
	return 0;
}

static int write_json(const struct ops_report *r, FILE *out, struct error *err)
{
	AUTO_JSON *root = report_json(r);

	if (!root || json_dumpf(root, out, JSON_REAL_PRECISION(12)) < 0)
		return error_nomem(err);
	(void)fputc('\n', out);
	return 0;
}

static const struct ops_report_form {
	const char *ending;
	const struct report_text *text; /* NULL: the form is JSON */
} forms[] = {
	{ ".html", &html },
	{ ".md", &md },
	{ ".json", NULL },
};

static const struct ops_report_form *form_of(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t n = strlen(forms[i].ending);

		if (len > n && strcmp(path + len - n, forms[i].ending) == 0)
			return &forms[i];
	}
	return NULL;
}

/* Read all sources.  The report names a missing one; without any source there is no report. */
static int read_sources(struct ops_report *r, struct error *err)
{
	const struct ops_config *c = r->c;
	int rc = ops_read_jobs(c, &r->set, &r->rule, &r->missing[REPORT_JOBS]);

	if (rc == -ENOMEM || (rc < 0 && (c->sacct || c->kube_objects))) {
		*err = r->missing[REPORT_JOBS];
		return rc;
	}
	if (!c->prom.url) {
		*err = r->missing[REPORT_JOBS];
		return rc;
	}
	rc = ops_read_metrics(&c->prom, c->days, &r->m,
			      &r->missing[REPORT_METRICS]);
	if (rc == -ENOMEM) {
		*err = r->missing[REPORT_METRICS];
		return rc;
	}
	rc = ops_read_inquiry(c, &r->q, &r->missing[REPORT_PEERS]);
	if (rc == -ENOMEM || (rc == -EINVAL && (c->signals || c->failures))) {
		*err = r->missing[REPORT_PEERS];
		return rc;
	}
	if (!r->set && !r->m && !r->q) {
		*err = r->missing[REPORT_METRICS];
		return err->code ? -err->code : rc;
	}
	return 0;
}

static int analyse_sources(struct ops_report *r, struct error *err)
{
	int rc = 0;

	if (!r->set)
		return 0;
	ops_find_cost(r->set, &r->rule, &r->cost);
	rc = ops_add_drains(r->c, r->set, err);
	if (rc == 0)
		rc = ops_find_chains(r->set, &r->rule, &r->chains, err);
	if (rc == 0)
		rc = ops_find_exclusions(r->set, &r->rule, &r->nodes, err);
	if (rc == 0)
		rc = ops_add_outages(r->set, &r->rule, &r->nodes, err);
	if (rc == 0)
		rc = ops_history_make(r->set, &r->rule, &r->nodes, r->q,
				      &r->history, err);
	if (rc == 0 && r->m)
		rc = ops_find_losses(r->set, &r->rule, &r->m->phases,
				     &r->m->write, &r->losses, err);
	return rc;
}

static int write_report(const struct ops_report *r, struct error *err)
{
	const struct ops_report_form *form = form_of(r->c->out);
	AUTO_FREE char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int rc = !f           ? error_nomem(err)
		 : form->text ? write_parts(r, form->text, f, err)
			      : write_json(r, f, err);

	if (f && fclose(f) != 0 && rc == 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = fs_replace_file(r->c->out, text, len, REPORT_MODE, err);
	return rc;
}

static int check_report(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;

	(void)args;
	if (!c->out || !form_of(c->out))
		return error_set(err, EINVAL,
				 "name the report: --out NAME.html, NAME.md or "
				 "NAME.json");
	return c->prom.url || c->prom.data ? ops_check_metrics(c, args, err)
					   : 0;
}

static int run_report(const void *config, char **args, struct error *err)
{
	struct ops_config own;
	AUTO(ops_server) server = NULL;
	struct ops_report r = { .c = &own };
	int rc = ops_server_open(config, &own, &server, err);

	(void)args;
	if (rc == 0)
		rc = read_sources(&r, err);
	if (rc == 0)
		rc = analyse_sources(&r, err);
	if (rc == 0)
		rc = write_report(&r, err);
	for (enum report_source i = 0; rc == 0 && i < N_REPORT_SOURCES; i++)
		if (!has_source(&r, i))
			(void)fprintf(stderr, "no %s: %s\n", sources[i].name,
				      get_missing_reason(&r, i));
	ops_inquiry_free(r.q);
	ops_losses_fini(&r.losses);
	ops_history_fini(&r.history);
	ops_exclusions_fini(&r.nodes);
	ops_chains_fini(&r.chains);
	ops_metrics_free(r.m);
	ops_set_free(r.set);
	return rc;
}

const struct command ops_report_command = {
	.brief = "Write all that ops tells of a cluster into one file",
	.check = check_report,
	.program = {
		.name = "bootseer ops report",
		.usage = "--out FILE [OPTIONS]",
		.summary = "Write what the commands chains, cost, nodes, "
			   "phases, precursors and restart show, with figures, into one file "
			   "that needs no other: as a page, as Markdown without "
			   "figures, or as JSON. Jobs are sacct's, metrics those of "
			   "--prometheus; what is missing is named, with what "
			   "that costs.",
		.options = options,
		.examples = "bootseer ops report --prometheus https://prom:9090 "
			    "--out report.html\n",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_report,
};
