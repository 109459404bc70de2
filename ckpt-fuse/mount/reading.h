// SPDX-License-Identifier: Apache-2.0
/*
 * A version of a file, shared by all that read it. Bytes that were read ahead are kept until they
 * were used. Every byte is checked before it is given out.
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

/* Bytes lent to one read, in order. */
struct reading_loan {
	struct iovec parts[READING_PARTS_MAX];
	size_t n;
	struct read_block *blocks[READING_PARTS_MAX];
	char *own; /* buffer for bytes that are in no block, or in too many */
};

/* State that the files of one mount share. */
struct readings {
	struct budget *budget;
	struct pool *pool;        /* threads that read ahead */
	struct group *group;      /* NULL: the mount is in no group */
	struct disk_cache *cache; /* NULL: no disk cache */
	/* bytes ahead of one reader; 0: no read-ahead */
	uint64_t readahead_most;
	/* protects the blocks of all files, and the lists */
	pthread_mutex_t lock;
	pthread_cond_t came; /* signalled when a block was read */
	/* Blocks without users, the least recently used first. */
	TAILQ_HEAD(, read_block) idle;
	/* Files with sequential readers, the least recently read first, and their number. */
	TAILQ_HEAD(, reading) active;
	unsigned int n_active;
	/* tables: memory of open files' tables. tables_own: the part of it that does not count
	 * against the budget, which writers may use up for minutes, so that small files can always
	 * be opened. */
	uint64_t tables, tables_own;
	atomic_uint_fast64_t bytes_read, bytes_ahead, bytes_unused;
};

void readings_init(struct readings *all);
void readings_fini(struct readings *all); /* no reading may be left */
/* Free memory that is only used for speed; false: there is none. */
bool readings_shrink(struct readings *all);

/* Make a reading of `f`; takes `f`. -ENOBUFS: no memory for the file's tables. */
int reading_new(struct readings *all, struct ckpt_file *f, struct reading **ret,
		struct error *err) MUST_CHECK;
/* Switch read-ahead off for this reading. */
void reading_stay(struct reading *r);
struct reading *reading_ref(struct reading *r);
/* Release a reference. The last one does not wait for running reads; the last of these frees the
 * reading, before pool_free() of readings.pool returns. */
void reading_unref(struct reading *r);
struct ckpt_file *reading_file(struct reading *r);

/* Lend up to `len` bytes; returns how many, 0 at the end, or -errno (nothing lent). They are valid
 * until reading_return(). */
int64_t reading_lend(struct reading *r, uint64_t off, size_t len,
		     struct reading_loan *ret, struct error *err) MUST_CHECK;
void reading_return(struct reading *r, struct reading_loan *loan);

#endif
