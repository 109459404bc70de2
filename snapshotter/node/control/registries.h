// SPDX-License-Identifier: Apache-2.0
/* Registries that this node has trouble with now, for status and doctor. */
#ifndef BOOTSEER_NODE_REGISTRIES_H
#define BOOTSEER_NODE_REGISTRIES_H

#include "common/json.h"
#include "snapshotter/node/images/origin.h"

/* An array of registries, each with registry, state, seconds (since the failure, or until the
 * next attempt), reason and cure; NULL: no memory. */
json_t *node_registries(struct origins *origins) MUST_CHECK;

#endif
