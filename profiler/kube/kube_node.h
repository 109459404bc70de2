// SPDX-License-Identifier: Apache-2.0
/*
 * Reads Kubernetes nodes, and makes the patches by which a recovery takes a node out and gives it
 * back. No I/O.
 *
 * A node that was taken out has the annotation KUBE_NODE_RECORD, which says by whom, when, why, and
 * what was done; giving back undoes only that.
 */
#ifndef BOOTSEER_PROFILER_KUBE_KUBE_NODE_H
#define BOOTSEER_PROFILER_KUBE_KUBE_NODE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/error.h"

#define KUBE_NODE_RECORD "bootseer.io/recover"
#define KUBE_NODE_TAINT "bootseer.io/suspect"
#define KUBE_NODE_OTHERS_MAX 8u
#define KUBE_WHY_MAX 300 /* bytes of the reason in a record */

/* A node; texts are borrowed from the JSON object. */
struct kube_node {
	const char *name, *uid;
	const char *others[KUBE_NODE_OTHERS_MAX +
			   1]; /* addresses of the node; NULL ends them */
	/* JSON that an earlier recovery wrote; NULL: none */
	const char *record;
	bool is_cordoned, is_tainted, is_ready, is_control_plane;
};

/* Read a node. -EBADMSG: the object is no node. */
int kube_node_read(const json_t *node, struct kube_node *ret,
		   struct error *err) MUST_CHECK;

/* Has the node a record, and is what the record says still in force? */
bool kube_node_is_held(const struct kube_node *n);
/* Is the node out, so that no pod is placed on it? */
bool kube_node_is_out(const struct kube_node *n);

enum kube_act { KUBE_CORDON, KUBE_TAINT };

const char *kube_act_name(enum kube_act act); /* "cordon" */

/* Make the record of taking a node out: by whom, when, why; printable characters only. NULL: memory
 * is short. */
char *kube_record_new(enum kube_act act, const char *by, const char *at,
		      const char *why) MUST_CHECK;
/* Copy a member of a record, "by" or "why", to `out`, printable characters only; "": there is
 * none. */
void kube_record_read(const char *record, const char *member, char *out,
		      size_t max);

/* Make a merge patch that applies to this version of the node only, so that a change made by others
 * is never overwritten. NULL: memory is short. */
json_t *kube_node_take(const json_t *node, enum kube_act act,
		       const char *record) MUST_CHECK;
json_t *kube_node_give_back(const json_t *node) MUST_CHECK;

#endif
