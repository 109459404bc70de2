// SPDX-License-Identifier: Apache-2.0
/* Sends units of a file to the store: each column has a queue, and is sent by one thread at a
 * time. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_SENDING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_SENDING_H

#include <sys/queue.h>

#include "ckpt-fuse/ckpt.h"
#include "ckpt-fuse/mount/budget.h"
#include "net/pool.h"
#include "ckpt-fuse/mount/unit_stage.h"
#include "common/mutex.h"

#define SENDING_COLUMNS_MAX 64u

struct sending_unit {
	STAILQ_ENTRY(sending_unit) link;
	uint64_t u;
	uint32_t place;
	char *data;
	size_t size, len; /* allocated bytes; bytes to send */
	bool is_ours;     /* free the memory after sending */
};

struct sending_column {
	struct work work;
	struct sending *s;
	STAILQ_HEAD(, sending_unit) queue;
	bool is_running;
};

struct sending {
	struct budget *budget;
	struct pool *pool;
	struct ckpt_writer *writer; /* NULL: not begun */
	struct sending_column columns[SENDING_COLUMNS_MAX];
	pthread_mutex_t lock; /* protects the queues and the members below */
	pthread_cond_t moved;
	unsigned int n_units; /* units not sent yet */
	int rc;               /* the first failure */
	struct error err;
};

void sending_init(struct sending *s, struct budget *b, struct pool *p);
/* Wait for the units being sent. Without a commit nothing of them stays. */
void sending_fini(struct sending *s);

/* Have a writer of the file, in units of so many bytes; `base`: see ckpt_write_options. */
int sending_begin(struct sending *s, struct object_store *store,
		  const char *path, const struct ckpt_file *base, size_t unit,
		  struct error *err) MUST_CHECK;
/* Begin a segment of so many columns. */
int sending_begin_segment(struct sending *s, uint32_t columns,
			  struct error *err) MUST_CHECK;
/* Queue the first `len` bytes of the unit, whose buffer is large enough. Takes x->data if
 * `is_ours`, also on failure. */
int sending_add(struct sending *s, const struct staged_unit *x, size_t len,
		bool is_ours, struct error *err) MUST_CHECK;
/* A segment is open, and all units of it are sent. */
bool sending_is_idle(struct sending *s);
/* Wait for all units, and end the segment; after that they can be read. */
int sending_end_segment(struct sending *s, struct error *err) MUST_CHECK;
/* Wait for all units, and free the writer; `ret` not NULL: commit first. */
int sending_end(struct sending *s, struct ckpt_stat *ret,
		struct error *err) MUST_CHECK;

#endif
