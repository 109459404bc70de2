// SPDX-License-Identifier: Apache-2.0
/*
 * One at a time for each image: work on an image lasts long (transfers,
 * mounts), so it is not a lock that is held but a place that is taken.
 */
#ifndef BOOTSEER_NODE_GATE_H
#define BOOTSEER_NODE_GATE_H

#include "common/digest.h"

struct gate;

struct gate *gate_new(void) MUST_CHECK;
void gate_free(struct gate *g); /* with nobody inside */

/* Wait until nobody works on `key`, and be the one.  -ETIMEDOUT, -ENOMEM. */
int gate_enter(struct gate *g, const struct digest *key, int64_t timeout_ns,
	       struct error *err) MUST_CHECK;
void gate_leave(struct gate *g, const struct digest *key);

#endif
