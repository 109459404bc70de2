// SPDX-License-Identifier: Apache-2.0
/*
 * Revocations given by bootseer-registry: an image for all nodes, all images for a node, or one
 * image for one node. Older capabilities are then not accepted.
 */
#ifndef BOOTSEER_P2P_RIGHTS_REVOKED_H
#define BOOTSEER_P2P_RIGHTS_REVOKED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/digest.h"
#include "common/error.h"

/* Entries, at most. bootseer-registry keeps 10,000, and a few more when several replicas add
 * the last one at once. */
#define REVOKED_MAX 11000u

/* Any thread, once no more entries are added. */
struct revoked;
/* Create a set for `n` entries. -E2BIG: more than REVOKED_MAX. */
int revoked_new(size_t n, struct revoked **ret, struct error *err) MUST_CHECK;
void revoked_free(struct revoked *r);
DEFINE_AUTO(revoked)
/* `image` NULL: every image; `node` "": every node.  -EINVAL: both; -ENOSPC. */
int revoked_add(struct revoked *r, const struct digest *image, const char *node,
		struct error *err) MUST_CHECK;
size_t revoked_count(const struct revoked *r);
/* Is the image revoked for this node? `r` NULL: nothing was revoked. */
bool revoked_has(const struct revoked *r, const struct digest *image,
		 const char *node);

#endif
