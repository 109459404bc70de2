// SPDX-License-Identifier: Apache-2.0
/* Mounting images without ever waiting for ourselves. */
#ifndef BOOTSEER_DATAPATH_MOUNTS_H
#define BOOTSEER_DATAPATH_MOUNTS_H

#include "common/mount.h"

/* A mount to be made by mount_image(). */
struct mount_wish {
	const char *run_dir;
	uint64_t lock;
	const char *path; /* mount point */
	/* Is what is mounted there what we want?  Must not touch it. */
	bool (*is_same)(const struct mount_wish *w, const struct mount_line *l);
	/* Mount it.  Both are called in the child of mount_isolated(). */
	int (*make)(const struct mount_wish *w, struct error *err);
	const void *arg; /* for these two */
	/* A mount that is there can only fail, even if it looks the same: it is
	 * taken down first, as by `umount --lazy`. */
	bool replaces;
};

/*
 * Mount, unless exactly this is mounted there already.  `*ret_adopted` says
 * which.  -EBUSY when something else is mounted there.
 */
int mount_image(const struct mount_wish *w, bool *ret_adopted,
		struct error *err) MUST_CHECK;

/* mount(2) of an EROFS image for use as a rootfs; `readahead_kib` 0 leaves the
 * kernel's.  Allocates nothing. */
int erofs_mount(const char *source, const char *path,
		const struct mount_options *o, unsigned int readahead_kib,
		struct error *err) MUST_CHECK;

/*
 * The same for files as source and devices: reads go straight
 * to the files where the kernel can ("directio").  A buffered read of the file
 * below is made with the reader's requests held back, so each has to wait for a
 * kernel thread: on a busy node that was 13 times the latency of ext4, straight
 * 1.0 times.
 */
int erofs_mount_direct(const char *source, const char *path,
		       const struct mount_options *o,
		       unsigned int readahead_kib,
		       struct error *err) MUST_CHECK;

/* Add "device=`path`".  -EINVAL: options cannot hold a comma. */
int erofs_add_device(struct mount_options *o, const char *path,
		     struct error *err) MUST_CHECK;

#endif
