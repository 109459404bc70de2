// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the pod and container of a log from the kubelet's file names: a folder NAMESPACE_POD_UID,
 * in it a folder for each container, in that N.log for its Nth start, and rotated files N.log.TIME
 * and N.log.TIME.gz. Pure.
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

/* Parse a folder's name NAMESPACE_POD_UID; false: invalid. */
bool pod_name_parse(const char *folder, struct pod_name *ret);
bool pod_is_container(const char *name);

struct pod_log_name {
	uint32_t restart;                  /* N */
	char rotated[POD_ROTATED_LEN + 1]; /* TIME; "": the current file */
	bool is_gz;
};

bool pod_log_name_parse(const char *name, struct pod_log_name *ret);

/*
 * The job of a pod's lines: "NAMESPACE/" and the job that they name, or the pod's name if they name
 * none. A pod can thus only name jobs of its own namespace, whatever it writes into its log. A name
 * that is too long is cut and ends with a digest of the whole name.
 */
int pod_job(const struct pod_name *p, struct stage_text said,
	    char ret[STAGE_JOB_MAX + 1]) MUST_CHECK;

/* The id of an event at `place` of a container's log, or of an event with an id of its own. No
 * event of another pod can get the same id. */
int64_t pod_event_id(const struct pod_name *p, const char *container,
		     uint32_t restart, const struct stage_event *e,
		     uint64_t place);

#endif
