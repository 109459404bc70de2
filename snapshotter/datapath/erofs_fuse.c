// SPDX-License-Identifier: Apache-2.0
/* The best data path: EROFS mounted directly from the metadata file, with its data on the
 * carrier. */
#include <string.h>

#include "snapshotter/datapath/erofs_way.h"
#include "snapshotter/datapath/kinds.h"

static bool is_same(const struct mount_wish *w, const struct mount_line *l)
{
	const struct erofs_job *j = w->arg;

	return strcmp(l->fstype, "erofs") == 0 &&
	       strcmp(l->source, j->meta_path) == 0;
}

static int erofs_fuse_make(const struct mount_wish *w, struct error *err)
{
	const struct erofs_job *j = w->arg;
	struct mount_options o = MOUNT_OPTIONS_INIT;
	int rc = erofs_add_device(&o, j->carrier_path, err);

	return rc < 0 ? rc
		      : erofs_mount_direct(j->meta_path, w->path, &o, 0, err);
}

static const struct erofs_way way = {
	.ops = &datapath_erofs_fuse,
	.carrier = IMAGE_SESSION_CARRIER,
	.is_same = is_same,
	.make = erofs_fuse_make,
};

static int start(const struct datapath_config *cfg, struct datapath **ret,
		 struct error *err)
{
	return erofs_way_start(&way, cfg, ret, err);
}

const struct datapath_ops datapath_erofs_fuse = {
	.name = "erofs-fuse",
	.probe = probe_erofs_fuse,
	.start = start,
	.mount = erofs_way_mount,
	.umount = erofs_way_umount,
	.check = erofs_way_check,
	.resume = erofs_way_resume,
	.stop = erofs_way_stop,
};
