// SPDX-License-Identifier: Apache-2.0
/*
 * A file system tree in memory: convert builds it from layers, the EROFS writer lays it out, and
 * the EROFS reader returns it. The tree owns everything in it and frees it at once (an arena).
 * Not thread-safe.
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
#define TREE_DEPTH_MAX 2048 /* depth of folders that an image may have */
#define TREE_XATTR_VALUE_MAX 65535
/* Limit of tree_memory() for a tree described by untrusted input, before contents are added. */
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
	uint64_t off; /* multiple of 4096 */
	/* multiple of 4096, except for the file's last extent: the device has zeros from
	 * there to the next multiple */
	uint64_t len;
	uint64_t voff; /* multiple of 4096 */
};

struct dentry {
	struct dentry *next; /* next child of the same folder */
	/* used by tree.c; in the first child, the last one */
	struct dentry *prev;
	struct inode *parent;
	struct inode *inode;
	uint16_t name_len;
	char name[]; /* NUL-terminated; any bytes but NUL and '/' */
};

enum inode_data {
	INODE_DATA_NONE,    /* not a regular file, or an empty one */
	INODE_DATA_INLINE,  /* `size` bytes at `bytes` */
	INODE_DATA_EXTENTS, /* bytes that no extent covers are holes */
};

struct inode {
	uint16_t mode; /* S_IF* and permission bits */
	enum inode_data data : 16;
	uint32_t uid, gid;
	/* number of names; folders: 2 + folders in it. Kept by tree_* */
	uint32_t nlink;
	uint32_t n_children;
	uint32_t major, minor; /* of device files */
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
			/* used by tree.c; may be NULL */
			struct dir_index *index;
		}; /* folders */
	};
	struct inode
		*dir_parent; /* folders: the folder they are in; root: itself */
	/* free for the code that builds or writes the tree */
	uint64_t user;
	void *user_ptr;
};

struct tree *tree_new(void) MUST_CHECK; /* with a root folder, mode 0755 */
void tree_free(struct tree *t);
DEFINE_AUTO(tree)

struct inode *tree_root(struct tree *t);
/* inodes that have a name, and the root */
uint64_t tree_n_inodes(const struct tree *t);
uint64_t tree_memory(const struct tree *t); /* bytes allocated */

/* A child by name, or NULL.  Constant time however large the folder. */
struct dentry *tree_find(struct tree *t, struct inode *dir, const char *name,
			 size_t len);

/* A new inode without a name; NULL when memory is short. */
struct inode *tree_inode_new(struct tree *t, uint32_t mode) MUST_CHECK;

/* Give an inode a name; another name is a hard link. -EEXIST, -ENAMETOOLONG, -EINVAL (empty,
 * ".", "..", a '/' or NUL in it), -EPERM (second name of a folder, a folder in itself),
 * -ENOTDIR, -EMLINK, -ENOMEM. */
int tree_link(struct tree *t, struct inode *dir, const char *name, size_t len,
	      struct inode *inode) MUST_CHECK;

/* Remove a name, and all that lies below it. An inode without names has nlink 0; its memory
 * stays valid, so that lists of inodes may still hold it. */
void tree_unlink(struct tree *t, struct dentry *d);

/* Set (replace) an xattr; copies name and value.  -ENOMEM; -E2BIG for a name
 * over 255 bytes, a value over TREE_XATTR_VALUE_MAX, or more names on the inode
 * than Linux lists (64 KiB); -EINVAL for an empty name. */
int tree_set_xattr(struct tree *t, struct inode *i, const char *name,
		   const void *value, size_t size) MUST_CHECK;

/* The xattr with this name, or NULL. */
const struct xattr *tree_xattr(const struct inode *i, const char *name);
size_t tree_count_xattrs(const struct inode *i);

/* Memory from the tree's arena, aligned to 8; lives as long as the tree. */
void *tree_alloc(struct tree *t, size_t size) MUST_CHECK;

/* Get the children in byte order of their names, as an array that the caller frees. */
int tree_sorted(struct inode *dir, struct dentry ***ret,
		size_t *ret_n) MUST_CHECK;

/* Sort the folder's own list of children by name. -ENOMEM. */
int tree_sort(struct inode *dir) MUST_CHECK;

/* The path "/a/b" of a dentry, with bytes outside printable ASCII escaped; the caller frees
 * it. Only for messages, as it searches every folder on the way up. */
char *tree_path(const struct dentry *d) MUST_CHECK;
/* Append a name in the form of tree_path(): bytes outside printable ASCII, and backslashes,
 * as \xNN. -ENOMEM; part of the name may have been appended then. */
int tree_put_escaped(struct buf *b, const char *name, size_t len) MUST_CHECK;

#endif
