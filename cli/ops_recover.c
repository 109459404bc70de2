// SPDX-License-Identifier: Apache-2.0
/* bootseer ops recover: takes nodes out of a cluster that a person or an analysis named. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ops_kube.h"
#include "cli/ops_prom.h"
#include "cli/ops_recover.h"
#include "cli/start_gantt.h"
#include "common/bounded_json.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "profiler/kube/kube_lease.h"
#include "profiler/prom/prom.h"

/* Deadline for all requests together; shorter than the lease. */
#define DEADLINE_NS (240 * NS_PER_S)
#define WEBHOOK_TIMEOUT_MS 20000u
#define FINDINGS_MAX (64u << 20)
#define FINDINGS_VALUES_MAX (4u << 20)
#define FRESH_S 86400 /* findings older than this are not acted on */
#define NAME_SHOWN 63

struct recover_config {
	char *findings, *act, *budget, *why, *kubeconfig, *kind;
	char *webhook, *webhook_auth, *webhook_ca;
	int64_t retry_after_ns;
	bool undo, is_real;
};

static const char *const acts[] = { "cordon", "taint", "back-off", "webhook",
				    NULL };

static const struct option_spec options[] = {
	{ .key = "findings",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct recover_config, findings),
	  .absent = "write it by bootseer ops precursors --json, or name nodes",
	  .help = "Take the nodes that this file's analysis (ops precursors "
		  "--json, or ops report --out FILE.json) found in the last day: "
		  "slow ones, and those whose XID wants the GPU reset or support "
		  "called." },
	{ .key = "act",
	  .type = OPTION_ENUM,
	  .arg = "ACT",
	  .values = acts,
	  .def = "cordon",
	  .offset = offsetof(struct recover_config, act),
	  .help = "What to do: cordon or taint nodes (" KUBE_NODE_TAINT
		  ":NoSchedule) in Kubernetes; back-off: annotate jobs, as "
		  "NAMESPACE/NAME; webhook: ask another program for it." },
	{ .key = "budget",
	  .type = OPTION_STRING,
	  .arg = "N|N%",
	  .def = "1",
	  .offset = offsetof(struct recover_config, budget),
	  .help = "Nodes that may be out at once, for whatever reason, or their "
		  "share; where more would be, none is taken out." },
	{ .key = "why",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct recover_config, why),
	  .help = "The reason, for whoever finds the node or job so." },
	{ .key = "do",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct recover_config, is_real),
	  .help = "Do it; without this the API server checks all changes, and "
		  "none is made." },
	{ .key = "undo",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct recover_config, undo),
	  .help = "Take back what an earlier run did to these nodes or jobs; "
		  "without names, to all nodes." },
	{ .key = "kubeconfig",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct recover_config, kubeconfig),
	  .absent = "leave --kubeconfig out for kubectl's own",
	  .help = "The cluster and its login; default is the pod's service "
		  "account, else what kubectl uses." },
	{ .key = "kind",
	  .type = OPTION_STRING,
	  .arg = "KIND",
	  .def = "jobs.v1.batch",
	  .offset = offsetof(struct recover_config, kind),
	  .help = "The jobs' kind, as pytorchjobs.v1.kubeflow.org." },
	{ .key = "retry-after",
	  .type = OPTION_DURATION,
	  .def = "10m",
	  .min = "1s",
	  .max = "24h",
	  .offset = offsetof(struct recover_config, retry_after_ns),
	  .help = "The pause before a job's next try, for its controller." },
	{ .key = "webhook",
	  .type = OPTION_STRING,
	  .arg = "URL",
	  .offset = offsetof(struct recover_config, webhook),
	  .help = "Where the JSON of --act webhook is posted." },
	{ .key = "webhook-auth",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct recover_config, webhook_auth),
	  .absent = "write the token, or USER:PASSWORD, into it",
	  .help = "A line: its bearer token, or USER:PASSWORD." },
	{ .key = "webhook-ca",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct recover_config, webhook_ca),
	  .absent = "write the authority's certificate into it",
	  .help = "The authority of its certificate, PEM." },
	{ .key = NULL },
};

