// SPDX-License-Identifier: Apache-2.0
/*
 * A version of a file that is read, by all who have it open: what was read ahead of
 * them is kept until they have had it.  Every byte was checked before it is given out.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_READING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_READING_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "ckpt-fuse/ckpt.h"
#include "ckpt-fuse/mount/budget.h"
#include "ckpt-fuse/mount/jobs.h"

struct reading;
struct read_block;

/* What the files of one mount share. */
struct readings {
	struct budget *budget;
	struct jobs *jobs;       /* that read ahead */
	uint64_t readahead_most; /* bytes ahead of one reader; 0: none */
	pthread_mutex_t lock;    /* the blocks of all files, and the list */
	pthread_cond_t came;     /* a block was read */
	/* Blocks that nobody reads now, those longest unused first. */
	TAILQ_HEAD(, read_block) idle;
	atomic_uint_fast64_t bytes_read, bytes_ahead, bytes_unused;
};

void readings_init(struct readings *all);
void readings_fini(struct readings *all); /* with no reading */
/* Give memory back that only serves to be fast; false: there is none. */
bool readings_shrink(void *readings);

/* Takes `f`. */
int reading_new(struct readings *all, struct ckpt_file *f, struct reading **ret,
		struct error *err) MUST_CHECK;
struct reading *reading_ref(struct reading *r);
/* The last one waits for what is read ahead. */
void reading_unref(struct reading *r);
struct ckpt_file *reading_file(struct reading *r);

/* Up to `len` bytes; gives how many, 0 at the end, or -errno. */
int64_t reading_read(struct reading *r, uint64_t off, void *buf, size_t len,
		     struct error *err) MUST_CHECK;

#endif
