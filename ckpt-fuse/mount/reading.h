// SPDX-License-Identifier: Apache-2.0
/*
 * A version of a file that is read, by all who have it open: what was read ahead of
 * them is kept until they have had it.  Every byte was checked before it is given out.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_READING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_READING_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "ckpt-fuse/ckpt.h"
#include "ckpt-fuse/mount/budget.h"
#include "groupio/grouped_file.h"
#include "net/pool.h"

#define READING_PARTS_MAX 4u /* blocks that one read may take from */

struct reading;
struct read_block;

/* Bytes that are lent to one reader, in order. */
struct reading_loan {
	struct iovec parts[READING_PARTS_MAX];
	size_t n;
	struct read_block *blocks[READING_PARTS_MAX];
	char *own; /* bytes that are in no block, or in too many */
};

/* State that the files of one mount share. */
struct readings {
	struct budget *budget;
	struct pool *pool;        /* whose threads read ahead */
	struct group *group;      /* NULL: files are read alone */
	struct disk_cache *cache; /* NULL: nothing is kept */
	uint64_t readahead_most;  /* bytes ahead of one reader; 0: none */
	pthread_mutex_t lock;     /* the blocks of all files, and the list */
	pthread_cond_t came;      /* a block was read */
	/* Blocks that nobody reads now, those longest unused first. */
	TAILQ_HEAD(, read_block) idle;
	/* Files that somebody reads forward, those read longest ago first, and how many. */
	TAILQ_HEAD(, reading) active;
	unsigned int n_active;
	/* Bytes that open files' tables have.  So many of them are none of the budget, which files
	 * that are written may have for minutes: what is small can be opened all the same. */
	uint64_t tables, tables_own;
	atomic_uint_fast64_t bytes_read, bytes_ahead, bytes_unused;
};

void readings_init(struct readings *all);
void readings_fini(struct readings *all); /* with no reading */
/* Give memory back that only serves to be fast; false: there is none. */
bool readings_shrink(struct readings *all);

/* Takes `f`.  -ENOBUFS: the mount has no memory for its tables. */
int reading_new(struct readings *all, struct ckpt_file *f, struct reading **ret,
		struct error *err) MUST_CHECK;
/* Read nothing ahead of who reads it. */
void reading_stay(struct reading *r);
struct reading *reading_ref(struct reading *r);
/* The last one waits for nobody: what comes yet frees it, before pool_free() of readings.pool
 * returns. */
void reading_unref(struct reading *r);
struct ckpt_file *reading_file(struct reading *r);

/* Lend up to `len` bytes; gives how many, 0 at the end, or -errno, which lends none.
 * They are valid until reading_return(). */
int64_t reading_lend(struct reading *r, uint64_t off, size_t len,
		     struct reading_loan *ret, struct error *err) MUST_CHECK;
void reading_return(struct reading *r, struct reading_loan *loan);

#endif
