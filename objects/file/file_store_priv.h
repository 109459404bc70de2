// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the file: back end, whose directory other users may see. */
#ifndef BOOTSEER_OBJECTS_FILE_STORE_PRIV_H
#define BOOTSEER_OBJECTS_FILE_STORE_PRIV_H

#include <sys/stat.h>

#include "common/bytes.h"
#include "objects/file/file_io.h"
#include "objects/store/backend.h"

#define FILE_PIECE (4 * MIB) /* bytes of one read or write */
/* Shorter reads and writes use the page cache. */
#define FILE_DIRECT_MIN (1 * MIB)

struct file_store {
	struct object_store base;
	char *path; /* the directory, for messages */
	int root;
	struct file_engine *engine;
	bool may_direct; /* the URL does not forbid O_DIRECT */
	/* Alignment of offsets, sizes and memory for O_DIRECT. */
	size_t align;
	/* Permissions of the group and others, if they may write to `root`. */
	mode_t shared;
	/* Sticky: users cannot remove each other's files, as in /tmp. */
	bool keeps_owners;
	gid_t gid; /* group of `root` */
};

static inline struct file_store *file_store_of(struct object_store *s)
{
	return container_of(s, struct file_store, base);
}

/* Fill an object's figures from those of stat(2) or fstat(2). */
void file_stat_fill(const struct stat *st, struct object_stat *ret);

/* ": ADVICE" for an errno of a store's folder or file; "": none. */
const char *file_cure(int code);
/* Error for errno `code` of an operation on the file, with advice. */
int file_error(const struct file_store *f, int code, const char *what,
	       const char *name, struct error *err);

/* Does this errno say that no file of the store has the name? */
bool file_is_none(int code);
/* Is it a regular file?  -ENOENT: no. */
int file_look(struct file_store *f, const char *name, struct stat *ret,
	      struct error *err) MUST_CHECK;
/* Make the parent folders of a name, durably. */
int file_make_parents(struct file_store *f, const char *name,
		      struct error *err) MUST_CHECK;
int file_sync_parent(struct file_store *f, const char *name,
		     struct error *err) MUST_CHECK;
/* Rename `from` to `to`; replace another file only if `condition` is OBJECT_ANY. */
int file_move(struct file_store *f, const char *from, const char *to,
	      enum object_condition condition, struct error *err) MUST_CHECK;
/* Lock out all other changes of the name, also from other machines; close *ret_fd to unlock.
 * -ENOTSUP: the file system has no locks. */
int file_lock(struct file_store *f, const char *name, int *ret_fd,
	      struct error *err) MUST_CHECK;
/* As file_lock(), for a change without a condition: goes on unlocked if the file system has no
 * locks or this user may not open them. */
int file_lock_if_any(struct file_store *f, const char *name, int *ret_fd,
		     struct error *err) MUST_CHECK;
/* Lock both names by file_lock_if_any(). */
int file_lock_both(struct file_store *f, const char *a, const char *b,
		   int *ret_first, int *ret_second,
		   struct error *err) MUST_CHECK;
/* Is `name` still the version that has `tag`? */
int file_check_tag(struct file_store *f, const char *name, const char *tag,
		   struct error *err) MUST_CHECK;

/* file_share.c: call at opening; for a new folder or lock; for an object before it gets its
 * name. */
void file_share_init(struct file_store *f);
void file_share_folder(const struct file_store *f, const char *path);
void file_share_lock(const struct file_store *f, int fd);
void file_share_object(const struct file_store *f, int fd);
#define FILE_RIGHTS_ROOM 256
/* Find the outermost folder on the way to `name` that this user may not enter, or write to; "":
 * none. */
void file_share_explain(const struct file_store *f, const char *name,
			char ret[FILE_RIGHTS_ROOM]);

/* Members of the vtable, in file_read.c, file_put.c, file_list.c, file_probe.c. */
int file_store_open_object(struct object_store *s, const char *name,
			   struct object **ret, struct error *err);
int file_store_read(struct object *o, const struct object_range *ranges,
		    size_t n, int64_t deadline_ns, struct error *err);
void file_store_close(struct object *o);
int file_store_put_open(struct object_store *s, const char *name,
			const struct object_put_options *opts,
			struct object_put **ret, struct error *err);
int file_store_put_write(struct object_put *p, const void *data, size_t len,
			 struct error *err);
int file_store_put_commit(struct object_put *p, struct object_stat *ret,
			  struct error *err);
void file_store_put_free(struct object_put *p);
int file_store_list(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err);
int file_store_sweep(struct object_store *s, const char *folder,
		     int64_t before_ms, size_t *ret_n, struct error *err);
int file_store_probe(struct object_store *s, struct error *err);
int file_store_probe_conditions(struct object_store *s, struct error *err);

#endif
