// SPDX-License-Identifier: Apache-2.0
/*
 * How long a pod was queued and scheduled, from the conditions that Kubernetes keeps of
 * it: a list of pods in the API's JSON, as the kubelet gives it.  Pure.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_POD_STAGES_H
#define BOOTSEER_PROFILER_FOLLOW_POD_STAGES_H

#include "profiler/stage_event.h"

/* "queue": from the pod's creation until it has a node; "schedule": from then until its
 * sandbox stands (or, before Kubernetes 1.29, until the kubelet took it on). */
#define POD_STAGE_QUEUE "queue"
#define POD_STAGE_SCHEDULE "schedule"

/*
 * Show `each` a begin and, once it is known, an end of both stages of each pod that is on
 * `node` and names a job, by BOOTSEER_JOB in the environment of a container; job J of
 * namespace N is N/J.  An event has the same id however often it is read.  What is wrong
 * with one pod leaves that pod out.  -EINVAL: the text is no list of pods; -ENOMEM;
 * or what `each` returned.
 */
int pod_stages_read(const void *json, size_t len, const char *node,
		    int (*each)(void *arg, const struct stage_event *e),
		    void *arg, struct error *err) MUST_CHECK;

#endif
