// SPDX-License-Identifier: Apache-2.0
/* Units of a file on their way: each column has its own queue, and is sent by one
 * thread at a time. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_SENDING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_SENDING_H

#include <pthread.h>
#include <sys/queue.h>

#include "ckpt-fuse/ckpt.h"
#include "ckpt-fuse/mount/budget.h"
#include "ckpt-fuse/mount/jobs.h"
#include "ckpt-fuse/mount/tail.h"

#define SENDING_COLUMNS_MAX 64u

struct sending_unit {
	STAILQ_ENTRY(sending_unit) link;
	uint64_t u;
	struct tail_unit unit;
	bool is_ours; /* its memory is given back when it is sent */
};

struct sending_column {
	struct job job;
	struct sending *s;
	STAILQ_HEAD(, sending_unit) queue;
	bool is_running;
};

struct sending {
	struct budget *budget;
	struct jobs *jobs;
	struct ckpt_writer *writer; /* NULL: nothing was begun */
	struct sending_column columns[SENDING_COLUMNS_MAX];
	pthread_mutex_t lock; /* queues, and the rest */
	pthread_cond_t moved;
	unsigned int n_units; /* that are not sent */
	int rc;               /* the first failure */
	struct error err;
};

void sending_init(struct sending *s, struct budget *b, struct jobs *j);
/* Waits for what is on its way; without a commit nothing of it stays. */
void sending_fini(struct sending *s);

int sending_begin(struct sending *s, struct object_store *store,
		  const char *path, const struct ckpt_write_options *o,
		  struct error *err) MUST_CHECK;
/* Takes unit->data when `is_ours`, also on failure. */
int sending_add(struct sending *s, uint64_t u, const struct tail_unit *unit,
		bool is_ours, struct error *err) MUST_CHECK;
/* Wait for all units, and end the writer, with a commit when `ret` is not NULL. */
int sending_end(struct sending *s, struct ckpt_stat *ret,
		struct error *err) MUST_CHECK;

#endif
