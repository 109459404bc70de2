// SPDX-License-Identifier: Apache-2.0
/*
 * How an image's files reach the kernel: one vtable, one file a way
 * (ARCHITECTURE.md, section 6).  Private to this folder; used by bootseerd.
 */
#ifndef BOOTSEER_SNAPSHOTTER_DATAPATH_H
#define BOOTSEER_SNAPSHOTTER_DATAPATH_H

#include "blockstore/device.h"

/* An image as the data path sees it; owned by bootseerd, outlives the mount. */
struct datapath_image {
	uint64_t index;         /* small, stable over restarts, never reused
	                         * while mounted: node ids derive from it */
	const char *name;       /* for messages: the reference */
	const char *meta_path;  /* EROFS metadata image on local disk */
	const char *mountpoint; /* existing empty folder */
	struct device *device;  /* virtual data device; NULL when `files` */
	uint64_t device_size;
	/* A complete image: its files, in the order of the extra devices of
	 * the metadata at meta_path; then no daemon is in the path. */
	const char *const *files;
	size_t n_files;
};

struct fd_keeper; /* fuse/fuse.h */

struct datapath_config {
	const char *run_dir;   /* carrier mount point and probes live below */
	const char *state_dir; /* on a disk that can back EROFS mounts */
	unsigned int threads;  /* FUSE worker threads, 1..64 */
	struct fd_keeper *keeper; /* borrowed */
};

struct datapath;

/* Figures that a kind of data path counts for itself. */
struct datapath_stats {
	uint64_t images_no_xattr; /* served now on the session without xattrs */
	uint64_t xattr_requests;  /* for xattrs, answered by this process */
};

struct datapath_ops {
	const char *name; /* "erofs-fuse", "erofs-loop", "fuse" */
	/* Can this kernel do it?  0, or -errno and what is missing and how to
	 * get it. */
	int (*probe)(const struct datapath_config *cfg, struct error *err);
	/* Take over what a crashed predecessor left (kept descriptors), or
	 * start afresh. */
	int (*start)(const struct datapath_config *cfg, struct datapath **ret,
		     struct error *err);
	/* Mount, or after a restart adopt the mount that is there already. */
	int (*mount)(struct datapath *d, struct datapath_image *img,
		     struct error *err);
	int (*umount)(struct datapath *d, struct datapath_image *img,
		      struct error *err);
	/* Can images be mounted now?  What this kind needs mounted, and somebody
	 * unmounted, is mounted again; 0, or what is in the way. */
	int (*check)(struct datapath *d, struct error *err);
	/* Answer what the predecessor left unanswered (FUSE_NOTIFY_RESEND);
	 * called once, when every image was adopted. */
	int (*resume)(struct datapath *d, struct error *err);
	/* NULL: the kernel answers for xattrs itself.  Memory only. */
	void (*get_stats)(struct datapath *d, struct datapath_stats *ret);
	/* `keep`: leave mounts and descriptors for a successor. */
	void (*stop)(struct datapath *d, bool keep);
};

struct datapath {
	const struct datapath_ops *ops;
};

/* By name, or NULL.  datapath_kinds ends with NULL, best first. */
const struct datapath_ops *datapath_kind(const char *name);
extern const struct datapath_ops *const datapath_kinds[];

/*
 * Mount a complete image straight from its files, or adopt such a mount; -EBUSY
 * when something else is mounted there.  `run_dir` as in datapath_config.  The
 * way it works is chosen by what the kernel can; unmount with any kind's umount.
 */
int datapath_mount_complete(const char *run_dir, struct datapath_image *img,
			    struct error *err) MUST_CHECK;

/* Is the EROFS of the metadata image `meta_path` mounted at `mountpoint`?  No
 * request is sent to any file system. */
bool datapath_has_complete(const char *mountpoint, const char *meta_path);

#endif
