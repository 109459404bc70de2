// SPDX-License-Identifier: Apache-2.0
/*
 * The containers of a pod on this node, as containerd itself knows them: its CRI gives
 * them the pod's names as labels, so no API server is asked and no right in a cluster is
 * needed.
 */
#ifndef BOOTSEER_CLI_POD_H
#define BOOTSEER_CLI_POD_H

#include "common/buf.h"
#include "common/json.h"
#include "common/option.h"
#include "profiler/pod_log.h"
#include "profiler/stage_event.h"

struct pod_options {
	char *pod;     /* NAMESPACE/NAME; NULL: none is asked for */
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

/* Is there either an argument or a pod, and is it a name of one?  `what` is what the
 * argument is. */
int pod_check(const struct pod_options *o, char **args, const char *what,
	      struct error *err) MUST_CHECK;

/*
 * Ask for the containers of the pod, without its sandbox; of several pods that had the
 * name one after the other, the newest.  `*ret` is a list of containerd's own objects (ID,
 * Image, Labels, Spec ...), which the caller owns.
 *   -ENOENT  the pod has no container on this node; `err` says where to look
 *   -E2BIG   it has more than 64
 *   others   as of ctr_run()
 */
int pod_containers(const struct pod_options *o, json_t **ret,
		   struct error *err) MUST_CHECK;

/* "main", from the labels; borrowed. */
const char *pod_container_name(const json_t *container);

/* The job whose events the pod's are (pod_job()), by BOOTSEER_JOB in the environment of
 * a container. */
int pod_job_name(const struct pod_options *o, const json_t *containers,
		 char ret[STAGE_JOB_MAX + 1], struct error *err) MUST_CHECK;

/*
 * The name that bootseerd has of an image that the CRI pulled: the kubelet's pulls name
 * REPOSITORY@DIGEST to a snapshotter, whatever tag a pod has.  Appended to `ret`.
 *   -ENOENT  containerd has no image `ref` of pods
 *   others   as of ctr_run()
 */
int pod_image_name(const struct pod_options *o, const char *ref,
		   struct buf *ret, struct error *err) MUST_CHECK;

#endif
