// SPDX-License-Identifier: Apache-2.0
/*
 * A node's file is opened, and closed.  Whoever reads goes on with the version that was
 * there when it opened the file, or, when nobody has committed one yet, with what its
 * writers have until one of them begins anew.  With no lock of the node, unless said.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_OPENING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_OPENING_H

#include "ckpt-fuse/mount/handles.h"
#include "ckpt-fuse/mount/mount.h"

struct reader_open {
	struct reading *reading; /* a reference; NULL: of a peeker */
	bool is_same;            /* the kernel's pages are of this version */
	bool is_direct; /* the kernel's pages and size are not for it */
	bool is_peeker;
};

/* Have it open to be written, by open(2)'s `flags`.  -ESTALE: look the name up again. */
int opening_writer(struct ckpt_mount *m, struct ckpt_node *n, int flags,
		   struct error *err) MUST_CHECK;
/* Take the node's lock, while no folder is renamed, with no commit of it on its way.  Such a
 * one is waited for with neither lock, and has the store's deadlines. */
#define OPENING_STORED 1u /* of what was closed */
/* Of what is open: a few times; when another begins each time, it is waited for later, with
 * what has to wait for it. */
#define OPENING_IDLE 2u
#define OPENING_WAITS_MAX 4u
struct paths_stay opening_lock_settled(struct ckpt_mount *m,
				       struct ckpt_node *n,
				       unsigned int wants) MUST_CHECK;
/* With the node's lock, and `has_paths` when no folder is renamed, by whom has it open to be
 * written (ops_begin_writing()) and is through by it: commit.  With neither lock meanwhile,
 * which it takes again: the file may have another name then, or none. */
int opening_commit(struct ckpt_mount *m, struct ckpt_node *n, bool has_paths,
		   struct error *err) MUST_CHECK;
/* With the node's lock: one of its writers has a descriptor; and it is released. */
void opening_own(struct ckpt_node *n);
void opening_end_owner(struct ckpt_node *n, bool is_owned);
/* Before a write of a process that inherited it, with no lock: what its owner closed is on its way
 * to the store, and would have half of this. */
void opening_settle_late(struct ckpt_mount *m, const struct handle *h);
/* After a write by it, before that is answered. */
void opening_note_write(struct handle *h);
/* The process that opened it has closed it, or was killed.  With no lock. */
void opening_disown(struct handle *h);
/* With the node's lock: have its file open to be written. */
int opening_begin_writing(struct ckpt_mount *m, struct ckpt_node *n,
			  bool is_new, struct error *err) MUST_CHECK;
/* With the node's lock, before the file of the name is changed; when it `is_new`, what was
 * lost is not asked for.  -ESTALE: what a killed program left, or what had the name before,
 * is not to be taken for it; look it up again. */
int opening_leave_abandoned(struct ckpt_mount *m, struct ckpt_node *n,
			    bool is_new, struct error *err);
/* The kernel is told to look the name of such a node up again, which it does once: have it
 * find a file that can be changed.  With no lock. */
void opening_leave_successor(struct ckpt_mount *m, struct ckpt_node *n,
			     bool is_new);

/* Have it open to be read.  -ESTALE: look the name up again; -ENOENT: it is gone. */
int opening_reader(struct ckpt_mount *m, struct ckpt_node *n,
		   struct reader_open *ret, struct error *err) MUST_CHECK;
void opening_end_reader(struct ckpt_mount *m, struct ckpt_node *n,
			bool is_cached);
/* It reads for the first time: the kernel has dropped the pages of another version. */
void opening_has_pages(struct handle *h);
void opening_end_peeker(struct nodes *t, struct ckpt_node *n);

/* With the node's lock: what a predecessor's readers have is open here, too, if it is
 * there still. */
int opening_use_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err) MUST_CHECK;

#endif
