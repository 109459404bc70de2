// SPDX-License-Identifier: Apache-2.0
/* JSON answers about the node. */
#ifndef BOOTSEER_NODE_STATUS_H
#define BOOTSEER_NODE_STATUS_H

#include "net/control.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"

json_t *node_status(struct node *n) MUST_CHECK;
/* Names of the users of all images that begin with `prefix`. */
json_t *node_users(struct node *n, const char *prefix) MUST_CHECK;
/* The doctor's checks as JSON.  `registry` is checked too, within `call`; it may be NULL. */
json_t *node_doctor(struct node *n, const char *registry,
		    struct remote_call *call) MUST_CHECK;
/* The answer of image.prefetch, which is also a part of node.status. */
json_t *node_prefetch_json(struct image *i) MUST_CHECK;

#endif
