// SPDX-License-Identifier: Apache-2.0
/*
 * Revocations that bootseer-registry tells: an image for every node, every
 * image for a node, or one for one. Capabilities from before are not believed.
 */
#ifndef BOOTSEER_P2P_RIGHTS_REVOKED_H
#define BOOTSEER_P2P_RIGHTS_REVOKED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/digest.h"
#include "common/error.h"

/* Entries.  bootseer-registry keeps 10,000, and some more when several replicas
 * take the last one at once. */
#define REVOKED_MAX 11000u

/* Any thread, when nothing is added any more. */
struct revoked;
/* With room for `n` entries.  -E2BIG: more than REVOKED_MAX. */
int revoked_new(size_t n, struct revoked **ret, struct error *err) MUST_CHECK;
void revoked_free(struct revoked *r);
DEFINE_AUTO(revoked)
/* `image` NULL: every image; `node` "": every node.  -EINVAL: both; -ENOSPC. */
int revoked_add(struct revoked *r, const struct digest *image, const char *node,
		struct error *err) MUST_CHECK;
size_t revoked_count(const struct revoked *r);
/* May this node not have it?  `r` NULL: nothing was revoked. */
bool revoked_has(const struct revoked *r, const struct digest *image,
		 const char *node);

#endif
