// SPDX-License-Identifier: Apache-2.0
/* Small file helpers: complete reads and writes, durable replacement. */
#ifndef BOOTSEER_COMMON_FS_H
#define BOOTSEER_COMMON_FS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

/* Create `path` and its missing parents with `mode`.  Existing is no error. */
int fs_mkdir_p(const char *path, unsigned int mode,
	       struct error *err) MUST_CHECK;

/* Create the folder `path` with `mode`.  Existing is no error; -ENOENT names the
 * parent that is missing: a path that people type may be misspelt. */
int fs_mkdir(const char *path, unsigned int mode, struct error *err) MUST_CHECK;

/* Append the whole file to `ret`; -EFBIG when it is longer than `max`. */
int fs_read_file(const char *path, size_t max, struct buf *ret,
		 struct error *err) MUST_CHECK;

/*
 * Replace `path` by a file with this content, all or nothing even over a power
 * loss: temporary file in the same folder, fsync, rename, fsync of the folder.
 */
int fs_replace_file(const char *path, const void *data, size_t len,
		    unsigned int mode, struct error *err) MUST_CHECK;

/* Is the file, which holds a secret, nobody's to read but its owner's?  -EPERM says
 * which is not, and what its mode is; one that is not there is no matter. */
int fs_check_private(const char *path, struct error *err) MUST_CHECK;

/* Make the names in the folder `path` durable. */
int fs_sync_dir(const char *path, struct error *err) MUST_CHECK;

/* All `len` bytes at `off`, or -EIO at an early end, or -errno. */
int fs_pread_full(int fd, void *buf, size_t len, uint64_t off) MUST_CHECK;
int fs_pwrite_full(int fd, const void *buf, size_t len,
		   uint64_t off) MUST_CHECK;
int fs_write_full(int fd, const void *buf, size_t len) MUST_CHECK;

/* Remove a tree without following links or crossing mounts. */
int fs_remove_tree(const char *path, struct error *err) MUST_CHECK;

#endif
