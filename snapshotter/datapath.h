// SPDX-License-Identifier: Apache-2.0
/*
 * How an image's files reach the kernel: a vtable, and a file for each kind of data path
 * (ARCHITECTURE.md, section 6).  Private to this folder; used by bootseerd.
 */
#ifndef BOOTSEER_SNAPSHOTTER_DATAPATH_H
#define BOOTSEER_SNAPSHOTTER_DATAPATH_H

#include "blockstore/device.h"

/* An image as the data path sees it; owned by bootseerd, outlives the mount. */
struct datapath_image {
	/* small, the same after a restart, not reused while mounted: node ids derive from it */
	uint64_t index;
	const char *name;       /* for messages: the reference */
	const char *meta_path;  /* EROFS metadata image on local disk */
	const char *mountpoint; /* existing empty folder */
	/* virtual data device; NULL if `files` is set */
	struct device *device;
	uint64_t device_size;
	/* For a complete image: its files, in the order of the extra devices in the metadata;
	 * no daemon is in the data path then. */
	const char *const *files;
	size_t n_files;
};

struct fd_keeper; /* fuse/fuse.h */

struct datapath_config {
	const char *run_dir;   /* holds the carrier's mount point and probes */
	const char *state_dir; /* on a disk that can back EROFS mounts */
	unsigned int threads;  /* FUSE worker threads, 1..64 */
	struct fd_keeper *keeper; /* borrowed */
};

struct datapath;

/* Figures that a kind of data path counts for itself. */
struct datapath_stats {
	/* images served now on the session without xattrs */
	uint64_t images_no_xattr;
	/* requests for xattrs that this process answered */
	uint64_t xattr_requests;
};

struct datapath_ops {
	const char *name; /* "erofs-fuse", "erofs-loop", "fuse" */
	/* Can this kernel use the data path?  0, or -errno with what is missing and how to get
	 * it. */
	int (*probe)(const struct datapath_config *cfg, struct error *err);
	/* Take over the kept descriptors of an earlier bootseerd, or start without any. */
	int (*start)(const struct datapath_config *cfg, struct datapath **ret,
		     struct error *err);
	/* Mount, or after a restart adopt the mount that is there already. */
	int (*mount)(struct datapath *d, struct datapath_image *img,
		     struct error *err);
	int (*umount)(struct datapath *d, struct datapath_image *img,
		      struct error *err);
	/* Can images be mounted now?  Mounts again what this kind needs, if it was unmounted;
	 * 0, or what is in the way. */
	int (*check)(struct datapath *d, struct error *err);
	/* Answer requests that the earlier bootseerd left open (FUSE_NOTIFY_RESEND); called
	 * once, when every image was adopted. */
	int (*resume)(struct datapath *d, struct error *err);
	/* NULL: the kernel answers requests for xattrs itself.  Does no I/O. */
	void (*get_stats)(struct datapath *d, struct datapath_stats *ret);
	/* `keep`: leave mounts and descriptors for the next bootseerd. */
	void (*stop)(struct datapath *d, bool keep);
};

struct datapath {
	const struct datapath_ops *ops;
};

/* Find a kind by its name, or NULL.  datapath_kinds has all, the best first, and ends with NULL. */
const struct datapath_ops *datapath_kind(const char *name);
extern const struct datapath_ops *const datapath_kinds[];

/*
 * Mount a complete image straight from its files, or adopt such a mount; -EBUSY when something
 * else is mounted there.  `run_dir` as in datapath_config.  The method depends on the kernel;
 * unmount with the umount of any kind.
 */
int datapath_mount_complete(const char *run_dir, struct datapath_image *img,
			    struct error *err) MUST_CHECK;

/* Is the EROFS image `meta_path` mounted at `mountpoint`?  Sends no request to any file system. */
bool datapath_has_complete(const char *mountpoint, const char *meta_path);

#endif
