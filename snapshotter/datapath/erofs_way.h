// SPDX-License-Identifier: Apache-2.0
/* Common part of the two data paths that mount EROFS over a carrier. */
#ifndef BOOTSEER_DATAPATH_EROFS_WAY_H
#define BOOTSEER_DATAPATH_EROFS_WAY_H

#include "snapshotter/datapath/carrier.h"
#include "snapshotter/datapath/mounts.h"

/* The argument (mount_wish.arg) of both data paths. */
struct erofs_job {
	const char *meta_path;    /* without symlinks */
	const char *carrier_path; /* the image's file on the carrier */
};

struct erofs_way {
	const struct datapath_ops *ops;
	const char *carrier; /* name of the carrier's session */
	/* callbacks for struct mount_wish */
	bool (*is_same)(const struct mount_wish *w, const struct mount_line *l);
	int (*make)(const struct mount_wish *w, struct error *err);
};

int erofs_way_start(const struct erofs_way *way,
		    const struct datapath_config *cfg, struct datapath **ret,
		    struct error *err) MUST_CHECK;

/* Functions for datapath_ops. */
int erofs_way_mount(struct datapath *d, struct datapath_image *img,
		    struct error *err) MUST_CHECK;
int erofs_way_umount(struct datapath *d, struct datapath_image *img,
		     struct error *err) MUST_CHECK;
int erofs_way_check(struct datapath *d, struct error *err) MUST_CHECK;
int erofs_way_resume(struct datapath *d, struct error *err) MUST_CHECK;
void erofs_way_stop(struct datapath *d, bool keep);

#endif
