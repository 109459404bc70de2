// SPDX-License-Identifier: Apache-2.0
/*
 * A file that is being written: its last bytes staged, those before on their way to
 * their columns.  All its descriptors share it.  Functions block; any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_WRITING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_WRITING_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "ckpt-fuse/ckpt.h"
#include "ckpt-fuse/mount/budget.h"
#include "net/pool.h"
#include "ckpt-fuse/mount/listed.h"
#include "ckpt-fuse/mount/reading.h"

struct writing;

/* State that the files of one mount share. */
struct writings {
	struct object_store *store;
	struct budget *budget;
	struct pool *pool;     /* whose threads send */
	struct listed *listed; /* told of each commit */
	bool compares;         /* a commit with what was there at the open */
	uint64_t
		tail_most; /* bytes that stay staged, of units that are through */
	struct budget
		slots; /* objects that the store's memory can write at once */
	int64_t patience_ns; /* for memory */
	uint32_t columns;    /* of a segment; 0: by the size of the file */
	/* Readings whose blocks give memory back, and keep what is read of files that are
	 * written. */
	struct readings *readings;
	pthread_mutex_t lock; /* the list */
	TAILQ_HEAD(, writing) list;
	atomic_uint n;
	atomic_uint_fast64_t bytes_written, commits, failures;
};

struct writing_options {
	bool is_new; /* it begins empty; else with what is there */
	struct ckpt_attr attr;
	const struct buf *xattrs; /* of a new one; NULL: none */
	/* Version that a new file replaces; NULL: nobody has looked. */
	const struct ckpt_version *version;
};

int writing_new(struct writings *all, const char *path,
		const struct writing_options *o, struct writing **ret,
		struct error *err) MUST_CHECK;
/* Free a writing; what was not committed is lost. */
void writing_free(struct writing *w);

#define WRITING_AT_END UINT64_MAX /* as `off`: behind what is there by then */

/* Also, besides what ckpt.h says:
 *   -EOPNOTSUPP  of a plain object of others, which is too large to be staged
 *   -ENOBUFS     other files that are written have all the memory, and keep it
 * A write or a truncation that fails, however, fails the file: nothing of it is stored, and
 * all that follows fails with the same, until it begins anew. */
int writing_write(struct writing *w, uint64_t off, const void *data, size_t len,
		  struct error *err) MUST_CHECK;
int writing_truncate(struct writing *w, uint64_t size,
		     struct error *err) MUST_CHECK;
/* The same, unless it is as long already. */
int writing_grow(struct writing *w, uint64_t size,
		 struct error *err) MUST_CHECK;
/* Open the file once more, to begin anew, when `version` is there, which may be NULL. */
int writing_begin_anew(struct writing *w, const struct ckpt_version *version,
		       struct error *err) MUST_CHECK;
/* Open the file once more, to go on, when `now` is there: others may have replaced what
 * was committed. */
void writing_go_on(struct writing *w, const struct ckpt_stat *now);
/* Up to `len` bytes; gives how many, 0 at the end, or -errno.  Bytes that have left for the
 * store come from there, uncommitted. */
int64_t writing_read(struct writing *w, uint64_t off, void *buf, size_t len,
		     struct error *err) MUST_CHECK;
/* Have what was written durable, and seen by all; nothing to do is no error.  So is what was
 * closed before somebody else who wrote was killed.
 *   -ESTALE  another node has written the file since it was opened here */
int writing_commit(struct writing *w, struct error *err) MUST_CHECK;
/* How often it began anew. */
unsigned int writing_n_begun(const struct writing *w);
/* As writing_commit(), for who closes what it had written when it had begun so often: if it
 * has begun anew since, that is gone, and what is there is another's, who has not closed it.
 *   -EIO  it is torn */
int writing_commit_begun(struct writing *w, unsigned int n_begun,
			 struct error *err) MUST_CHECK;

/* Keep what was committed to be read on here, whatever has the name later. -ESTALE: it
 * has another already. */
int writing_keep(struct writing *w, struct error *err) MUST_CHECK;
/* The file has another name; NULL: none any more, and is not committed again.  Takes it. */
void writing_move(struct writing *w, char *path);
/* The same around what gives it that name in the store: nothing is committed meanwhile but by
 * writing_commit_whole(), nor after it what was under way by the old name.  When it was not
 * `moved`, it has the name that it had. */
void writing_begin_move(struct writing *w);
int writing_commit_whole(struct writing *w, struct error *err) MUST_CHECK;
void writing_end_move(struct writing *w, bool is_moved, char *path);
/* The three below do not wait for a write or a commit that is under way; they say what
 * was before it. */
/* Change an attribute of what is committed next; -ENODATA and others of xattrs_change(). */
int writing_change_xattr(struct writing *w, const struct xattr_change *c,
			 struct error *err) MUST_CHECK;
/* Copies of what it has by now. */
int writing_get_xattrs(struct writing *w, struct buf *ret,
		       struct error *err) MUST_CHECK;

/* A process that wrote to it, the last time when it had begun so often, was killed before it
 * closed it: what was not committed is half of something, until somebody writes to it again. */
void writing_tear(struct writing *w, unsigned int n_begun);
bool writing_is_torn(struct writing *w);
/* Is there something that the next commit stores, unless it fails? */
bool writing_is_pending(struct writing *w);
/* Is there something that was not committed? */
bool writing_is_dirty(struct writing *w);
/* False: it was not changed yet, and is what the store has. */
bool writing_stat(struct writing *w, uint64_t *ret_size,
		  struct ckpt_attr *ret_attr);
/* 0, or why bytes of it were lost. */
int writing_state(struct writing *w, struct error *err) MUST_CHECK;
/* Have all of it stored anew with these at the next commit. */
int writing_keep_attr(struct writing *w, const struct ckpt_attr *attr,
		      struct error *err) MUST_CHECK;
/* Set attributes of what is committed next. */
void writing_set_attr(struct writing *w, const struct ckpt_attr *attr,
		      bool has_mtime);

#endif
