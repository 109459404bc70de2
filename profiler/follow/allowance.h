// SPDX-License-Identifier: Apache-2.0
/*
 * Limits how many events, and how many followed logs, a pod and a namespace of the node may have. A
 * pod has a fixed limit. A namespace may use half of what the other namespaces leave, so that a
 * late one still gets something, however many events the first ones send. One thread.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_ALLOWANCE_H
#define BOOTSEER_PROFILER_FOLLOW_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A namespace's first so many events in an hour are sent before those of namespaces with more. */
#define ALLOWANCE_FIRST_EVENTS 1000u

struct allowance_config {
	/* most events in an hour: of all pods, of one pod */
	uint64_t node_events, pod_events;
	size_t logs_max; /* followed logs of all pods */
};

/* The share of a pod or of a namespace. */
struct allowance_share;

struct allowance {
	struct allowance_config cfg;
	int64_t hour_ns; /* when the counted hour began; 0: none began yet */
	uint64_t events; /* events of all pods and processes in this hour */
	size_t logs;     /* followed logs of all pods */
	/* sum over hours of the pods that had something left out */
	uint64_t told;
	struct allowance_share *pods, *namespaces;
};

/* The shares that a log's events count for. */
struct allowance_of_log {
	/* NULL: the log belongs to no pod */
	struct allowance_share *pod, *namespace;
};

void allowance_fini(struct allowance *a);

/* Count a log of a pod that shall be followed. False: memory is short, or too many are followed,
 * which is logged once an hour for the pod. allowance_drop_log() undoes it. */
bool allowance_add_log(struct allowance *a, const char *pod,
		       const char *namespace, struct allowance_of_log *ret);
/* Stop counting a log that is not followed any more. */
void allowance_drop_log(struct allowance *a, struct allowance_of_log *l);

/* Log, once an hour for the pod, why one of its logs is not followed. */
void allowance_tell(struct allowance *a, const char *pod, const char *reason);

enum allowance_answer {
	/* the event is left out; logged once an hour for the pod */
	ALLOWANCE_NONE,
	ALLOWANCE_LATER, /* send after the events of namespaces with fewer */
	ALLOWANCE_FIRST,
};

/* May one more event be accepted? If so, it is counted, also without a pod. `has_later`: the spool
 * for ALLOWANCE_LATER has room. */
enum allowance_answer allowance_take(struct allowance *a,
				     const struct allowance_of_log *l,
				     bool has_later);

#endif
