// SPDX-License-Identifier: Apache-2.0
/*
 * The target path of a volume: a folder `mount` in the pod's own folder, opened without
 * following links, and mounted and unmounted by descriptor.
 */
#ifndef BOOTSEER_CSI_TARGET_H
#define BOOTSEER_CSI_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"

#define TARGET_ID_MAX 17 /* bytes of an id, with NUL */
#define TARGET_NAME_MAX 512

struct target {
	/* descriptor of the folder that has `mount`; -1: it does not exist */
	int parent;
	char uid[64];               /* the pod's UID */
	char name[TARGET_NAME_MAX]; /* "UID/VOLUME" */
	char id[TARGET_ID_MAX];     /* short name, derived from `name` */
};

/*
 * Parse KUBELET/pods/UID/volumes/kubernetes.io~csi/VOLUME/mount and open the folder above
 * `mount`.  -EINVAL: it is another path, or has a link in it; -ENOENT with *ret filled: the
 * folder does not exist (any more).
 */
int target_open(const char *kubelet_dir, const char *path, struct target *ret,
		struct error *err) MUST_CHECK;
/* Open the target with the name "UID/VOLUME", as target_open(). */
int target_open_name(const char *kubelet_dir, const char *name,
		     struct target *ret, struct error *err) MUST_CHECK;
void target_close(struct target *t);

/* Is something mounted at the target?  1, 0, or -errno. */
int target_is_mounted(const struct target *t, struct error *err) MUST_CHECK;

/* Does the target show the file system of `source`?  1, 0, or -errno. */
int target_shows(const struct target *t, const char *source,
		 struct error *err) MUST_CHECK;

/* Bind-mount the folder `source` at the target; the MOUNT_ATTR_ `attributes` are set before it
 * is visible. */
int target_mount(const struct target *t, const char *source,
		 uint64_t attributes, struct error *err) MUST_CHECK;

/* Unmount everything at the target, and remove the folder.  It is no error if nothing is there. */
int target_unmount(const struct target *t, struct error *err) MUST_CHECK;

/* The target as a path, for calls that need one; valid while `t` is open. */
struct target_path {
	char text[64];
};
struct target_path target_path(const struct target *t);

#endif
