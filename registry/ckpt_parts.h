// SPDX-License-Identifier: Apache-2.0
/*
 * Checkpoint loads and saves as nodes report them, packed (registry/ckpt_pack.h) and stored beside
 * the events, in the same transaction. A view of a start's checkpoints then reads a few rows of
 * each node, not hundreds of thousands. Sums could not be stored instead: medians and rounds need
 * all nodes, and a clock exchange or a late event changes the times of everything that the node
 * reported.
 *
 * A large part is closed and never changed again. When a batch repeats events that are stored
 * already, all parts of its node are built again.
 *
 * `job_start.ckpt_seen` counts the events that were stored in parts. If it is less than all events,
 * a service of a version without parts stored some; then the events themselves are read.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_PARTS_H
#define BOOTSEER_REGISTRY_CKPT_PARTS_H

#include "registry/ckpt_pack.h"
#include "registry/db.h"

#define CKPT_PART_BYTES 4096u /* a larger part is closed */

/* A batch's additions to the parts of one node; initialise with CKPT_PARTS_INIT. */
struct ckpt_parts {
	int64_t start;
	const char *node; /* borrowed */
	int64_t part;     /* number of the part that is being written */
	struct buf bytes; /* packed events of that part */
	struct ckpt_pack pack;
	bool is_open;     /* the last part was read */
	bool is_doubtful; /* some events may be stored already */
};
#define CKPT_PARTS_INIT \
	{ \
		.is_open = false \
	}

/* Call all of these within db_run(). */

/* Add those of the stored events that are loads or saves. `is_sure` false: some of the events had
 * been stored before. */
int ckpt_parts_add(struct db_conn *c, struct ckpt_parts *p,
		   const struct stage_event *events, size_t n, bool is_sure,
		   struct error *err) MUST_CHECK;

/* Write the additions to the database. */
int ckpt_parts_close(struct db_conn *c, struct ckpt_parts *p,
		     struct error *err) MUST_CHECK;
void ckpt_parts_fini(struct ckpt_parts *p);

/* Are all loads and saves of this start in its parts? Returns 1, 0 or -errno. */
int ckpt_parts_are_whole(struct db_conn *c, int64_t start,
			 struct error *err) MUST_CHECK;

/* Call `each` with all events of a start, one node after another; a negative result ends it, and is
 * returned. */
int ckpt_parts_each(struct db_conn *c, int64_t start,
		    int (*each)(void *arg, const struct start_event *e),
		    void *arg, struct error *err) MUST_CHECK;

#endif
