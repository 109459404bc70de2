// SPDX-License-Identifier: Apache-2.0
/*
 * Layers become one tree: entries are applied in order, bottom layer first,
 * with the meaning that an ordinary unpack gives them (containerd's
 * archive.Apply; image-spec, layer.md).  No I/O and no tar in here.
 */
#ifndef BOOTSEER_SNAPSHOTTER_CONVERT_APPLY_H
#define BOOTSEER_SNAPSHOTTER_CONVERT_APPLY_H

#include "image/tree.h"

/* Limits of what a malicious layer can make this process hold; docs/formats/artifact.md. */
#define APPLY_ENTRIES_MAX (UINT64_C(16) << 20) /* of all layers */
/* bytes of one name or link target */
#define APPLY_PATH_MAX 4096
#define APPLY_FILE_MAX (UINT64_C(1) << 42)  /* bytes of a file, with holes */
#define APPLY_STEPS_MAX (UINT64_C(1) << 31) /* steps of work in total */
#define APPLY_LINKS_MAX 255                 /* symlinks on one path */

/* Names with a meaning (image-spec, layer.md, Whiteouts). */
#define WHITEOUT_PREFIX ".wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

/* An entry of a layer, by its header. Everything is borrowed. */
struct layer_entry {
	const char *path;
	const char *link; /* target, for a symlink or if `hard` */
	bool hard;        /* a hard link: another name of the file at `link` */
	uint32_t mode;    /* S_IF* and permission bits */
	uint32_t uid, gid;
	uint32_t major, minor;
	uint32_t mtime_nsec;
	int64_t mtime;
	uint64_t size;
	const struct xattr *xattrs; /* a list, in the order of the header */
};

/* Does Linux keep xattrs of that name on that kind of inode?  user.* only on files and folders;
 * symlinks have no ACL, and only folders a default one. */
bool apply_can_have_xattr(uint32_t mode, const char *name);

struct apply;

struct apply *apply_new(struct tree *t) MUST_CHECK; /* `t` is borrowed */
void apply_free(struct apply *a);
DEFINE_AUTO(apply)

/* Begin the next layer: the following entries belong to it. */
void apply_next_layer(struct apply *a);

/*
 * Apply one entry.  `*ret` is the regular file that gets the entry's bytes (nlink 0 once a
 * later entry removed its names), or NULL when the entry has no bytes.  The message of a
 * failure does not name the entry.
 *     -EINVAL   a name outside of the root, an unknown kind, a bad whiteout
 *     -ENOTDIR  a parent is neither a folder nor a link to one
 *     -ENOENT   a hard link to nothing
 *     -ELOOP, -ENAMETOOLONG, -E2BIG, -ENOMEM
 */
int apply_entry(struct apply *a, const struct layer_entry *e,
		struct inode **ret, struct error *err) MUST_CHECK;

#endif
