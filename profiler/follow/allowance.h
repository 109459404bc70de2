// SPDX-License-Identifier: Apache-2.0
/*
 * How much of the node's events, and of the logs that it follows, a pod and a namespace
 * may have.  A pod has a bound of its own.  A namespace has half of what the others
 * leave, so that whoever comes last has something, however much the first ones say.
 * One thread.
 */
#ifndef BOOTSEER_PROFILER_FOLLOW_ALLOWANCE_H
#define BOOTSEER_PROFILER_FOLLOW_ALLOWANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Events of a namespace in an hour that go before those who said more. */
#define ALLOWANCE_FIRST_EVENTS 1000u

struct allowance_config {
	uint64_t node_events, pod_events; /* in an hour */
	size_t logs_max;                  /* of pods */
};

/* The share of a pod or of a namespace. */
struct allowance_share;

struct allowance {
	struct allowance_config cfg;
	int64_t hour_ns; /* when it began; 0: not yet */
	uint64_t events; /* of all, in this hour */
	size_t logs;     /* of pods that are followed, of all */
	uint64_t told; /* pods of which something was left out, in each hour */
	struct allowance_share *pods, *namespaces;
};

/* The shares of a log. */
struct allowance_of_log {
	struct allowance_share *pod, *namespace; /* NULL: of no pod */
};

void allowance_fini(struct allowance *a);

/* A log of a pod is to be followed; false: there is no memory, or too many are, which
 * is told once for the pod in an hour.  allowance_drop_log() gives it back. */
bool allowance_add_log(struct allowance *a, const char *pod,
		       const char *namespace, struct allowance_of_log *ret);
/* Drop the shares of a log that is followed no more. */
void allowance_drop_log(struct allowance *a, struct allowance_of_log *l);

/* A log of the pod is not followed, for another reason. */
void allowance_tell(struct allowance *a, const char *pod, const char *reason);

enum allowance_answer {
	ALLOWANCE_NONE,  /* it is left out; told once for the pod in an hour */
	ALLOWANCE_LATER, /* after those who said less */
	ALLOWANCE_FIRST,
};

/* May one more event be said?  It counts, also that of no pod.  `has_later`: there is
 * room for what goes later. */
enum allowance_answer allowance_take(struct allowance *a,
				     const struct allowance_of_log *l,
				     bool has_later);

#endif
