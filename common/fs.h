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

/* Create the folder `path` with `mode`.  Existing is no error; -ENOENT names the
 * parent that is missing: a path that people type may be misspelt.  Allocates nothing. */
int fs_mkdir(const char *path, unsigned int mode, struct error *err) MUST_CHECK;

/*
 * Make the folder `path`, which nobody but its owner may enter (mode 0700).  One
 * that is there, and that others may enter, is closed to them when it is empty or
 * one of the names in `ours` is in it; the list ends with NULL.  Without a list
 * (NULL) it is closed whatever it holds.
 *   -EEXIST  things of others are in it, so it is left as it is
 *   -EPERM   it belongs to another user
 *   -ENOENT  its parent is not there
 */
int fs_mkdir_private(const char *path, const char *const *ours,
		     struct error *err) MUST_CHECK;

/* Do both paths lead to the same file, or are they at least written alike? */
bool fs_is_same(const char *a, const char *b);

/* Is there nothing in the open folder (of which an O_PATH descriptor will do)?  False also
 * where it cannot be read. */
bool fs_is_empty(int dir);

/* Can the folder be made by fs_mkdir()?  -ENOENT: it is not there, nor is the one
 * that it would be in; -ENOTDIR: its name is that of something else. */
int fs_check_parent(const char *path, struct error *err) MUST_CHECK;

/*
 * Say that `want` bytes could not be written to the open file, because of `rc`
 * (-errno), which is returned.  Of a full disk the message has the folder, what is
 * missing and, as the cure besides making room, `cure` (or "").
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

/* The bits of a secret's mode by which others than this process may use it.  Its group may read
 * what is root's and of a user's process, as Kubernetes mounts secrets for a pod's fsGroup. */
mode_t fs_foreign_mode(const struct stat *st);

/* Is the file, which holds a secret, nobody's to read or change but its owner's?  -EPERM says
 * which is not, and what its mode is; one that is not there is no matter. */
int fs_check_private(const char *path, struct error *err) MUST_CHECK;

/* Make the names in the folder `path` durable. */
int fs_sync_dir(const char *path, struct error *err) MUST_CHECK;

/* All `len` bytes at `off`, or -EIO at an early end, or -errno. */
int fs_pread_full(int fd, void *buf, size_t len, uint64_t off) MUST_CHECK;
int fs_pwrite_full(int fd, const void *buf, size_t len,
		   uint64_t off) MUST_CHECK;
int fs_write_full(int fd, const void *buf, size_t len) MUST_CHECK;

/* openat2(2) with `resolve` (RESOLVE_*), again while renames elsewhere on the machine
 * keep it from an answer; O_CLOEXEC is implied.  -1 with errno. */
int fs_openat2(int root, const char *path, uint64_t flags, uint64_t resolve);

/*
 * Append a file that strangers may have made: `path` is looked for as if the folder
 * `root` were the root, so that no link leads out of it.  -ENOENT; -EINVAL: it is no
 * regular file of at most `max` bytes.  What is none is not opened: the open of a pipe
 * waits, and that of some devices does something, as a watchdog's.
 */
int fs_read_file_in(int root, const char *path, size_t max, struct buf *ret,
		    struct error *err) MUST_CHECK;

/*
 * Has anything else than `fd` the file open: a process, a mount, a loop device?
 * The kernel is asked, by a write lease that is given back at once: 1 or 0, or
 * -errno when this file system has no leases.  Somebody who opens the file at
 * this very moment waits for it, and this process gets SIGIO, which it has to
 * ignore.
 */
int fs_is_in_use(int fd) MUST_CHECK;

/* Remove a tree of any depth without following links or crossing mounts: -EBUSY.  What
 * lies very deep may lie elsewhere in it when this fails. */
int fs_remove_tree(const char *path, struct error *err) MUST_CHECK;

#endif
