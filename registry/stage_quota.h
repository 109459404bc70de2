// SPDX-License-Identifier: Apache-2.0
/*
 * How many stage events each node has stored within the hour.  A start bounds what one
 * node says of it, and nothing bounds how many starts there are: one node that makes
 * them up would have the starts of all others forgotten, oldest first.  Of this process
 * alone: each replica counts for itself.  Any thread.
 */
#ifndef BOOTSEER_REGISTRY_STAGE_QUOTA_H
#define BOOTSEER_REGISTRY_STAGE_QUOTA_H

#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

#define STAGE_QUOTA_NODES_MAX 65536u /* more than so many are not counted */

struct stage_quota;

/* `most`: events of a node in an hour. */
int stage_quota_new(uint64_t most, struct stage_quota **ret,
		    struct error *err) MUST_CHECK;
void stage_quota_free(struct stage_quota *q);
DEFINE_AUTO(stage_quota)

/* May the node store more, at `now` (s)?  -EDQUOT: not within this hour. */
int stage_quota_check(struct stage_quota *q, const char *node, int64_t now,
		      struct error *err) MUST_CHECK;
/* Note that the node stored `n`. */
void stage_quota_add(struct stage_quota *q, const char *node, uint64_t n,
		     int64_t now);

#endif
