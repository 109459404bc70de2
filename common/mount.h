// SPDX-License-Identifier: Apache-2.0
/*
 * Mounting and unmounting for a process that serves FUSE mounts.  Calls that could end up waiting
 * for this process itself are made in a child; looking up mounts sends no request to any file
 * system.
 */
#ifndef BOOTSEER_COMMON_MOUNT_H
#define BOOTSEER_COMMON_MOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

/*
 * Run `fn` in a child that has none of our descriptors, and holds lock number `lock` of the file
 * `run_dir`/mount.lock.  Returns the result of `fn`.
 *
 * A system call that makes the kernel send FUSE requests to this very process (mount with a device
 * on the carrier, open, umount) cannot be killed while such a request is under way.  In a thread
 * of the daemon it would keep a killed daemon from ending, and its successor from starting.  A
 * child is simply left behind, and the successor answers its request; with the lock, the
 * successor's own work on the same mount waits for the child.
 *
 * The child is forked from a process with threads, one of which may have held a lock of the
 * allocator.  So `fn` must not allocate or free; what it needs is allocated before.  Of this
 * header it may call mount_see() and mount_options_add().
 *
 * Blocks; any thread.  -ETIMEDOUT: another process had the lock for 20 s, or `fn` did not end
 * within 300 s.
 */
typedef int mount_isolated_fn(void *arg, struct error *err);
int mount_isolated(const char *run_dir, uint64_t lock, mount_isolated_fn *fn,
		   void *arg, struct error *err) MUST_CHECK;
/* Numbers of locks.  Those below MOUNT_LOCK_SESSION are the user's (bootseerd's: indexes of
 * images); this one and up are for mounts of FUSE sessions, and for probing. */
#define MOUNT_LOCK_SESSION (UINT64_C(1) << 40)
#define MOUNT_LOCK_PROBE (MOUNT_LOCK_SESSION + 1)

/* Unmount `path` in a child (mount_isolated()); no error if nothing is mounted there.  A mount in
 * use is -EBUSY, or with `lazily` detached all the same. */
int mount_take_down(const char *run_dir, uint64_t lock, const char *path,
		    bool lazily, struct error *err) MUST_CHECK;
/* mount_take_down(), but only if the mounted file system has this device number (stat(2)); another
 * is left alone, without an error. */
int mount_take_down_dev(const char *run_dir, uint64_t lock, const char *path,
			dev_t dev, bool lazily, struct error *err) MUST_CHECK;
/* mount_take_down() for callers that run in such a child, with its lock.  `path` is canonical. */
int mount_take_down_alone(const char *path, bool lazily,
			  struct error *err) MUST_CHECK;

/* Can this be the value of SELinux's mount option context= in quotes?  The form is user:role:type,
 * optionally with a level. */
#define MOUNT_CONTEXT_MAX 256 /* bytes, NUL included */
bool mount_context_is_valid(const char *context);

/* A line of /proc/self/mountinfo. */
struct mount_line {
	unsigned int major, minor;
	char *root; /* folder of the file system that is mounted there */
	char *path; /* mount point */
	char *fstype;
	char *source;
};
void mount_line_fini(struct mount_line *l);

/* A mount_line with its own memory, for mount_see(). */
struct mount_seen {
	struct mount_line line; /* borrows `text` */
	char text[4 * 4096];
};

/* mount_find() without an allocation. */
int mount_see(const char *path, struct mount_seen *ret,
	      struct error *err) MUST_CHECK;

/* Options for mount(2), which takes a page of them. */
struct mount_options {
	size_t len;
	char text[4096];
};
#define MOUNT_OPTIONS_INIT \
	{ \
		.len = 0, .text = "" \
	}

/* Append an option, after a comma.  -E2BIG: it does not fit. */
int mount_options_add(struct mount_options *o, struct error *err,
		      const char *fmt, ...) PRINTF(3, 4) MUST_CHECK;

/* Find the topmost mount at `path`: 1 and *ret, or 0, or -errno. Sends no
 * request to any file system. */
int mount_find(const char *path, struct mount_line *ret,
	       struct error *err) MUST_CHECK;

/* Call statfs(2) on the path in a child, as the call hangs if the file system mounted there does.
 * Returns 0, or an errno (ENOTCONN: its server is gone for good), or -1 when no result came within
 * `wait_ms`. */
int mount_ask(const char *path, int64_t wait_ms) MUST_CHECK;

/* `path` with the symlinks of its parent folder resolved.  The last component is not looked at, as
 * it may be a mount that hangs.  Caller owns. */
int mount_canonical(const char *path, char **ret, struct error *err) MUST_CHECK;

#endif