/* The nodes to take out, and memory for their reasons. */
struct recover_wishes {
	struct recover_wish v[RECOVER_WISHES_MAX];
	char *texts[RECOVER_WISHES_MAX]; /* reasons that were composed here */
	size_t n;
	json_t *findings; /* owns the texts of names */
};

static void free_wishes(struct recover_wishes *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++)
		free(w->texts[i]);
	json_decref(w->findings);
	free(w);
}

static int add_wish(struct recover_wishes *w, const char *node, const char *why,
		    char *text, struct error *err)
{
	if (w->n == RECOVER_WISHES_MAX) {
		free(text);
		return error_set(err, E2BIG,
				 "more than %u nodes are named: so many are no "
				 "recovery",
				 RECOVER_WISHES_MAX);
	}
	w->texts[w->n] = text;
	w->v[w->n++] = (struct recover_wish){ .node = node, .why = why };
	return 0;
}

/* ------------------------------------------------------------------ findings --- */

static bool is_node_wished(const struct recover_wishes *w, const char *node)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->v[i].node, node) == 0)
			return true;
	return false;
}

/* Compose a finding's reason, which the caller owns; NULL if no node is taken out for it. */
static int make_reason(const json_t *f, bool is_slow, char **ret,
		       struct error *err)
{
	const char *metric = json_string_value(json_object_get(f, "metric"));
	double at_s = json_number_value(
		json_object_get(f, is_slow ? "from_s" : "at_s"));
	json_int_t xid = json_integer_value(json_object_get(f, "xid"));
	enum recover_xid cure = recover_read_xid(
		xid > 0 && xid < UINT32_MAX ? (uint32_t)xid : 0);
	char at[32];
	int n = 0;

	if (is_slow)
		n = asprintf(ret, "slow since %s: %.100s is %+.0f %%",
			     ops_time_text(at_s, at), metric ? metric : "?",
			     100 * json_number_value(
					   json_object_get(f, "share")));
	else if (cure == RECOVER_XID_RESET || cure == RECOVER_XID_SUPPORT)
		n = asprintf(ret, "failed at %s: XID %lld, %s",
			     ops_time_text(at_s, at), (long long)xid,
			     recover_xid_text(cure));
	if (n < 0) {
		*ret = NULL;
		return error_nomem(err);
	}
	return 0;
}

