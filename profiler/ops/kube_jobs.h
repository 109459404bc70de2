// SPDX-License-Identifier: Apache-2.0
/*
 * Derives jobs and outages of nodes from Kubernetes objects: pods, nodes and events, as the API or
 * `kubectl get --output json` returns them. No I/O.
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
 * Add a pod, a node, an event, or a List of these; other objects are ignored. An object that is
 * added again, from a later snapshot, is updated. `kind`: for an item of a list, which has no kind
 * of its own; else "".
 *   -EFBIG  past one of the limits above
 *   -ENOMEM
 */
int ops_kube_add(struct ops_kube *k, const char *kind, const json_t *object,
		 struct error *err) MUST_CHECK;

/*
 * Write the jobs, one row for each try, in the format of ops_read_sacct(). The namespace is the
 * user, the owner of pods is the job. A restarted container begins a new try, and so does a second
 * pod in the same place. Pods of services (DaemonSet, ReplicaSet, StatefulSet) are no jobs.
 */
int ops_kube_write_jobs(struct ops_kube *k, struct buf *ret,
			struct error *err) MUST_CHECK;

/* Add the outages of nodes until now to the set. */
int ops_kube_add_outages(struct ops_kube *k, int64_t now_s, struct ops_set *s,
			 struct error *err) MUST_CHECK;

#endif
