// SPDX-License-Identifier: Apache-2.0
/* Options, input and output of all commands of bootseer ops. */
#ifndef BOOTSEER_CLI_OPS_H
#define BOOTSEER_CLI_OPS_H

#include <jansson.h>

#include "cli/ops_prom.h"
#include "common/option.h"
#include "profiler/ops/ops.h"

struct ops_config {
	char *sacct;     /* file of saved output; NULL: run sacct */
	char *drains;    /* file of saved output; NULL: run sacctmgr */
	bool kubernetes; /* the jobs are those of a Kubernetes cluster */
	char *kubeconfig, *kube_objects; /* kubeconfig may be NULL;
	                                  * kube_objects is kubectl's saved
	                                  * output */
	char *name;
	uint64_t days, nodes; /* `nodes` 0: more than half of the cluster's */
	int64_t trained_ns;
	int64_t save_ns, interval_ns; /* options of ops cost; 0: not given */
	bool json;
	struct ops_prom_config prom;
	char *out;                 /* output file of ops report */
	uint64_t slots, bandwidth; /* limits of a node; 0: not given */
	/* Options of ops precursors only. */
	char *failures, *signals, *xid, *rules, *alertmanager,
		*alertmanager_auth;
	int64_t before_ns;
};

#define OPS_DAYS_OPTION \
	{ \
		.key = "days", .type = OPTION_INTEGER, .def = "60", \
		.min = "1", .max = "3650", \
		.offset = offsetof(struct ops_config, days), \
		.help = "Look at the last N days." \
	}

#define OPS_JSON_OPTION \
	{ \
		.key = "json", .type = OPTION_BOOL, \
		.offset = offsetof(struct ops_config, json), \
		.help = "Print JSON; times and lengths are seconds." \
	}

#define OPS_KUBE_OPTIONS \
	{ .key = "kubernetes", \
	  .type = OPTION_BOOL, \
	  .offset = offsetof(struct ops_config, kubernetes), \
	  .help = "Jobs and cordons are those that Kubernetes still knows of: " \
		  "of the cluster that kubectl uses, or of the pod's own." }, \
		{ .key = "kubeconfig", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(struct ops_config, kubeconfig), \
		  .absent = "leave --kubeconfig out for kubectl's own", \
		  .help = "The same of this kubeconfig's cluster." }, \
	{ \
		.key = "kube-objects", .type = OPTION_FILE, \
		.offset = offsetof(struct ops_config, kube_objects), \
		.absent = "write into it what kubectl get pods,nodes,events " \
			  "--all-namespaces --output json prints", \
		.help = "The same of this file: what kubectl get " \
			"pods,nodes,events --all-namespaces --output json " \
			"printed, also several times, one behind the other." \
	}

/* Options of the commands that show nodes. */
#define OPS_DRAINS_OPTION \
	{ \
		.key = "drains", .type = OPTION_FILE, \
		.offset = offsetof(struct ops_config, drains), \
		.absent = \
			"write sacctmgr's output into it, or leave --drains " \
			"out", \
		.help = "Times in which nodes of Slurm were drained or down: " \
			"what sacctmgr --parsable2 --noheader show event " \
			"format=" OPS_DRAIN_COLUMNS " printed." \
	}

#define OPS_OPTIONS \
	OPS_KUBE_OPTIONS, \
		{ .key = "sacct", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(struct ops_config, sacct), \
		  .absent = \
			  "write sacct's output into it, or leave --sacct out and " \
			  "sacct is run", \
		  .help = "Read this file, which has what sacct printed with " \
			  "--allusers --allocations --duplicates --parsable2 " \
			  "--format=" OPS_SACCT_COLUMNS ", best also with " \
			  "--delimiter=X and an X that nobody can guess, and do not " \
			  "run sacct." }, \
		OPS_DAYS_OPTION, \
		{ .key = "name", \
		  .type = OPTION_STRING, \
		  .arg = "NAME", \
		  .offset = offsetof(struct ops_config, name), \
		  .help = "Count jobs of this name only." }, \
	{ \
		.key = "nodes", .type = OPTION_INTEGER, .min = "1", \
		.max = "65536", .offset = offsetof(struct ops_config, nodes), \
		.help = "Count jobs of N nodes or more; without it those of more " \
			"than half of all nodes that any job ran on." \
	}

#define OPS_TRAINED_OPTION \
	{ \
		.key = "trained-after", .type = OPTION_DURATION, .def = "1h", \
		.min = "1s", .max = "720h", \
		.offset = offsetof(struct ops_config, trained_ns), \
		.help = "A job that ran so long, or ended well, had begun to " \
			"train." \
	}

