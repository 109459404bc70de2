// SPDX-License-Identifier: Apache-2.0
/*
 * Reads an OCI bundle's config.json: which program the container runs, and
 * which job it belongs to. bundle_parse() is pure.
 */
#ifndef BOOTSEER_NODE_BUNDLE_H
#define BOOTSEER_NODE_BUNDLE_H

#include "common/error.h"
#include "profiler/stage_event.h"

#define BUNDLE_MAX (16u << 20) /* bytes of a config.json */
#define BUNDLE_WORDS_MAX 4096
#define BUNDLE_CRI "k8s.io" /* containerd's namespace of all pods */

/* The job to which a start's events belong; `job` "": none. */
struct start_owner {
	char job[STAGE_JOB_MAX + 1];
	int64_t attempt, rank; /* STAGE_NONE: not known */
};

struct bundle {
	char *key; /* workload key of process.args, trace_workload_key() */
	struct start_owner owner;
};

/*
 * Parse the config.json of a container in containerd's namespace `space`.  A pod's container
 * has the runtime's annotations: its job is one of the pod's own namespace, whatever the pod's
 * environment says.  A container in BUNDLE_CRI without annotations has no job.  Any other
 * container was started by root, so its environment is trusted.
 *     -EINVAL  it is no config.json, or is not completely written yet
 */
int bundle_parse(const char *text, size_t len, const char *space,
		 struct bundle *ret, struct error *err) MUST_CHECK;
void bundle_fini(struct bundle *b);

/* The bundle in the folder `path`, ".../NAMESPACE/ID". */
int bundle_read(const char *path, struct bundle *ret,
		struct error *err) MUST_CHECK;

#endif
