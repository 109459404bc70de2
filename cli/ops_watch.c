// SPDX-License-Identifier: Apache-2.0
/* bootseer ops watch: compares nodes continuously, as ops precursors does once. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/ops_study.h"
#include "common/clock.h"
#include "common/json.h"

#define LEARNED_FOR_S 86400 /* then thresholds are computed again */
#define LEARN_AGAIN_S 600   /* retry after a failed computation */
/* an alert of slow nodes is not sent later than this */
#define SLOW_FOR_S 21600
/* an alert that is not repeated expires after that many steps */
#define KEPT_STEPS 5
#define ALERTS_MAX 1000u /* alerts sent at once */

static const struct option_spec options[] = {
	OPS_DAYS_OPTION,
	OPS_PRECURSOR_OPTIONS,
	{ .key = "alertmanager",
	  .type = OPTION_STRING,
	  .arg = "URL",
	  .offset = offsetof(struct ops_config, alertmanager),
	  .help = "Send what is seen to this Alertmanager, too: "
		  "http://HOST:9093[/PREFIX]." },
	{ .key = "alertmanager-auth",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct ops_config, alertmanager_auth),
	  .absent = "write the token, or USER:PASSWORD, into it",
	  .help = "A line: the Alertmanager's bearer token, or "
		  "USER:PASSWORD; sent by https:// or to this machine only." },
	OPS_PROM_OPTIONS(struct ops_config),
	{ .key = NULL },
};

struct ops_watcher {
	const struct ops_config *c;
	struct ops_inquiry *q;
	struct prom *alerts; /* NULL: no Alertmanager */
	/* Since when a node is outside for a signal (0: it is not), signals.n * OPS_PEERS_MAX
	 * elements. */
	int64_t *since_s;
	bool *is_slow_told; /* an alert of the slow node was sent */
	int64_t learned_s;
	struct ops_panel *gpu, *panel;
	float *scores;
	json_t *said; /* alerts to send in this round */
};

/* -------------------------------------------------------------------- alerts --- */

