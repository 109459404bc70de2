// SPDX-License-Identifier: Apache-2.0
/*
 * Nodes of Kubernetes as its API has them, and the changes by which a recovery takes one out and
 * gives it back.  No I/O.
 *
 * A node that is out has the annotation KUBE_NODE_RECORD, which says by whom, when, why, and what
 * was done: only that is undone.
 */
#ifndef BOOTSEER_PROFILER_KUBE_KUBE_NODE_H
#define BOOTSEER_PROFILER_KUBE_KUBE_NODE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/error.h"

#define KUBE_NODE_RECORD "bootseer.io/recover"
#define KUBE_NODE_TAINT "bootseer.io/suspect"
#define KUBE_NODE_OTHERS_MAX 8u
#define KUBE_WHY_MAX 300 /* bytes of a reason */

/* Texts are the object's. */
struct kube_node {
	const char *name, *uid;
	const char *others[KUBE_NODE_OTHERS_MAX +
			   1]; /* addresses; NULL ends them */
	const char
		*record; /* what an earlier recovery wrote, JSON; NULL: none */
	bool is_cordoned, is_tainted, is_ready, is_control_plane;
};

/* -EBADMSG: it is no node. */
int kube_node_read(const json_t *node, struct kube_node *ret,
		   struct error *err) MUST_CHECK;

/* Its record is there, and what the record says was done still is. */
bool kube_node_is_held(const struct kube_node *n);
/* No pod is placed there. */
bool kube_node_is_out(const struct kube_node *n);

enum kube_act { KUBE_CORDON, KUBE_TAINT };

const char *kube_act_name(enum kube_act act); /* "cordon" */

/* The record of who takes a node out, printable; NULL: no memory. */
char *kube_record_new(enum kube_act act, const char *by, const char *at,
		      const char *why) MUST_CHECK;
/* A member of a record, "by" or "why", printable, into `out`; "" if there is none. */
void kube_record_read(const char *record, const char *member, char *out,
		      size_t max);

/* Merge patches that hold for this version of the node alone, so that a change of somebody else
 * is never written over.  NULL: no memory. */
json_t *kube_node_take(const json_t *node, enum kube_act act,
		       const char *record) MUST_CHECK;
json_t *kube_node_give_back(const json_t *node) MUST_CHECK;

#endif
