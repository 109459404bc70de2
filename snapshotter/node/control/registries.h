// SPDX-License-Identifier: Apache-2.0
/* Registries that this node has trouble with now, for status and doctor. */
#ifndef BOOTSEER_NODE_REGISTRIES_H
#define BOOTSEER_NODE_REGISTRIES_H

#include "net/control.h"

#include "snapshotter/node/node.h"

/* Each with registry, state, seconds (since when, or how long yet), reason and cure; NULL:
 * no memory. */
json_t *node_registries(struct node *n) MUST_CHECK;

#endif
