// SPDX-License-Identifier: Apache-2.0
/*
 * The place where the kubelet wants a volume: a folder `mount` in the pod's own folder,
 * reached without any link, and mounted on and unmounted by descriptor.
 */
#ifndef BOOTSEER_CSI_TARGET_H
#define BOOTSEER_CSI_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"

#define TARGET_ID_MAX 17 /* bytes, NUL included */
#define TARGET_NAME_MAX 512

struct target {
	int parent;                 /* of `mount`; -1: it is not there */
	char uid[64];               /* of the pod */
	char name[TARGET_NAME_MAX]; /* "UID/VOLUME" */
	char id[TARGET_ID_MAX];     /* a short name made of that */
};

/*
 * Take KUBELET/pods/UID/volumes/kubernetes.io~csi/VOLUME/mount apart and open the folder
 * above `mount`.  -EINVAL: it is another path, or a link is in it; -ENOENT with *ret
 * filled: the folder is not there (any more).
 */
int target_open(const char *kubelet_dir, const char *path, struct target *ret,
		struct error *err) MUST_CHECK;
/* The same of "UID/VOLUME". */
int target_open_name(const char *kubelet_dir, const char *name,
		     struct target *ret, struct error *err) MUST_CHECK;
void target_close(struct target *t);

/* 1: something is mounted there, 0, or -errno. */
int target_is_mounted(const struct target *t, struct error *err) MUST_CHECK;

/* 1: what is mounted there is of the file system of `source`, 0, or -errno. */
int target_shows(const struct target *t, const char *source,
		 struct error *err) MUST_CHECK;

/* Bind the folder `source` there, with MOUNT_ATTR_ `attributes` from its first moment. */
int target_mount(const struct target *t, const char *source,
		 uint64_t attributes, struct error *err) MUST_CHECK;

/* Take away what is mounted there, and the folder.  Nothing there is no error. */
int target_unmount(const struct target *t, struct error *err) MUST_CHECK;

/* A path of it for calls that want one, as long as `t` is open. */
struct target_path {
	char text[64];
};
struct target_path target_path(const struct target *t);

#endif
