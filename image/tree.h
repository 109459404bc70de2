// SPDX-License-Identifier: Apache-2.0
/*
 * A file system tree in memory: what convert builds from layers, what the
 * EROFS writer lays out, and what the EROFS reader gives back.  Everything is
 * owned by the tree (an arena) and goes with it.  Not thread-safe.
 */
#ifndef BOOTSEER_IMAGE_TREE_H
#define BOOTSEER_IMAGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

#define TREE_NAME_MAX 255
#define TREE_SYMLINK_MAX 4095
#define TREE_DEPTH_MAX 2048 /* folders in each other, of an image */
#define TREE_XATTR_VALUE_MAX 65535
/* tree_memory() of what a stranger describes, before content comes to it. */
#define TREE_MEMORY_MAX (UINT64_C(1) << 30)

struct buf;
struct tree;
struct inode;
struct dir_index;

struct xattr {
	struct xattr *next;
	const char *name; /* whole, "user.x"; NUL-terminated */
	const void *value;
	uint32_t size;
};

/* `len` bytes of the file from `off` lie in the data device from `voff`. */
struct extent {
	uint64_t off;  /* multiple of 4096 */
	uint64_t len;  /* multiple of 4096, but for the last of the file: what
			* follows it in its last 4096 is zero in the device */
	uint64_t voff; /* multiple of 4096 */
};

struct dentry {
	struct dentry *next; /* next child of the same folder */
	struct dentry *prev; /* tree.c's; the first one's is the last */
	struct inode *parent;
	struct inode *inode;
	uint16_t name_len;
	char name[]; /* NUL-terminated; any bytes but NUL and '/' */
};

enum inode_data {
	INODE_DATA_NONE,    /* not a regular file, or an empty one */
	INODE_DATA_INLINE,  /* `bytes`, size of them */
	INODE_DATA_EXTENTS, /* what no extent covers is a hole */
};

struct inode {
	uint16_t mode; /* S_IF* and permission bits */
	enum inode_data data : 16;
	uint32_t uid, gid;
	uint32_t nlink; /* names; folders: 2 + folders in it.  Kept by tree_* */
	uint32_t n_children;
	uint32_t major, minor; /* devices */
	uint32_t mtime_nsec;
	int64_t mtime;
	uint64_t size; /* files: bytes; symlinks: length of target */
	struct xattr *xattrs;
	union {
		const char *target;   /* symlinks, NUL-terminated */
		const uint8_t *bytes; /* INODE_DATA_INLINE */
		struct {
			struct extent *extents; /* sorted by off */
			uint32_t n_extents;
		};
		struct {
			struct dentry *children; /* order of insertion */
			struct dir_index *index; /* tree.c's; or NULL */
		};                               /* folders */
	};
	struct inode
		*dir_parent; /* folders: the folder they are in; root: itself */
	uint64_t user;       /* for the one who builds or writes the tree */
	void *user_ptr;
};

struct tree *tree_new(void) MUST_CHECK; /* with a root folder, mode 0755 */
void tree_free(struct tree *t);
DEFINE_AUTO(tree)

struct inode *tree_root(struct tree *t);
uint64_t tree_n_inodes(const struct tree *t); /* that have a name, and root */
uint64_t tree_memory(const struct tree *t);   /* bytes allocated */

/* A child by name, or NULL.  Constant time however large the folder. */
struct dentry *tree_find(struct tree *t, struct inode *dir, const char *name,
			 size_t len);

/* A new inode without a name; NULL when memory is short. */
struct inode *tree_inode_new(struct tree *t, uint32_t mode) MUST_CHECK;

/* Name an inode (again: a hard link).  -EEXIST, -ENAMETOOLONG, -EINVAL (empty,
 * ".", "..", a '/' or NUL in it), -EPERM (second name of a folder, a folder in
 * itself), -ENOTDIR, -EMLINK, -ENOMEM. */
int tree_link(struct tree *t, struct inode *dir, const char *name, size_t len,
	      struct inode *inode) MUST_CHECK;

/* Remove a name, and what lies below it.  An inode without names has nlink 0;
 * its memory stays valid, so that lists of inodes need no care. */
void tree_unlink(struct tree *t, struct dentry *d);

/* Set (replace) an xattr; copies name and value.  -ENOMEM; -E2BIG for a name
 * over 255 bytes, a value over TREE_XATTR_VALUE_MAX, or more names on the inode
 * than Linux lists (64 KiB); -EINVAL for an empty name. */
int tree_set_xattr(struct tree *t, struct inode *i, const char *name,
		   const void *value, size_t size) MUST_CHECK;

/* NULL: it has none of that name. */
const struct xattr *tree_xattr(const struct inode *i, const char *name);
size_t tree_count_xattrs(const struct inode *i);

/* Memory from the tree's arena, aligned to 8; lives as long as the tree. */
void *tree_alloc(struct tree *t, size_t size) MUST_CHECK;

/* Children in byte order of their names: an array the caller frees. */
int tree_sorted(struct inode *dir, struct dentry ***ret,
		size_t *ret_n) MUST_CHECK;

/* Put the children themselves into that order.  -ENOMEM. */
int tree_sort(struct inode *dir) MUST_CHECK;

/* "/a/b" of a dentry, with bytes outside printable ASCII escaped; caller owns.
 * For messages: it searches every folder on the way up. */
char *tree_path(const struct dentry *d) MUST_CHECK;
/* Append a name as tree_path() has it: other bytes, and backslashes, as \xNN.  -ENOMEM;
 * a part may be there then. */
int tree_put_escaped(struct buf *b, const char *name, size_t len) MUST_CHECK;

#endif
