// SPDX-License-Identifier: Apache-2.0
/*
 * The containers of a pod on this node, from containerd: its CRI labels them with the pod's name,
 * so no API server and no rights in the cluster are needed.
 */
#ifndef BOOTSEER_CLI_POD_H
#define BOOTSEER_CLI_POD_H

#include "common/buf.h"
#include "common/json.h"
#include "common/option.h"
#include "profiler/pod_log.h"
#include "profiler/stage_event.h"

struct pod_options {
	char *pod;     /* NAMESPACE/NAME; NULL: no pod was given */
	char *address; /* containerd's socket; NULL: ctr's default */
};

#define POD_OPTIONS(config, what) \
	{ .key = "pod", \
	  .type = OPTION_STRING, \
	  .arg = "NAMESPACE/NAME", \
	  .offset = offsetof(config, pod.pod), \
	  .help = what }, \
	{ \
		.key = "containerd", .type = OPTION_STRING, .arg = "SOCKET", \
		.offset = offsetof(config, pod.address), \
		.help = "Where containerd listens, which knows pods; default is " \
			"ctr's, $CONTAINERD_ADDRESS or " \
			"/run/containerd/containerd.sock." \
	}

/* Check that either an argument or a well-formed pod name was given.  `what` describes the
 * argument. */
int pod_check(const struct pod_options *o, char **args, const char *what,
	      struct error *err) MUST_CHECK;

/*
 * List the pod's containers, without its sandbox; if several pods had the name in sequence, those
 * of the newest.  `*ret` is a list of containerd's objects (ID, Image, Labels, Spec ...), which
 * the caller owns.
 *   -ENOENT  the pod has no container on this node; `err` says where to look
 *   -E2BIG   it has more than 64
 *   others   see ctr_run()
 */
int pod_containers(const struct pod_options *o, json_t **ret,
		   struct error *err) MUST_CHECK;

/* The container's name from its labels, such as "main"; borrowed. */
const char *pod_container_name(const json_t *container);

/* The job that the pod's events belong to (pod_job()), from BOOTSEER_JOB in a container's
 * environment. */
int pod_job_name(const struct pod_options *o, const json_t *containers,
		 char ret[STAGE_JOB_MAX + 1], struct error *err) MUST_CHECK;

/*
 * The name under which bootseerd knows an image that CRI pulled: REPOSITORY@DIGEST, as the
 * kubelet's pulls pass that to a snapshotter, whatever tag the pod names.  Appended to `ret`.
 *   -ENOENT  containerd has no image `ref` for pods
 *   others   see ctr_run()
 */
int pod_image_name(const struct pod_options *o, const char *ref,
		   struct buf *ret, struct error *err) MUST_CHECK;

#endif
