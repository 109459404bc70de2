// SPDX-License-Identifier: Apache-2.0
/* Handles of open files. An id is never reused, not even by the next process of the mount; the id
 * of a reader's handle contains the version of the file that it reads. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_HANDLES_H
#define BOOTSEER_CKPT_FUSE_MOUNT_HANDLES_H

#include <stdatomic.h>

#include "ckpt-fuse/mount/nodes.h"
#include "common/mutex.h"

enum handle_kind {
	HANDLE_READER,
	HANDLE_WRITER,
	HANDLE_FOLDER,
	/* reads a file that is being written and was never committed */
	HANDLE_PEEKER,
};

/* The list of an open folder, which may have very many names: they are stored one behind the
 * other. */
struct folder_list {
	/* for each entry: a byte (is it a folder?) and the name */
	struct buf text;
	size_t *at; /* offset of each entry in `text` */
	size_t n, cap;
};

struct handle {
	LIST_ENTRY(handle) link;
	uint64_t id;
	enum handle_kind kind;
	struct ckpt_node *node;  /* in use; NULL: the handle is not added yet */
	struct reading *reading; /* reference; NULL: not a reader's handle */
	/* a reader that uses the kernel's page cache */
	bool is_cached;
	/* is_cached, but nothing was read yet since the kernel dropped its cached pages. */
	atomic_bool is_fresh;
	/* A writer's handle is owned by the process that opened it, whose close stores the file.
	 * After that process has closed it or was killed there is no owner, and closes by children
	 * that inherited it store the file. */
	atomic_bool is_owned;
	pid_t owner; /* owning process; 0: not visible */
	/* Writing descriptors that the opener already had for the file, beyond those of handles
	 * that it owns. */
	unsigned int n_before;
	/* The process that closed the last copy was killed, but its writes were not marked as torn
	 * yet. */
	atomic_bool is_left;
	/* has_written: the descriptor was written to after the last close that stored the file.
	 * n_begun: writing_n_begun() at the last write. */
	atomic_bool has_written;
	atomic_uint n_begun;
	struct folder_list list;
};

#define HANDLE_BUCKETS 1024u

struct handles {
	pthread_mutex_t lock;
	LIST_HEAD(, handle) all[HANDLE_BUCKETS]; /* hash table by id */
	uint32_t next, random;
};

int handles_init(struct handles *t, struct error *err) MUST_CHECK;
void handles_fini(struct handles *t);

/* Allocate a handle. NULL: memory is short. */
struct handle *handle_new(enum handle_kind kind) MUST_CHECK;
/* Give the handle its id (by the version that it reads) and its node, which is then in use. */
void handle_add(struct handles *t, struct handle *h, struct ckpt_node *n);
/* Find a handle. NULL: it was given by the previous process of the mount. Valid until its release,
 * which the kernel sends when no request uses it. */
struct handle *handle_get(struct handles *t, uint64_t id) MUST_CHECK;
enum handle_kind handle_kind_of(uint64_t id);
/* Count the other handles of the same file that the process owns. */
unsigned int handles_count_owned(struct handles *t, const struct handle *h,
				 pid_t owner) MUST_CHECK;
/* Is it the id of a reader's handle of this version? */
bool handle_is_of(uint64_t id, struct reading *r);
void handle_free(struct handles *t, struct handle *h);

int folder_list_add(struct folder_list *l, const char *name,
		    bool is_folder) MUST_CHECK;
/* The name of entry `i`; valid until another entry is added. */
const char *folder_list_name(const struct folder_list *l, size_t i);
bool folder_list_is_folder(const struct folder_list *l, size_t i);
void folder_list_fini(struct folder_list *l);

#endif
