// SPDX-License-Identifier: Apache-2.0
/*
 * Node ids of a mount: which file or folder each is.  They are written down in a file
 * in memory that outlives the process, so that a successor knows them.  Any thread; a
 * node that was found stays until node_put().
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_NODES_H
#define BOOTSEER_CKPT_FUSE_MOUNT_NODES_H

#include <pthread.h>

#include "ckpt-fuse/mount/reading.h"
#include "ckpt-fuse/mount/writing.h"
#include "common/buf.h"
#include "common/hash.h"

#define NODE_ROOT 1u

struct ckpt_node {
	UT_hash_handle by_id, by_name;
	uint64_t id;
	struct ckpt_node
		*parent;    /* NULL: it has no name any more, or is the root */
	char *key;          /* parent's id and name, as by_name has it */
	uint64_t n_lookups; /* of the kernel */
	unsigned int n_users; /* children, and requests under way */
	bool is_folder;

	pthread_mutex_t
		lock; /* what follows; held over what the store is asked */
	struct writing *writing;          /* while it is open to be written */
	atomic_uint n_writers, n_readers; /* read without the lock, too */
	_Atomic int writer_pid;  /* who wrote to it last, or opened it */
	struct reading *reading; /* the version that its readers have */
	struct ckpt_stat stat;   /* as it was seen last */
};

struct nodes {
	pthread_mutex_t lock; /* the table */
	struct ckpt_node *by_id, *by_name, *root;
	uint64_t last_id;
	int journal_fd;
	uint64_t journal_len, journal_live; /* bytes; those of living nodes */
};

/* `journal_fd` is borrowed: what a predecessor wrote is read. */
int nodes_init(struct nodes *t, int journal_fd, struct error *err) MUST_CHECK;
void nodes_fini(struct nodes *t);

/* NULL: there is none.  The caller has it until node_put(). */
struct ckpt_node *node_get(struct nodes *t, uint64_t id) MUST_CHECK;
struct ckpt_node *node_find(struct nodes *t, struct ckpt_node *parent,
			    const char *name) MUST_CHECK;
/* The node of a name, a new one if there is none, or one of the other kind. */
struct ckpt_node *node_make(struct nodes *t, struct ckpt_node *parent,
			    const char *name, bool is_folder) MUST_CHECK;
void node_put(struct nodes *t, struct ckpt_node *n);
/* The kernel was given its id, or forgets that it was `n_lookups` times. */
void node_looked_up(struct nodes *t, struct ckpt_node *n);
void node_forget(struct nodes *t, uint64_t id, uint64_t n_lookups);

/* Its name is another's, or nobody's. */
void node_detach(struct nodes *t, struct ckpt_node *n);
/* What had the new name has none any more. */
int node_rename(struct nodes *t, struct ckpt_node *n, struct ckpt_node *parent,
		const char *name) MUST_CHECK;

/* Its path in the store ("" is the root), appended.  -ENOENT: it has no name. */
int node_path(struct nodes *t, struct ckpt_node *n, struct buf *out) MUST_CHECK;
int node_path_below(struct nodes *t, struct ckpt_node *n, const char *name,
		    struct buf *out) MUST_CHECK;
const char *node_name(const struct ckpt_node *n);

/* Call for each node in a folder, or, when that is NULL, that has a name; the table is
 * locked. */
typedef void nodes_fn(void *arg, struct ckpt_node *n);
void nodes_each(struct nodes *t, const struct ckpt_node *parent, nodes_fn *fn,
		void *arg);

#endif
