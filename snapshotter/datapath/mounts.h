// SPDX-License-Identifier: Apache-2.0
/* Mounting without ever waiting for ourselves; what is mounted where. */
#ifndef BOOTSEER_DATAPATH_MOUNTS_H
#define BOOTSEER_DATAPATH_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/*
 * Run `fn` in a child that holds no descriptor of ours and has lock number
 * `lock` of the file `run_dir`/mount.lock; its result is ours.
 *
 * A system call that makes the kernel send FUSE requests to this very process
 * (mount with a device on the carrier, open, umount) cannot be killed while
 * such a request is under way.  Done by a thread of the daemon it would keep a
 * killed daemon from ever ending, and its successor from starting.  A child is
 * simply left over, and its request is answered by the successor; the lock
 * makes the successor's own work on the same mount wait for it.
 */
typedef int isolated_fn(void *arg, struct error *err);
int isolated_run(const char *run_dir, uint64_t lock, isolated_fn *fn, void *arg,
		 struct error *err) MUST_CHECK;
/* Locks of images are their indexes; these are of a session's own mount, and
 * of probing. */
#define LOCK_SESSION (UINT64_C(1) << 40)
#define LOCK_PROBE (LOCK_SESSION + 1)

/* One line of /proc/self/mountinfo. */
struct mount_line {
	unsigned int major, minor;
	char *root; /* folder of the file system that is mounted */
	char *path; /* mount point */
	char *fstype;
	char *source;
};
void mount_line_fini(struct mount_line *l);

/* What is mounted on top at `path`: 1 and *ret, or 0, or -errno.  Sends no
 * request to any file system. */
int mount_find(const char *path, struct mount_line *ret,
	       struct error *err) MUST_CHECK;

/* `path` without symlinks in the folder that holds it; the last part itself is
 * not looked at, it may be a mount that hangs.  Caller owns. */
int mount_canonical(const char *path, char **ret, struct error *err) MUST_CHECK;

/* A mount to be made by mount_image(). */
struct mount_wish {
	const char *run_dir;
	uint64_t lock;
	const char *path; /* mount point */
	/* Is what is mounted there what we want?  Must not touch it. */
	bool (*is_same)(const struct mount_wish *w, const struct mount_line *l);
	/* Mount it.  Called in the child of isolated_run(). */
	int (*make)(const struct mount_wish *w, struct error *err);
	const void *arg; /* for these two */
};

/*
 * Mount, unless exactly this is mounted there already.  `*ret_adopted` says
 * which.  -EBUSY when something else is mounted there.
 */
int mount_image(const struct mount_wish *w, bool *ret_adopted,
		struct error *err) MUST_CHECK;

/* Folder below which a carrier's mount of `run_dir` lies, and so on: joins with
 * a '/'.  NULL when memory is short; caller owns. */
char *path_join(const char *dir, const char *name) MUST_CHECK;

/* mount(2) of an EROFS image for use as a rootfs; `data` are its options,
 * `readahead_kib` 0 leaves the kernel's. */
int erofs_mount(const char *source, const char *path, const char *data,
		unsigned int readahead_kib, struct error *err) MUST_CHECK;

/*
 * The same for files as source and devices, `data` may be NULL: reads go straight
 * to the files where the kernel can ("directio").  A buffered read of the file
 * below is made with the reader's requests held back, so each has to wait for a
 * kernel thread: on a busy node that was 13 times the latency of ext4, straight
 * 1.0 times.
 */
int erofs_mount_direct(const char *source, const char *path, const char *data,
		       unsigned int readahead_kib,
		       struct error *err) MUST_CHECK;

/* Unmount; not mounted is no error.  `lazily`: also when it is in use. */
int umount_image(const char *run_dir, uint64_t lock, const char *path,
		 bool lazily, struct error *err) MUST_CHECK;

#endif
