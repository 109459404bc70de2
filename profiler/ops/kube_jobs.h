// SPDX-License-Identifier: Apache-2.0
/*
 * Objects of Kubernetes, read as jobs and as outages of nodes: pods, nodes and events, as its API
 * or `kubectl get --output json` gives them.  No I/O.
 */
#ifndef BOOTSEER_PROFILER_OPS_KUBE_JOBS_H
#define BOOTSEER_PROFILER_OPS_KUBE_JOBS_H

#include "common/json.h"
#include "profiler/ops/ops.h"

#define OPS_KUBE_RUNS_MAX 1000000u
#define OPS_KUBE_MARKS_MAX 1000000u

struct ops_kube;

int ops_kube_new(struct ops_kube **ret, struct error *err) MUST_CHECK;
void ops_kube_free(struct ops_kube *k);
DEFINE_AUTO(ops_kube)

/*
 * Take what a pod, a node, an event, or a List of these says; other objects are passed over.  An
 * object that comes again, as in a later snapshot, is brought up to date.  `kind` is that of an
 * item of a list, which has none of its own; "" otherwise.
 *   -EFBIG  past one of the limits above
 *   -ENOMEM
 */
int ops_kube_add(struct ops_kube *k, const char *kind, const json_t *object,
		 struct error *err) MUST_CHECK;

/*
 * Jobs, a try of one each, as ops_read_sacct() reads them: a user is a namespace, a job is the
 * owner of pods.  A pod's container that is started again makes a new try, and so does the second
 * pod in the place of one.  Pods of services (DaemonSet, ReplicaSet, StatefulSet) are no jobs.
 */
int ops_kube_write_jobs(struct ops_kube *k, struct buf *ret,
			struct error *err) MUST_CHECK;

/* Add the outages of nodes until now to the set. */
int ops_kube_add_outages(struct ops_kube *k, int64_t now_s, struct ops_set *s,
			 struct error *err) MUST_CHECK;

#endif
