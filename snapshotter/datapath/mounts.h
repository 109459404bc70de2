// SPDX-License-Identifier: Apache-2.0
/* Mounts images without waiting for a file system that this process serves. */
#ifndef BOOTSEER_DATAPATH_MOUNTS_H
#define BOOTSEER_DATAPATH_MOUNTS_H

#include "common/mount.h"

/* A mount that mount_image() is to make. */
struct mount_wish {
	const char *run_dir;
	uint64_t lock;
	const char *path; /* mount point */
	/* Is the file system that is mounted there the wanted one?  Must not access it. */
	bool (*is_same)(const struct mount_wish *w, const struct mount_line *l);
	/* Make the mount.  Both functions are called in the child of mount_isolated(). */
	int (*make)(const struct mount_wish *w, struct error *err);
	const void *arg; /* argument of these two functions */
	/* An existing mount can only fail, even if it looks the same: unmount it first, as by
	 * `umount --lazy`. */
	bool replaces;
};

/*
 * Mount, unless the wanted file system is mounted there already (`*ret_adopted`).  -EBUSY:
 * something else is mounted there.
 */
int mount_image(const struct mount_wish *w, bool *ret_adopted,
		struct error *err) MUST_CHECK;

/* Mount an EROFS image for use as a rootfs, by mount(2); `readahead_kib` 0 keeps the kernel's
 * readahead.  Allocates no memory. */
int erofs_mount(const char *source, const char *path,
		const struct mount_options *o, unsigned int readahead_kib,
		struct error *err) MUST_CHECK;

/*
 * Mount an EROFS image whose source and devices are files, with direct I/O to the files if the
 * kernel can ("directio").  With buffered reads of the files each request waits for a kernel
 * thread: on a busy node the latency was 13 times that of ext4, with direct I/O 1.0 times.
 */
int erofs_mount_direct(const char *source, const char *path,
		       const struct mount_options *o,
		       unsigned int readahead_kib,
		       struct error *err) MUST_CHECK;

/* Add "device=`path`".  -EINVAL: options cannot hold a comma. */
int erofs_add_device(struct mount_options *o, const char *path,
		     struct error *err) MUST_CHECK;

#endif