static int add_findings_of(struct recover_wishes *w, const json_t *list,
			   bool is_slow, double since_s, struct error *err)
{
	const json_t *f;
	size_t i;

	json_array_foreach(list, i, f)
	{
		const char *node =
			json_string_value(json_object_get(f, "node"));
		double at_s = json_number_value(
			json_object_get(f, is_slow ? "to_s" : "at_s"));
		char *text = NULL;
		int rc;

		if (!node || !(at_s >= since_s) || is_node_wished(w, node))
			continue;
		rc = make_reason(f, is_slow, &text, err);
		if (rc == 0 && text)
			rc = add_wish(w, node, text, text, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int add_findings(struct recover_wishes *w, const char *path,
			struct error *err)
{
	double since_s = (double)time(NULL) - FRESH_S;
	AUTO_BUF text = BUF_INIT;
	const json_t *found;
	int rc = fs_read_file(path, FINDINGS_MAX, &text, err);

	if (rc == 0)
		rc = bounded_json_load_large(text.data, text.len,
					     FINDINGS_VALUES_MAX, path,
					     &w->findings, err);
	if (rc < 0)
		return rc;
	found = json_object_get(w->findings, "precursors");
	if (!found)
		found = w->findings;
	if (!json_is_array(json_object_get(found, "slow")) ||
	    !json_is_array(json_object_get(found, "failures")))
		return error_set(err, EINVAL,
				 "%s: no findings: wanted is what bootseer ops "
				 "precursors --json prints",
				 path);
	rc = add_findings_of(w, json_object_get(found, "failures"), false,
			     since_s, err);
	return rc < 0 ? rc
		      : add_findings_of(w, json_object_get(found, "slow"), true,
					since_s, err);
}

static int read_wishes(const struct recover_config *c, char **args,
		       struct recover_wishes **ret, struct error *err)
{
	struct recover_wishes *w = calloc(1, sizeof(*w));
	int rc = w ? 0 : error_nomem(err);

	for (size_t i = 0; rc == 0 && args[i]; i++)
		rc = add_wish(w, args[i], c->why ? c->why : "", NULL, err);
	if (rc == 0 && c->findings)
		rc = add_findings(w, c->findings, err);
	if (rc == 0)
		*ret = w;
	else
		free_wishes(w);
	return rc;
}

/* --------------------------------------------------------------------- nodes --- */

static void print_wish(const struct recover_wish *w, const char *what)
{
	printf("  ");
	start_print_text(w->node, 24, NAME_SHOWN, stdout);
	printf(" %s", what);
	if (w->verdict == RECOVER_TAKE) {
		(void)fputs(": ", stdout);
		start_print_text(w->why, 0, KUBE_WHY_MAX, stdout);
	}
	printf("\n");
}

static void print_plan(const struct recover_config *c,
		       const struct recover_wishes *w,
		       const struct recover_plan *p)
{
	printf("%zu of %zu nodes are out now; --budget %s allows %zu; %zu more "
	       "are wanted\n",
	       p->n_out, p->n_nodes, c->budget, p->n_allowed, p->n_new);
	for (size_t i = 0; i < w->n; i++)
		print_wish(&w->v[i],
			   w->v[i].verdict == RECOVER_TAKE
				   ? c->act
				   : recover_verdict_text(w->v[i].verdict));
}

/* Take out all nodes that the budget allows; stop at the first failure. */
static int take_nodes(const struct recover_config *c,
		      const struct recover_run *r,
		      const struct recover_cluster *cluster,
		      const struct recover_wishes *w, struct error *err)
{
	enum kube_act act =
		strcmp(c->act, "taint") == 0 ? KUBE_TAINT : KUBE_CORDON;

	for (size_t i = 0; i < w->n; i++) {
		int rc;

		if (w->v[i].verdict != RECOVER_TAKE)
			continue;
		rc = recover_change_node(r,
					 json_array_get(cluster->objects,
							w->v[i].index),
					 act, w->v[i].why, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Have the API server check all changes before the first one is made. */
static int decide_and_take(const struct recover_config *c,
			   const struct recover_run *r,
			   struct recover_wishes *w, struct error *err)
{
	struct recover_run dry = *r;
	AUTO_FINI(recover_cluster) cluster = { .objects = NULL };
	struct recover_budget budget;
	struct recover_plan plan;
	int rc = recover_read_budget(c->budget, &budget, err);

	if (rc == 0)
		rc = recover_read_cluster(r->kube, &cluster, err);
	if (rc == 0) {
		recover_decide(cluster.view, cluster.n, budget, w->v, w->n,
			       &plan);
		print_plan(c, w, &plan);
		if (plan.n_new && !plan.is_allowed)
			rc = error_set(err, EDQUOT,
				       "%zu nodes would be out, and --budget "
				       "%s allows %zu: none is taken out; name "
				       "fewer, give some back (--undo), or "
				       "raise it",
				       plan.n_out + plan.n_new, c->budget,
				       plan.n_allowed);
	}
	dry.is_real = false;
	if (rc == 0)
		rc = take_nodes(c, &dry, &cluster, w, err);
	if (rc == 0 && r->is_real)
		rc = take_nodes(c, r, &cluster, w, err);
	return rc;
}

static int give_back_nodes(const struct recover_run *r,
			   struct recover_wishes *w, bool is_all,
			   struct error *err)
{
	AUTO_FINI(recover_cluster) c = { .objects = NULL };
	struct recover_plan plan;
	size_t n = 0;
	int rc = recover_read_cluster(r->kube, &c, err);

	if (rc == 0)
		recover_decide(c.view, c.n, (struct recover_budget){ 0, false },
			       w->v, w->n, &plan);
	for (size_t i = 0; rc == 0 && i < w->n; i++) {
		const struct recover_wish *v = &w->v[i];

		if (v->index == SIZE_MAX || v->verdict == RECOVER_TWICE)
			print_wish(v, recover_verdict_text(v->verdict));
		else if (!c.nodes[v->index].record)
			print_wish(v,
				   "was not taken out by bootseer, and stays "
				   "as it is");
	}
	for (size_t i = 0; rc == 0 && i < c.n; i++) {
		bool is_wanted = is_all;

		for (size_t k = 0; k < w->n; k++)
			is_wanted |= w->v[k].index == i;
		if (!is_wanted || !c.nodes[i].record)
			continue;
		n++;
		rc = recover_change_node(r, json_array_get(c.objects, i),
					 KUBE_CORDON, NULL, err);
	}
	if (rc == 0 && !n)
		printf("no node is to be given back\n");
	return rc;
}

static int recover_nodes(const struct recover_config *c, struct recover_run *r,
			 struct recover_wishes *w, struct error *err)
{
	struct error late = ERROR_INIT;
	int rc;

	if (c->undo)
		return give_back_nodes(r, w, w->n == 0, err);
	/* Take the lease: two runs that count nodes at the same time would both find the budget
	 * free. */
	rc = c->is_real ? kube_lease_take(r->kube, r->holder, err) : 0;
	if (rc < 0)
		return rc;
	rc = decide_and_take(c, r, w, err);
	if (c->is_real && kube_lease_drop(r->kube, r->holder, &late) < 0)
		(void)fprintf(stderr,
			      "the lease %s stays for %d s, and no other "
			      "recovery runs before: %s\n",
			      KUBE_LEASE_NAME, KUBE_LEASE_S, late.msg);
	return rc;
}

/* ----------------------------------------------------------------- other acts --- */

static int back_off_jobs(const struct recover_config *c,
			 const struct recover_run *r,
			 const struct recover_wishes *w, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < w->n; i++)
		rc = recover_annotate_job(r, c->kind, w->v[i].node,
					  c->undo ? 0
						  : c->retry_after_ns /
							    NS_PER_S,
					  w->v[i].why, err);
	return rc;
}

static json_t *webhook_json(const struct recover_config *c,
			    const struct recover_run *r,
			    const struct recover_wishes *w)
{
	json_t *nodes = json_array();

	for (size_t i = 0; i < w->n; i++)
		(void)json_array_append_new(nodes,
					    json_pack("{s:o,s:o}", "node",
						      json_bytes(w->v[i].node),
						      "why",
						      json_bytes(w->v[i].why)));
	return json_pack("{s:i,s:s,s:s,s:s,s:s,s:o}", "version", 1, "id",
			 r->holder, "act", c->undo ? "give-back" : "take-out",
			 "by", r->by, "at", r->at, "nodes", nodes);
}

static int call_webhook(const struct recover_config *c, struct recover_run *r,
			const struct recover_wishes *w, struct error *err)
{
	const struct prom_config cfg = { .url = c->webhook,
					 .auth_file = c->webhook_auth,
					 .ca_file = c->webhook_ca,
					 .auth_option = "--webhook-auth",
					 .ca_option = "--webhook-ca",
					 .timeout_ms = WEBHOOK_TIMEOUT_MS };
	AUTO_FREE char *text = NULL;
	AUTO(prom) to = NULL;
	AUTO_JSON *body = NULL;
	int rc;

	(void)gethostname(r->by + snprintf(r->by, sizeof(r->by), "uid %u on ",
					   (unsigned int)getuid()),
			  64);
	body = webhook_json(c, r, w);
	text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	rc = text ? prom_new(&cfg, &to, err) : error_nomem(err);
	if (rc == 0 && c->is_real && w->n)
		rc = prom_post(to, "", text, strlen(text), err);
	for (size_t i = 0; i < w->n; i++)
		recover_print_audit(r, "webhook", w->v[i].node, w->v[i].why,
				    rc < 0 ? err : NULL);
	return rc;
}

/* ------------------------------------------------------------------- command --- */

static bool is_configured_act(const struct recover_config *c, const char *act)
{
	return strcmp(c->act, act) == 0;
}

static int check_operands(const struct recover_config *c, char **args,
			  struct error *err)
{
	bool is_all = c->undo && !is_configured_act(c, "back-off") &&
		      !is_configured_act(c, "webhook");

	if (!args[0] && !c->findings && !is_all)
		return error_set(err, EINVAL, "name nodes, or --findings FILE");
	if (c->findings && (is_configured_act(c, "back-off") || c->undo))
		return error_set(
			err, EINVAL,
			"--findings names nodes that are taken out: it "
			"has no meaning here");
	if (args[0] && !c->undo && (!c->why || !*c->why))
		return error_set(err, EINVAL, "say why: --why TEXT");
	for (size_t i = 0; is_configured_act(c, "back-off") && args[i]; i++) {
		int rc = recover_check_job(c->kind, args[i], err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int check_recover(const void *config, char **args, struct error *err)
{
	const struct recover_config *c = config;
	struct recover_budget budget;
	int rc = recover_read_budget(c->budget, &budget, err);

	if (rc < 0)
		return error_wrap(err, rc, "--budget");
	if (is_configured_act(c, "webhook") && !c->webhook)
		return error_set(err, EINVAL, "say where: --webhook URL");
	if (is_configured_act(c, "webhook") && budget.is_percent)
		return error_set(err, EINVAL,
				 "--budget '%s': how many nodes there are is "
				 "not known here; wanted is a number",
				 c->budget);
	return check_operands(c, args, err);
}

/* For a webhook only the wished nodes are counted, as the cluster is not known. */
static int run_webhook(const struct recover_config *c, struct recover_run *r,
		       const struct recover_wishes *w, struct error *err)
{
	struct recover_budget budget;
	int rc = recover_run_init(r, err);

	if (rc == 0)
		rc = recover_read_budget(c->budget, &budget, err);
	if (rc == 0 && !c->undo && w->n > budget.count)
		rc = error_set(err, EDQUOT,
			       "%zu nodes are named, and --budget allows %u: "
			       "none is asked for",
			       w->n, budget.count);
	return rc < 0 ? rc : call_webhook(c, r, w, err);
}

static int run_recover(const void *config, char **args, struct error *err)
{
	const struct recover_config *c = config;
	struct recover_run r = { .is_real = c->is_real };
	struct recover_wishes *w = NULL;
	int rc = read_wishes(c, args, &w, err);

	if (rc < 0)
		return rc;
	if (!w->n && !c->undo) {
		printf("the findings of the last day name no node to take "
		       "out\n");
	} else if (is_configured_act(c, "webhook")) {
		rc = run_webhook(c, &r, w, err);
	} else {
		rc = ops_kube_open(c->kubeconfig, clock_now_ns() + DEADLINE_NS,
				   &r.kube, err);
		if (rc == 0)
			rc = recover_run_init(&r, err);
		if (rc == 0)
			rc = is_configured_act(c, "back-off")
				     ? back_off_jobs(c, &r, w, err)
				     : recover_nodes(c, &r, w, err);
		kube_free(r.kube);
	}
	if (rc == 0 && !c->is_real)
		printf("nothing was changed: add --do\n");
	free_wishes(w);
	return rc;
}

const struct command ops_recover_command = {
	.brief = "Take slow or failing nodes out of a cluster",
	.check = check_recover,
	.program = {
		.name = "bootseer ops recover",
		.usage = "[OPTIONS] [NODE...]",
		.summary = "Take nodes out of a Kubernetes cluster that a person "
			   "or an analysis names, never more than --budget at "
			   "once: no new pod is placed there, and what runs goes "
			   "on. An annotation and an event say by whom, when and "
			   "why; --undo takes it back. Without --do nothing is "
			   "changed.",
		.options = options,
		.examples =
			"bootseer ops recover --why 'slow NIC' gpu017\n"
			"bootseer ops precursors --prometheus https://prom:9090 "
			"--json >found.json\n"
			"bootseer ops recover --findings found.json --budget 5% "
			"--do\n"
			"bootseer ops recover --undo gpu017 --do\n"
			"bootseer ops recover --act back-off --retry-after 20m "
			"--why 'three alike' team/train --do\n",
		.see_also = "bootseer(1), kubectl(1)",
		.max_args = -1,
	},
	.config_size = sizeof(struct recover_config),
	.run = run_recover,
};
