// SPDX-License-Identifier: Apache-2.0
/* Small file helpers: complete reads and writes, durable replacement. */
#ifndef BOOTSEER_COMMON_FS_H
#define BOOTSEER_COMMON_FS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"

/* `dir`/`name`.  NULL when memory is short; caller owns. */
char *fs_join(const char *dir, const char *name) MUST_CHECK;

/* Create `path` and its missing parents with `mode`.  Existing is no error. */
int fs_mkdir_p(const char *path, unsigned int mode,
	       struct error *err) MUST_CHECK;

/* Create the folder `path` with `mode`.  An existing one is no error; -ENOENT names the missing
 * parent, which is not created as the path may be misspelt.  Allocates nothing. */
int fs_mkdir(const char *path, unsigned int mode, struct error *err) MUST_CHECK;

/*
 * Make the folder `path` with mode 0700.  An existing folder that others may enter is changed to
 * that mode if it is empty or has an entry named in `ours` (ends with NULL); if `ours` is NULL,
 * whatever it has.
 *    -EEXIST  it has other entries, so its mode is not changed
 *    -EPERM   it belongs to another user
 *    -ENOENT  its parent does not exist
 */
int fs_mkdir_private(const char *path, const char *const *ours,
		     struct error *err) MUST_CHECK;

/* Do both paths lead to the same file, or are they the same text? */
bool fs_is_same(const char *a, const char *b);

/* Is the open folder empty (an O_PATH descriptor will do)?  False also when it cannot be read. */
bool fs_is_empty(int dir);

/* Could fs_mkdir() make this folder?  -ENOENT: neither the folder nor its parent exists; -ENOTDIR:
 * a file of another kind has the name. */
int fs_check_parent(const char *path, struct error *err) MUST_CHECK;

/*
 * Record that writing `want` bytes to the open file failed with `rc` (-errno), and return `rc`.
 * If the disk is full, the message has the folder, how much is missing, and the cures: to make
 * room, or `cure` (may be "").
 */
int fs_refuse_write(int fd, int rc, uint64_t want, const char *cure,
		    struct error *err);

/* Append the whole file to `ret`; -EFBIG when it is longer than `max`. */
int fs_read_file(const char *path, size_t max, struct buf *ret,
		 struct error *err) MUST_CHECK;

/*
 * Replace `path` by a file with this content, all or nothing even over a power
 * loss: temporary file in the same folder, fsync, rename, fsync of the folder.
 */
int fs_replace_file(const char *path, const void *data, size_t len,
		    unsigned int mode, struct error *err) MUST_CHECK;

struct stat;

/* The mode bits by which processes other than this one may use a secret.  For a file of root read
 * by a user's process, reading by the group is allowed: Kubernetes mounts secrets like that for a
 * pod's fsGroup. */
mode_t fs_foreign_mode(const struct stat *st);

/* Check that only its owner may read or change this file, which holds a secret.  -EPERM: the
 * message has the file and its mode.  A missing file is no error. */
int fs_check_private(const char *path, struct error *err) MUST_CHECK;

/* Make the names in the folder `path` durable. */
int fs_sync_dir(const char *path, struct error *err) MUST_CHECK;

/* Read all `len` bytes at `off`.  -EIO: the file ends before; else -errno. */
int fs_pread_full(int fd, void *buf, size_t len, uint64_t off) MUST_CHECK;
int fs_pwrite_full(int fd, const void *buf, size_t len,
		   uint64_t off) MUST_CHECK;
int fs_write_full(int fd, const void *buf, size_t len) MUST_CHECK;

/* openat2(2) with `resolve` (RESOLVE_*) and O_CLOEXEC; repeated when a concurrent rename made it
 * fail with EAGAIN. -1 with errno. */
int fs_openat2(int root, const char *path, uint64_t flags, uint64_t resolve);

/*
 * Append the content of a file that strangers may have made.  `path` is resolved as if the folder
 * `root` were the root, so that no link leads out of it.  -ENOENT; -EINVAL: not a regular file of
 * at most `max` bytes.  Other kinds are never opened: opening a pipe blocks, and opening some
 * devices (a watchdog) has effects.
 */
int fs_read_file_in(int root, const char *path, size_t max, struct buf *ret,
		    struct error *err) MUST_CHECK;

/*
 * Has anything besides `fd` the file open: a process, a mount, a loop device?  Returns 1 or 0, or
 * -errno when this file system has no leases.  The test takes a write lease and releases it at
 * once.  A process that opens the file at that moment has to wait, and this process gets SIGIO,
 * which it must ignore.
 */
int fs_is_in_use(int fd) MUST_CHECK;

/* Remove a tree of any depth without following links.  -EBUSY: it has a mount, which is not
 * crossed.  After a failure, folders that were very deep may be found at the tree's top. */
int fs_remove_tree(const char *path, struct error *err) MUST_CHECK;

#endif
