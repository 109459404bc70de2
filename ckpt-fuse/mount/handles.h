// SPDX-License-Identifier: Apache-2.0
/* Handles of files that processes have open. Ids are never used again, nor by a
 * successor; that of a reader says which version of the file it has. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_HANDLES_H
#define BOOTSEER_CKPT_FUSE_MOUNT_HANDLES_H

#include <stdatomic.h>

#include "ckpt-fuse/mount/nodes.h"
#include "common/mutex.h"

enum handle_kind {
	HANDLE_READER,
	HANDLE_WRITER,
	HANDLE_FOLDER,
	HANDLE_PEEKER, /* reads what a writer has, which nobody has committed yet */
};

/* A list that somebody has open may be of very many names: they lie one behind the other. */
struct folder_list {
	struct buf
		text; /* of each: a byte, whether it is a folder, and the name */
	size_t *at;   /* in the text */
	size_t n, cap;
};

struct handle {
	LIST_ENTRY(handle) link;
	uint64_t id;
	enum handle_kind kind;
	struct ckpt_node *node;  /* in use; NULL: it is not added yet */
	struct reading *reading; /* a reference; NULL: of others than readers */
	bool is_cached;          /* a reader that has the kernel's pages */
	/* is_cached, and the kernel dropped the pages that it had: nothing was read yet. */
	atomic_bool is_fresh;
	/* A writer is owned by the process that opened it, whose close stores the file.  Once that
	 * has closed or was killed nobody owns it, and closes of children that inherited it
	 * store. */
	atomic_bool is_owned;
	pid_t owner; /* 0: it was not seen */
	/* Descriptors to write to the file, of no handle that it owned, which the opener had. */
	unsigned int n_before;
	/* The process that closed a copy last was killed, and what it wrote is not torn yet. */
	atomic_bool is_left;
	/* The descriptor was written to since a close stored the file; writing_n_begun() at the
	 * last such time. */
	atomic_bool has_written;
	atomic_uint n_begun;
	struct folder_list list;
};

#define HANDLE_BUCKETS 1024u

struct handles {
	pthread_mutex_t lock;
	LIST_HEAD(, handle) all[HANDLE_BUCKETS]; /* by id */
	uint32_t next, random;
};

int handles_init(struct handles *t, struct error *err) MUST_CHECK;
void handles_fini(struct handles *t);

/* NULL: no memory. */
struct handle *handle_new(enum handle_kind kind) MUST_CHECK;
/* Give the handle its id, by what it reads, and the node, which is in use then. */
void handle_add(struct handles *t, struct handle *h, struct ckpt_node *n);
/* NULL: it is a predecessor's.  Valid until it is released, which the kernel asks for
 * when no request has it. */
struct handle *handle_get(struct handles *t, uint64_t id) MUST_CHECK;
enum handle_kind handle_kind_of(uint64_t id);
/* How many other handles of the file of `h` are owned by the process? */
unsigned int handles_count_owned(struct handles *t, const struct handle *h,
				 pid_t owner) MUST_CHECK;
/* Is it a handle of a reader of this very version? */
bool handle_is_of(uint64_t id, struct reading *r);
void handle_free(struct handles *t, struct handle *h);

int folder_list_add(struct folder_list *l, const char *name,
		    bool is_folder) MUST_CHECK;
/* The name of entry `i`, valid until the next is added. */
const char *folder_list_name(const struct folder_list *l, size_t i);
bool folder_list_is_folder(const struct folder_list *l, size_t i);
void folder_list_fini(struct folder_list *l);

#endif
