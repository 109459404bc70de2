// SPDX-License-Identifier: Apache-2.0
/*
 * Loads and saves of checkpoints as a start's nodes say them, packed beside the events
 * (registry/ckpt_pack.h), in the transaction that stores these: whoever looks at a start's
 * checkpoints reads a few rows of each node, not hundreds of thousands.  What is summed up
 * there cannot be kept itself: medians and rounds are of all nodes, and an exchange of a
 * clock, or an event that comes late, moves all that a node said.
 *
 * A part is closed when it is large, and never changed again, unless a batch held events
 * that were there before: then all parts of the node are made again.
 *
 * `job_start.ckpt_seen` counts the events that were stored so.  Where it is not all of them,
 * a service without parts stored some, and the events themselves are read.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_PARTS_H
#define BOOTSEER_REGISTRY_CKPT_PARTS_H

#include "registry/ckpt_pack.h"
#include "registry/db.h"

#define CKPT_PART_BYTES 4096u /* a part that has more is closed */

/* Additions of the events at hand to the parts of their node; begins with
 * CKPT_PARTS_INIT. */
struct ckpt_parts {
	int64_t start;
	const char *node; /* borrowed */
	int64_t part;     /* number of the one that is written */
	struct buf bytes; /* its events */
	struct ckpt_pack pack;
	bool is_open;     /* the last part was read */
	bool is_doubtful; /* it is not known which events are new */
};
#define CKPT_PARTS_INIT \
	{ \
		.is_open = false \
	}

/* All within db_run(). */

/* New events were stored, or (`is_sure` false) some of them: those of loads and saves are
 * added. */
int ckpt_parts_add(struct db_conn *c, struct ckpt_parts *p,
		   const struct stage_event *events, size_t n, bool is_sure,
		   struct error *err) MUST_CHECK;

/* Store what was added. */
int ckpt_parts_close(struct db_conn *c, struct ckpt_parts *p,
		     struct error *err) MUST_CHECK;
void ckpt_parts_fini(struct ckpt_parts *p);

/* Are all loads and saves of this start in its parts?  1, 0 or -errno. */
int ckpt_parts_are_whole(struct db_conn *c, int64_t start,
			 struct error *err) MUST_CHECK;

/* All of a start, by node; a negative result of `each` ends, and is returned. */
int ckpt_parts_each(struct db_conn *c, int64_t start,
		    int (*each)(void *arg, const struct start_event *e),
		    void *arg, struct error *err) MUST_CHECK;

#endif
