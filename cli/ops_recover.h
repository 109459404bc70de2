// SPDX-License-Identifier: Apache-2.0
/* The changes that bootseer ops recover makes to a cluster's nodes and jobs. */
#ifndef BOOTSEER_CLI_OPS_RECOVER_H
#define BOOTSEER_CLI_OPS_RECOVER_H

#include <stdbool.h>

#include "profiler/kube/kube.h"
#include "profiler/kube/kube_node.h"
#include "profiler/ops/recover.h"

#define RECOVER_BY_MAX 256
#define RECOVER_TIME_MAX 32

/* A run of the command. */
struct recover_run {
	struct kube *kube;
	bool is_real; /* false: the server checks, but changes nothing */
	char by[RECOVER_BY_MAX]; /* this user, as the API server names it */
	char at[RECOVER_TIME_MAX];
	char holder[64]; /* unique name as the lease's holder */
};

/* A cluster's nodes. */
struct recover_cluster {
	json_t *objects; /* an array */
	struct kube_node *nodes;
	struct recover_node *view; /* the same nodes, for recover_decide() */
	size_t n;
};

/* Set the user, the time and the holder of a run whose client is open. */
int recover_run_init(struct recover_run *r, struct error *err) MUST_CHECK;

int recover_read_cluster(struct kube *k, struct recover_cluster *ret,
			 struct error *err) MUST_CHECK;
void recover_cluster_fini(struct recover_cluster *c);

/* Print the audit line of a change that was made, failed, or would be made. */
void recover_print_audit(const struct recover_run *r, const char *did,
			 const char *object, const char *why,
			 const struct error *failed);

/* Take a node out; without `why`, give back a node that an earlier run took out.  Also writes an
 * event to the cluster. */
int recover_change_node(const struct recover_run *r, json_t *node,
			enum kube_act act, const char *why,
			struct error *err) MUST_CHECK;

/* Annotate an object, such as a job, with the time that its next retry should wait;
 * `retry_after_s` 0 removes the annotation.  `kind` is in kubectl's form, "jobs.v1.batch"; `name`
 * is NAMESPACE/NAME. */
int recover_annotate_job(const struct recover_run *r, const char *kind,
			 const char *name, int64_t retry_after_s,
			 const char *why, struct error *err) MUST_CHECK;
int recover_check_job(const char *kind, const char *name,
		      struct error *err) MUST_CHECK;

#endif
