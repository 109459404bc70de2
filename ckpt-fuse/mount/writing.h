// SPDX-License-Identifier: Apache-2.0
/*
 * A file that is being written, shared by all its descriptors: the last bytes are staged in memory,
 * earlier ones are being sent to their columns. Functions block; any thread.
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
	struct pool *pool;     /* threads that send units */
	struct listed *listed; /* invalidated at each commit */
	/* commits compare with the version at the open */
	bool compares;
	uint64_t tail_most; /* bytes of full units that stay staged */
	/* limits the objects written at once, by the store's memory */
	struct budget slots;
	int64_t patience_ns; /* longest wait for memory */
	uint32_t columns;    /* columns of a segment; 0: by the file's size */
	/* Used to read files that are being written; gives memory back when that is short. */
	struct readings *readings;
	pthread_mutex_t lock; /* protects `list` */
	TAILQ_HEAD(, writing) list;
	atomic_uint n;
	atomic_uint_fast64_t bytes_written, commits, failures;
};

struct writing_options {
	bool is_new; /* begins empty; false: with the current version */
	struct ckpt_attr attr;
	/* extended attributes of a new file; NULL: none */
	const struct buf *xattrs;
	/* Version that a new file replaces; NULL: the store was not asked. */
	const struct ckpt_version *version;
};

int writing_new(struct writings *all, const char *path,
		const struct writing_options *o, struct writing **ret,
		struct error *err) MUST_CHECK;
/* Free a writing; uncommitted bytes are lost. */
void writing_free(struct writing *w);

#define WRITING_AT_END UINT64_MAX /* as `off`: append at the current end */

/* Also, besides what ckpt.h says:
 *   -EOPNOTSUPP  of a plain object of others, which is too large to be staged
 *   -ENOBUFS     other files that are written have all the memory, and keep it
 * A write or a truncation that fails, however, fails the file: nothing of it is stored, and
 * all that follows fails with the same, until it begins anew. */
int writing_write(struct writing *w, uint64_t off, const void *data, size_t len,
		  struct error *err) MUST_CHECK;
int writing_truncate(struct writing *w, uint64_t size,
		     struct error *err) MUST_CHECK;
/* Truncate to `size` unless the file is already as long. */
int writing_grow(struct writing *w, uint64_t size,
		 struct error *err) MUST_CHECK;
/* Another open that truncates the file; `version`, if not NULL, is the current version. */
int writing_begin_anew(struct writing *w, const struct ckpt_version *version,
		       struct error *err) MUST_CHECK;
/* Another open that keeps the bytes; `now` is the current version, which may have replaced the
 * committed one. */
void writing_go_on(struct writing *w, const struct ckpt_stat *now);
/* Read up to `len` bytes; returns how many, 0 at the end, or -errno. Bytes sent to the store are
 * read from there, though not committed. */
int64_t writing_read(struct writing *w, uint64_t off, void *buf, size_t len,
		     struct error *err) MUST_CHECK;
/* Have what was written durable, and seen by all; nothing to do is no error.  So is what was
 * closed before somebody else who wrote was killed.
 *   -ESTALE  another node has written the file since it was opened here */
int writing_commit(struct writing *w, struct error *err) MUST_CHECK;
/* How often the file was truncated to begin anew. */
unsigned int writing_n_begun(const struct writing *w);
/* As writing_commit(), for who closes what it had written when it had begun so often: if it
 * has begun anew since, that is gone, and what is there is another's, who has not closed it.
 *   -EIO  it is torn */
int writing_commit_begun(struct writing *w, unsigned int n_begun,
			 struct error *err) MUST_CHECK;

/* Keep the committed version readable whatever replaces it. -ESTALE: it was replaced already. */
int writing_keep(struct writing *w, struct error *err) MUST_CHECK;
/* Set the file's new path; NULL: it has none, and is not committed any more. Takes `path`. */
void writing_move(struct writing *w, char *path);
/* Call before and after the rename in the store. In between only writing_commit_whole() may commit,
 * and no commit under the old name comes later. Not `moved`: the file keeps its name. */
void writing_begin_move(struct writing *w);
int writing_commit_whole(struct writing *w, struct error *err) MUST_CHECK;
void writing_end_move(struct writing *w, bool is_moved, char *path);
/* The next three functions do not wait for a running write or commit, and return the state before
 * it. */
/* Change an extended attribute for the next commit; errors as of xattrs_change(). */
int writing_change_xattr(struct writing *w, const struct xattr_change *c,
			 struct error *err) MUST_CHECK;
/* Copy the current extended attributes. */
int writing_get_xattrs(struct writing *w, struct buf *ret,
		       struct error *err) MUST_CHECK;

/* Mark the file as torn: a process that last wrote when the count was `n_begun` was killed before
 * it closed the file. Uncommitted bytes are then incomplete, until the next write. */
void writing_tear(struct writing *w, unsigned int n_begun);
bool writing_is_torn(struct writing *w);
/* Would the next commit store something, if it does not fail? */
bool writing_is_pending(struct writing *w);
/* Are there uncommitted changes? */
bool writing_is_dirty(struct writing *w);
/* Get size and attributes. False: not changed, the same as in the store. */
bool writing_stat(struct writing *w, uint64_t *ret_size,
		  struct ckpt_attr *ret_attr);
/* 0, or the error by which bytes were lost. */
int writing_state(struct writing *w, struct error *err) MUST_CHECK;
/* Store the whole file again with these attributes at the next commit. */
int writing_keep_attr(struct writing *w, const struct ckpt_attr *attr,
		      struct error *err) MUST_CHECK;
/* Set the attributes for the next commit. */
void writing_set_attr(struct writing *w, const struct ckpt_attr *attr,
		      bool has_mtime);

#endif
