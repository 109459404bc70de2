// SPDX-License-Identifier: Apache-2.0
/*
 * Derives how long a pod was queued and scheduled from its conditions, in a list of pods in the
 * API's JSON, as the kubelet returns it. Pure.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_POD_STAGES_H
#define BOOTSEER_PROFILER_FOLLOW_POD_STAGES_H

#include "profiler/stage_event.h"

/* "queue": from the pod's creation until it is assigned to a node; "schedule": from then until its
 * sandbox is ready (before Kubernetes 1.29: until the kubelet accepted the pod). */
#define POD_STAGE_QUEUE "queue"
#define POD_STAGE_SCHEDULE "schedule"

/*
 * Call `each` with a begin and, once known, an end of both stages, for each pod on `node` that
 * names a job by BOOTSEER_JOB in a container's environment; job J of namespace N is N/J. An event
 * has the same id each time it is read. A malformed pod is skipped. -EINVAL: the text is no list of
 * pods; -ENOMEM; or what `each` returned.
 */
int pod_stages_read(const void *json, size_t len, const char *node,
		    int (*each)(void *arg, const struct stage_event *e),
		    void *arg, struct error *err) MUST_CHECK;

#endif
