// SPDX-License-Identifier: Apache-2.0
/* Regular work of the node: measuring the disk, removing old images, judging indexes. */
#ifndef BOOTSEER_NODE_HOUSEKEEPER_H
#define BOOTSEER_NODE_HOUSEKEEPER_H

#include "net/loop.h"
#include "net/pool.h"

struct node;
struct housekeeper;

/* Start the rounds of work.  `loop` and `pool` are borrowed; the first round begins soon.  On
 * the loop's thread. */
int housekeeper_start(struct node *n, struct loop *loop, struct pool *pool,
		      struct housekeeper **ret, struct error *err) MUST_CHECK;
/* Begin no more rounds; a round may still be running until the pool is freed. */
void housekeeper_stop(struct housekeeper *h); /* NULL is allowed */
/* Call it after the pool was freed and the loop has run the work that the pool posted. */
void housekeeper_free(struct housekeeper *h); /* NULL is allowed */

#endif
