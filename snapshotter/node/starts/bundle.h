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
	int64_t attempt, rank; /* STAGE_NONE */
};

struct bundle {
	char *key; /* of process.args, trace_workload_key() */
	struct start_owner owner;
};

/*
 * `space` is the namespace of containerd that the container is in.  A pod's container
 * is known by the annotations that the runtime sets: its job is one of the pod's own
 * namespace, whatever the pod's environment names.  One of BUNDLE_CRI without them is
 * nobody's.  Any other was started by root, whose environment is believed.
 *   -EINVAL  it is no such file, or not whole yet
 */
int bundle_parse(const char *text, size_t len, const char *space,
		 struct bundle *ret, struct error *err) MUST_CHECK;
void bundle_fini(struct bundle *b);

/* The bundle in the folder `path`, ".../NAMESPACE/ID". */
int bundle_read(const char *path, struct bundle *ret,
		struct error *err) MUST_CHECK;

#endif