#define OPS_SAVE_OPTIONS \
	{ .key = "save", \
	  .type = OPTION_DURATION, \
	  .min = "1ms", \
	  .max = "24h", \
	  .offset = offsetof(struct ops_config, save_ns), \
	  .help = "Training stands still so long for a checkpoint " \
		  "(bootseer start checkpoints JOB shows it)." }, \
	{ \
		.key = "interval", .type = OPTION_DURATION, .min = "1s", \
		.max = "720h", \
		.offset = offsetof(struct ops_config, interval_ns), \
		.help = "Checkpoints are that far apart now." \
	}

#define OPS_RESTART_OPTIONS \
	{ .key = "rpc-slots", \
	  .type = OPTION_INTEGER, \
	  .min = "1", \
	  .max = "1048576", \
	  .offset = offsetof(struct ops_config, slots), \
	  .help = "Requests that a node's NFS client may have under way: " \
		  "sunrpc.tcp_slot_table_entries, times nconnect." }, \
	{ \
		.key = "node-bandwidth", .type = OPTION_SIZE, .min = "1", \
		.max = "100T", \
		.offset = offsetof(struct ops_config, bandwidth), \
		.help = "Bytes a second of a node's link to the storage." \
	}

#define OPS_PRECURSOR_OPTIONS \
	{ .key = "failures", \
	  .type = OPTION_FILE, \
	  .offset = offsetof(struct ops_config, failures), \
	  .absent = "write lines TIME NODE [XID] into it, or leave " \
		    "--failures out", \
	  .help = "Failures are this file's lines, TIME NODE [XID] or those " \
		  "of kernels' logs (journalctl --dmesg --output short-iso " \
		  "--grep Xid), and not the XIDs that the metrics have." }, \
		OPS_PROM_NAME(struct ops_config, "metric-xid", xid, \
			      "DCGM_FI_DEV_XID_ERRORS", \
			      "of a GPU's last XID"), \
		{ .key = "signals", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(struct ops_config, signals), \
		  .absent = "leave --signals out, and the usual metrics are " \
			    "compared", \
		  .help = "Compare the metrics of this file's lines: " \
			  "{sum|min|max} {value|rate|errors} METRIC [low|high]; " \
			  "the last word says which side is a slow node's." }, \
	{ \
		.key = "before", .type = OPTION_DURATION, .def = "2h", \
		.min = "10m", .max = "24h", \
		.offset = offsetof(struct ops_config, before_ns), \
		.help = "Look so long before each failure." \
	}

/* Read the sessions, and the rule for which of them count.  Release by ops_set_free(). */
int ops_read_jobs(const struct ops_config *c, struct ops_set **ret,
		  struct ops_rule *rule, struct error *err) MUST_CHECK;

/* Add the drains and outages in Slurm's records, if the jobs are Slurm's. */
int ops_add_drains(const struct ops_config *c, struct ops_set *s,
		   struct error *err) MUST_CHECK;
/* Read the jobs, and the outages of nodes, from Kubernetes. */
int ops_read_kube_jobs(const struct ops_config *c, struct ops_set **ret,
		       struct error *err) MUST_CHECK;

/* Print how many jobs are counted, and how many rows could not be read. */
void ops_print_scope(FILE *out, const struct ops_set *s,
		     const struct ops_rule *r);

/* Format seconds as "5 min 3 s". */
const char *ops_text_of(double seconds, char out[32]);
/* Print `v`, which is taken over, on one line. */
int ops_print_json(json_t *v, struct error *err) MUST_CHECK;
json_t *ops_number(double v);

/* Results as text and as JSON, for the commands and for reports. */
void ops_print_phases(FILE *out, const struct ops_metrics *m);
json_t *ops_phases_json(const struct ops_metrics *m);
void ops_print_restart(FILE *out, const struct ops_config *c,
		       const struct ops_metrics *m);
json_t *ops_restart_json(const struct ops_config *c,
			 const struct ops_metrics *m);
void ops_print_chains(FILE *out, const struct ops_set *s,
		      const struct ops_rule *r, const struct ops_chains *c);
json_t *ops_chains_json(const struct ops_set *s, const struct ops_rule *r,
			const struct ops_chains *c);
void ops_print_nodes(FILE *out, const struct ops_set *s,
		     const struct ops_rule *r, const struct ops_exclusions *e);
json_t *ops_nodes_json(const struct ops_set *s, const struct ops_rule *r,
		       const struct ops_exclusions *e);

/* The data from which the cost of failures is printed; `m` and `l` are NULL without metrics. */
struct ops_cost_view {
	const struct ops_config *config;
	const struct ops_set *set;
	const struct ops_rule *rule;
	const struct ops_cost *cost;
	const struct ops_metrics *m;
	const struct ops_losses *l;
};

void ops_print_cost(FILE *out, const struct ops_cost_view *v);
json_t *ops_cost_json(const struct ops_cost_view *v);

/* Check the options of a command that only uses metrics. */
int ops_check_metrics(const void *config, char **args,
		      struct error *err) MUST_CHECK;

#endif
