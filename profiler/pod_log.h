// SPDX-License-Identifier: Apache-2.0
/*
 * The pod and container of a log, by the names that the kubelet gives: NAMESPACE_POD_UID,
 * a folder; in it one of each container; there N.log of its Nth start, and N.log.TIME and
 * N.log.TIME.gz of what was rotated. Pure.
 */
#ifndef BOOTSEER_PROFILER_POD_LOG_H
#define BOOTSEER_PROFILER_POD_LOG_H

#include "common/buf.h"
#include "profiler/stage_event.h"

#define POD_NAMESPACE_MAX 63u
#define POD_NAME_MAX 253u
#define POD_UID_MAX 64u
#define POD_CONTAINER_MAX 63u
#define POD_ROTATED_LEN 15u /* "20261123-192439" */

struct pod_name {
	char namespace[POD_NAMESPACE_MAX + 1];
	char pod[POD_NAME_MAX + 1];
	char uid[POD_UID_MAX + 1];
};

/* A name of the folder above; false: it is none. */
bool pod_name_parse(const char *folder, struct pod_name *ret);
bool pod_is_container(const char *name);

struct pod_log_name {
	uint32_t restart;                  /* N */
	char rotated[POD_ROTATED_LEN + 1]; /* "": the file that is written to */
	bool is_gz;
};

bool pod_log_name_parse(const char *name, struct pod_log_name *ret);

/*
 * The job that lines of a pod are of: "NAMESPACE/" and what they say, or the pod's name
 * when they say nothing.  A pod speaks for its own namespace alone, whatever it writes
 * into its log.  A name that is too long ends with a digest of itself.
 */
int pod_job(const struct pod_name *p, struct stage_text said,
	    char ret[STAGE_JOB_MAX + 1]) MUST_CHECK;

/* The id of an event that stands at `place` of the log of a container, or that has one
 * itself: no other pod can have one like it. */
int64_t pod_event_id(const struct pod_name *p, const char *container,
		     uint32_t restart, const struct stage_event *e,
		     uint64_t place);

#endif
