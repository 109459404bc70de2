// SPDX-License-Identifier: Apache-2.0
/* Regular work: looks at the disk, and the removal of old images. */
#ifndef BOOTSEER_NODE_HOUSEKEEPER_H
#define BOOTSEER_NODE_HOUSEKEEPER_H

#include "net/loop.h"
#include "net/pool.h"

struct node;
struct housekeeper;

/* Both are borrowed; the first round begins soon.  On the loop's thread. */
int housekeeper_start(struct node *n, struct loop *loop, struct pool *pool,
		      struct housekeeper **ret, struct error *err) MUST_CHECK;
/* No round begins any more; one may be under way until the pool is freed. */
void housekeeper_stop(struct housekeeper *h); /* NULL is allowed */
/* After the pool was freed and the loop has run what it posted. */
void housekeeper_free(struct housekeeper *h); /* NULL is allowed */

#endif
