// SPDX-License-Identifier: Apache-2.0
/*
 * Limits the stage events that each node stores in an hour. A start limits the events of one node,
 * but the number of starts is not limited: a node that invents starts could have those of all
 * others deleted, the oldest first. Each replica counts for itself. Any thread.
 */
#ifndef BOOTSEER_REGISTRY_STAGE_QUOTA_H
#define BOOTSEER_REGISTRY_STAGE_QUOTA_H

#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

#define STAGE_QUOTA_NODES_MAX 65536u /* further nodes are not counted */

struct stage_quota;

/* `most`: events of one node in an hour, at most. */
int stage_quota_new(uint64_t most, struct stage_quota **ret,
		    struct error *err) MUST_CHECK;
void stage_quota_free(struct stage_quota *q);
DEFINE_AUTO(stage_quota)

/* May the node store more events at `now` (s)? -EDQUOT: not within this hour. */
int stage_quota_check(struct stage_quota *q, const char *node, int64_t now,
		      struct error *err) MUST_CHECK;
/* Count `n` stored events of the node. */
void stage_quota_add(struct stage_quota *q, const char *node, uint64_t n,
		     int64_t now);

#endif