static json_t *utc_json(int64_t at_s)
{
	char text[32];
	time_t t = (time_t)at_s;
	struct tm tm;

	if (!gmtime_r(&t, &tm) ||
	    !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return NULL;
	return json_string(text);
}

static void say_alert(struct ops_watcher *w, const char *name, size_t signal,
		      uint32_t node, const char *summary, int64_t since_s,
		      int64_t until_s)
{
	char label[OPS_SIGNAL_NAME_MAX];

	if (!w->alerts || json_array_size(w->said) >= ALERTS_MAX)
		return;
	ops_signal_name(&w->q->signals, signal, label);
	(void)json_array_append_new(
		w->said,
		json_pack("{s:{s:s,s:o,s:s,s:s},s:{s:o},s:o,s:o}", "labels",
			  "alertname", name, "node",
			  json_bytes(w->q->nodes[node]->name), "signal", label,
			  "severity", "warning", "annotations", "summary",
			  json_bytes(summary), "startsAt", utc_json(since_s),
			  "endsAt", utc_json(until_s)));
}

/* Send the alerts.  If Alertmanager does not answer, the next round sends them again. */
static void send_alerts(struct ops_watcher *w)
{
	struct error err = ERROR_INIT;
	char *text;

	if (!w->alerts || !json_array_size(w->said))
		return;
	text = json_dumps(w->said, JSON_COMPACT);
	if (!text || prom_post(w->alerts, "/api/v2/alerts", text, strlen(text),
			       &err) < 0)
		(void)fprintf(stderr, "Alertmanager: %s\n",
			      text ? err.msg : "out of memory");
	free(text);
	(void)json_array_clear(w->said);
}

/* --------------------------------------------------------------------- round --- */

static void print_change(const struct ops_watcher *w, size_t signal,
			 uint32_t node, int64_t now_s, const char *what)
{
	char at[32], label[OPS_SIGNAL_NAME_MAX];

	ops_signal_name(&w->q->signals, signal, label);
	printf("%s %s %s %s\n", ops_time_text((double)now_s, at),
	       w->q->nodes[node]->name, label, what);
}

static void look_at_node(struct ops_watcher *w, size_t signal, uint32_t node,
			 float score, int64_t now_s)
{
	const struct ops_signal_result *r = &w->q->found->signals[signal];
	int64_t *since_s = &w->since_s[signal * OPS_PEERS_MAX + node];
	uint32_t step_s = w->q->windows.step_s;
	bool is_outside = (double)fabsf(score) >= r->threshold;
	char text[128];

	/* A node without samples has not returned to its peers; its alert expires by itself. */
	if (isnan(score))
		return;
	if (is_outside) {
		(void)snprintf(text, sizeof(text),
			       "left its peers: %+.1f (outside from %.1f on)",
			       (double)score, r->threshold);
		if (!*since_s) {
			*since_s = now_s - (int64_t)(OPS_STAY - 1) * step_s;
			print_change(w, signal, node, now_s, text);
		}
		say_alert(w, "BootseerNodeLeftPeers", signal, node, text,
			  *since_s, now_s + (int64_t)KEPT_STEPS * step_s);
	} else if (*since_s) {
		print_change(w, signal, node, now_s, "is back among its peers");
		say_alert(w, "BootseerNodeLeftPeers", signal, node,
			  "is back among its peers", *since_s, now_s);
		*since_s = 0;
	}
}

/* Send alerts of nodes that were slow until the end of the last learned window. */
static void alert_slow_nodes(struct ops_watcher *w, int64_t now_s)
{
	const struct ops_inquiry *q = w->q;
	const struct ops_windows *win = &q->windows;
	double last_s = (double)win->v[win->n_rest - 1].begin_s;

	if (now_s - w->learned_s >= SLOW_FOR_S)
		return;
	for (size_t i = 0; i < q->found->n_slow; i++) {
		const struct ops_slow *s = &q->found->slow[i];
		char text[128];

		if (s->to_s <= last_s)
			continue;
		(void)snprintf(text, sizeof(text),
			       "is slow: %+.0f %% of its peers'",
			       100 * s->share);
		if (!w->is_slow_told[s->node])
			print_change(w, s->signal, s->node, now_s, text);
		w->is_slow_told[s->node] = true;
		say_alert(w, "BootseerNodeSlow", s->signal, s->node, text,
			  (int64_t)s->from_s,
			  now_s + (int64_t)KEPT_STEPS * win->step_s);
	}
}

static int look_at_signal(struct ops_watcher *w, size_t signal, int64_t now_s,
			  struct error *err)
{
	struct ops_inquiry *q = w->q;
	int rc = ops_read_now(q, &q->signals.v[signal], now_s, w->panel, err);

	if (rc == 0)
		rc = ops_score_now(&q->found->signals[signal],
				   q->has_gpus ? w->gpu : NULL, w->panel,
				   w->scores, err);
	for (uint32_t node = 0; rc == 0 && node < w->panel->n_nodes; node++)
		if (w->panel->rows[node])
			look_at_node(w, signal, node, w->scores[node], now_s);
	ops_panel_fini(w->panel);
	return rc;
}

static int compare_nodes_once(struct ops_watcher *w, int64_t now_s,
			      struct error *err)
{
	struct ops_inquiry *q = w->q;
	int rc = q->has_gpus ? ops_read_now_gpus(q, now_s, w->gpu, err) : 0;
	bool can_compare = rc == 0;

	/* Compare by every metric, even after some failed; return the first failure. */
	for (size_t i = 0; can_compare && i < q->signals.n; i++) {
		struct error one = ERROR_INIT;
		int failed = isfinite(q->found->signals[i].threshold)
				     ? look_at_signal(w, i, now_s, &one)
				     : 0;

		if (failed < 0 && rc == 0) {
			rc = failed;
			*err = one;
		}
		can_compare = failed != -ENOMEM;
	}
	ops_panel_fini(w->gpu);
	alert_slow_nodes(w, now_s);
	send_alerts(w);
	(void)fflush(stdout);
	return rc;
}

/* ---------------------------------------------------------------------- days --- */

static size_t find_signal(const struct ops_inquiry *q,
			  const struct ops_signal *s)
{
	size_t i = 0;

	for (; i < q->signals.n; i++) {
		const struct ops_signal *o = &q->signals.v[i];

		if (o->kind == s->kind && strcmp(o->over, s->over) == 0 &&
		    strcmp(o->metric, s->metric) == 0 &&
		    strcmp(o->labels, s->labels) == 0)
			break;
	}
	return i;
}

/* Carry over since when nodes are outside: a new computation may number nodes and signals
 * differently. */
static void carry_over_since(const struct ops_watcher *w,
			     const struct ops_inquiry *to, int64_t *since_s)
{
	const struct ops_inquiry *from = w->q;

	for (size_t i = 0; from && i < from->signals.n; i++) {
		size_t k = find_signal(to, &from->signals.v[i]);

		for (size_t node = 0; k < to->signals.n && node < from->n_nodes;
		     node++) {
			const char *name = from->nodes[node]->name;
			const struct ops_node_name *n;

			HASH_FIND(hh, to->names, name, strlen(name), n);
			if (n)
				since_s[k * OPS_PEERS_MAX + n->number] =
					w->since_s[i * OPS_PEERS_MAX + node];
		}
	}
}

/* Compute new thresholds from the last days, once a day.  If the server does not answer, the old
 * ones stay in use. */
static int relearn_thresholds(struct ops_watcher *w, struct error *err)
{
	struct ops_inquiry *q = NULL;
	int rc = ops_read_inquiry(w->c, &q, err);
	int64_t *since_s;
	size_t n = 0;

	if (rc < 0)
		return rc;
	since_s = calloc(q->signals.n * OPS_PEERS_MAX, sizeof(*since_s));
	if (!since_s) {
		ops_inquiry_free(q);
		return error_nomem(err);
	}
	carry_over_since(w, q, since_s);
	free(w->since_s);
	w->since_s = since_s;
	ops_inquiry_free(w->q);
	w->q = q;
	memset(w->is_slow_told, 0, OPS_PEERS_MAX * sizeof(bool));
	for (size_t i = 0; i < q->signals.n; i++)
		n += isfinite(q->found->signals[i].threshold) != 0;
	printf("watching %zu metrics of %zu nodes, each %" PRIu32 " s\n", n,
	       q->n_nodes, q->windows.step_s);
	(void)fflush(stdout);
	return 0;
}

static int watch_until_failure(struct ops_watcher *w, struct error *err)
{
	int rc = relearn_thresholds(w, err);

	w->learned_s = (int64_t)time(NULL);
	while (rc == 0) {
		const struct timespec step = { .tv_sec = w->q->windows.step_s };
		struct error now_err = ERROR_INIT;
		int64_t now_s = (int64_t)time(NULL);

		if (now_s - w->learned_s >= LEARNED_FOR_S) {
			rc = relearn_thresholds(w, &now_err);
			w->learned_s =
				rc == 0 ? now_s
					: now_s - LEARNED_FOR_S + LEARN_AGAIN_S;
		}
		if (rc == 0)
			/* The newest sample may not have arrived yet, so use the one before. */
			rc = compare_nodes_once(w,
						now_s - w->q->windows.step_s /
								2,
						&now_err);
		if (rc == -ENOMEM) {
			*err = now_err;
			return rc;
		}
		if (rc < 0)
			(void)fprintf(stderr, "%s\n", now_err.msg);
		rc = 0;
		(void)nanosleep(&step, NULL);
	}
	return rc;
}

static int check_watch(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;

	if (c->prom.data)
		return error_set(err, EINVAL,
				 "--prometheus-data has nothing of now: name a "
				 "server by --prometheus URL");
	return ops_check_metrics(config, args, err);
}

static int run_watch(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;
	struct ops_watcher w = {
		.c = c,
		.is_slow_told = calloc(OPS_PEERS_MAX, sizeof(bool)),
		.gpu = calloc(1, sizeof(struct ops_panel)),
		.panel = calloc(1, sizeof(struct ops_panel)),
		.scores = calloc(OPS_PEERS_MAX, sizeof(float)),
		.said = json_array(),
	};
	const struct prom_config alerts = {
		.url = c->alertmanager,
		.auth_file = c->alertmanager_auth,
		.ca_file = c->prom.ca,
		.auth_option = "--alertmanager-auth",
		.ca_option = "--prometheus-ca",
		.timeout_ms = (uint32_t)(c->prom.timeout_ns / NS_PER_MS),
	};
	int rc = w.is_slow_told && w.gpu && w.panel && w.scores && w.said
			 ? 0
			 : error_nomem(err);

	(void)args;
	if (rc == 0 && c->alertmanager)
		rc = prom_new(&alerts, &w.alerts, err);
	if (rc == 0)
		rc = watch_until_failure(&w, err);
	prom_free(w.alerts);
	ops_inquiry_free(w.q);
	json_decref(w.said);
	free(w.since_s);
	free(w.is_slow_told);
	free(w.gpu);
	free(w.panel);
	free(w.scores);
	return rc;
}

const struct command ops_watch_command = {
	.brief = "Say which nodes leave their peers, all the time",
	.check = check_watch,
	.program = {
		.name = "bootseer ops watch",
		.usage = "--prometheus URL [OPTIONS]",
		.summary = "Find thresholds as ops precursors does, then say "
			   "which nodes leave their peers, when they come back, "
			   "and which are slow, until it is ended; to an "
			   "Alertmanager, too.",
		.options = options,
		.examples = "bootseer ops watch --prometheus https://prom:9090 "
			    "--alertmanager http://alertmanager:9093\n",
	},
	.config_size = sizeof(struct ops_config),
	.run = run_watch,
};
