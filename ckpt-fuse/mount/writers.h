// SPDX-License-Identifier: Apache-2.0
/*
 * A node's file is opened to be written, committed and closed.  A descriptor of it is owned by the
 * process that opened it, until that has closed it or was killed.  With no lock of the node, unless
 * said.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_WRITERS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_WRITERS_H

#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/mount.h"

/* How a node's file is opened to be written. */
struct writers_how {
	bool is_new; /* it begins empty */
	struct ckpt_attr attr;
	/* The version that a new file replaces; unknown when nobody has looked. */
	struct ckpt_version version;
	/* The version that a file goes on from; NULL: those that have it open know. */
	const struct ckpt_stat *now;
};
/* Have the node's file open to be written; counts a writer. */
int writers_begin(struct ckpt_mount *m, struct ckpt_node *n,
		  const struct writers_how *o, struct error *err) MUST_CHECK;
/* Looks at the path: its version, which commits are compared with, and its attributes. */
int writers_look(struct ckpt_mount *m, const char *path,
		 struct ckpt_version *ret_version, struct ckpt_stat *ret,
		 struct error *err) MUST_CHECK;
void writers_end(struct ckpt_node *n);
/* With the node's lock, before its file is changed, or replaced by a new one, in which case
 * what was lost is not asked for: leave what a killed program left, and, when it goes
 * `to_readers`, too, what is read.  -ESTALE: look the name up again. */
int writers_leave(struct ckpt_mount *m, struct ckpt_node *n, bool is_new,
		  bool to_readers, struct error *err) MUST_CHECK;

/* Have it open to be written, by open(2)'s `flags`.  -ESTALE: look the name up again. */
int writers_open(struct ckpt_mount *m, struct ckpt_node *n, int flags,
		 struct error *err) MUST_CHECK;
/* Take the node's lock, while no folder is renamed, with no commit of it on its way.  Such a
 * one is waited for with neither lock, and has the store's deadlines. */
#define WRITERS_STORED 1u /* wait until what was closed is in the store, too */
/* Open files are waited for a few times; when another begins each time, later, together with
 * whatever has to wait for them. */
#define WRITERS_IDLE 2u
#define WRITERS_WAITS_MAX 4u
struct nodes *writers_lock_settled(struct ckpt_mount *m, struct ckpt_node *n,
				   unsigned int wants) MUST_CHECK;
/* With the node's lock, and `has_paths` when no folder is renamed, by whom has it open to be
 * written (writers_begin()) and is through by it: commit.  With neither lock meanwhile,
 * which it takes again: the file may have another name then, or none. */
int writers_commit(struct ckpt_mount *m, struct ckpt_node *n, bool has_paths,
		   struct error *err) MUST_CHECK;
/* With the node's lock: one of its writers has a descriptor; and it is released. */
void writers_own(struct ckpt_node *n);
void writers_release(struct ckpt_node *n, bool is_owned);
/* Before a write of a process that inherited it, with no lock: what its owner closed is on its way
 * to the store, and would have half of this. */
void writers_settle_late(struct ckpt_mount *m, const struct handle *h);
/* After a write by it, before that is answered. */
void writers_note_write(struct handle *h);
/* The process that opened it has closed it, or was killed.  With no lock. */
void writers_disown(struct handle *h);
/* With the node's lock: have its file open to be written. */
int writers_begin_now(struct ckpt_mount *m, struct ckpt_node *n, bool is_new,
		      struct error *err) MUST_CHECK;
/* When writers_begin_now() said -ESTALE or -ENOENT, the kernel looks the name up once more: open
 * the node that it will find for writing.  With no lock. */
void writers_leave_successor(struct ckpt_mount *m, struct ckpt_node *n,
			     bool is_new);
/* A reader of what its writers have is released. */
void writers_end_peeker(struct ckpt_node *n);

#endif
