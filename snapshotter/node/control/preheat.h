// SPDX-License-Identifier: Apache-2.0
/*
 * Orders of bootseer-registry to fetch images before they start here
 * (docs/formats/registry-api.md, "Preheating nodes"): a thread asks for them now and
 * then, prefetches, and reports.  A prefetch that has begun goes on when the service is away.
 */
#ifndef BOOTSEER_NODE_PREHEAT_H
#define BOOTSEER_NODE_PREHEAT_H

#include "snapshotter/node/control/node.h"

#define PREHEAT_ORDERS_MAX 16 /* orders under way at once */

struct preheat;

/* `*ret` is NULL when there is no --service. */
int preheat_open(struct node *n, struct preheat **ret,
		 struct error *err) MUST_CHECK;
/* Waits for the order's request under way.  NULL is allowed. */
void preheat_close(struct preheat *p);

#endif
