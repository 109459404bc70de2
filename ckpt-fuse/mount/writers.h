// SPDX-License-Identifier: Apache-2.0
/*
 * Opens a node's file for writing, commits and closes it. A descriptor is owned by the process that
 * opened it, until that has closed it or was killed. Call without the node's locks unless stated.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_WRITERS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_WRITERS_H

#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/mount.h"

/* How a node's file is opened for writing. */
struct writers_how {
	bool is_new; /* the file begins empty */
	struct ckpt_attr attr;
	/* The version that a new file replaces; unknown if the store was not asked. */
	struct ckpt_version version;
	/* The version that is changed; NULL: the file is open for writing already, and its version
	 * known. */
	const struct ckpt_stat *now;
};
/* Open the node's file for writing; counts a writer. */
int writers_begin(struct ckpt_mount *m, struct ckpt_node *n,
		  const struct writers_how *o, struct error *err) MUST_CHECK;
/* Get from the store the version of a path, which commits are compared with, and its attributes. */
int writers_look(struct ckpt_mount *m, const char *path,
		 struct ckpt_version *ret_version, struct ckpt_stat *ret,
		 struct error *err) MUST_CHECK;
void writers_end(struct ckpt_node *n);
/* Call with the node's lock held before its file is changed or replaced (`is_new`: a recorded loss
 * is then ignored). Gives up what a killed program left, and if `to_readers`, leaves the node to
 * its readers. -ESTALE: look the name up again. */
int writers_leave(struct ckpt_mount *m, struct ckpt_node *n, bool is_new,
		  bool to_readers, struct error *err) MUST_CHECK;

/* Open the file for writing with open(2)'s `flags`. -ESTALE: look the name up again. */
int writers_open(struct ckpt_mount *m, struct ckpt_node *n, int flags,
		 struct error *err) MUST_CHECK;
/* Take the node's lock, with folder renames held off, when no commit of the node is pending. The
 * wait holds neither lock, and is bounded by the store's deadlines. */
#define WRITERS_STORED 1u /* wait also until closed files are stored */
/* Wait also for running commits of open files, a few times. If another one begins each time, the
 * caller has to wait for it later, with the lock held. */
#define WRITERS_IDLE 2u
#define WRITERS_WAITS_MAX 4u
struct nodes *writers_lock_settled(struct ckpt_mount *m, struct ckpt_node *n,
				   unsigned int wants) MUST_CHECK;
/* Commit, for a caller that has the file open for writing (writers_begin()) and stays so during the
 * commit. Called with the node's lock held, and, if `has_paths`, with folder renames held off; both
 * are released meanwhile and taken again, after which the file may have another name or none. */
int writers_commit(struct ckpt_mount *m, struct ckpt_node *n, bool has_paths,
		   struct error *err) MUST_CHECK;
/* A writer got a descriptor; and its release. Called with the node's lock held. */
void writers_own(struct ckpt_node *n);
void writers_release(struct ckpt_node *n, bool is_owned);
/* Call without locks before a write by a process that inherited the descriptor: a pending commit of
 * the owner's close would otherwise store half of this write. */
void writers_settle_late(struct ckpt_mount *m, const struct handle *h);
/* Call after a write through the handle, before the request is answered. */
void writers_note_write(struct handle *h);
/* The owner has closed the file or was killed. Called without locks. */
void writers_disown(struct handle *h);
/* Open the file for writing. Called with the node's lock held. */
int writers_begin_now(struct ckpt_mount *m, struct ckpt_node *n, bool is_new,
		      struct error *err) MUST_CHECK;
/* After writers_begin_now() failed with -ESTALE or -ENOENT, the kernel looks the name up again:
 * prepare the node that it will find for writing. Called without locks. */
void writers_leave_successor(struct ckpt_mount *m, struct ckpt_node *n,
			     bool is_new);
/* Release a peeker. */
void writers_end_peeker(struct ckpt_node *n);

#endif
