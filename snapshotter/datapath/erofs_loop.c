// SPDX-License-Identifier: Apache-2.0
/*
 * The second choice, for kernels whose EROFS mounts block devices only: loop devices for the
 * metadata file and for the carrier's file.
 */
#include <string.h>

#include "common/loops.h"
#include "snapshotter/datapath/erofs_way.h"
#include "snapshotter/datapath/kinds.h"

static bool is_same(const struct mount_wish *w, const struct mount_line *l)
{
	const struct erofs_job *j = w->arg;

	return strcmp(l->fstype, "erofs") == 0 &&
	       loop_is_of(l->source, j->meta_path);
}

/* Mount with loop devices.  The mount keeps the devices in use; our descriptors are closed at
 * the end. */
static int erofs_loop_make(const struct mount_wish *w, struct error *err)
{
	const struct erofs_job *j = w->arg;
	char meta[LOOP_PATH_MAX], data[LOOP_PATH_MAX];
	struct mount_options o = MOUNT_OPTIONS_INIT;
	AUTO_CLOSE int meta_fd = -1;
	AUTO_CLOSE int data_fd = -1;
	int rc = loop_open(j->meta_path, meta, &meta_fd, err);

	if (rc == 0)
		rc = loop_open(j->carrier_path, data, &data_fd, err);
	if (rc == 0)
		rc = erofs_add_device(&o, data, err);
	return rc < 0 ? rc : erofs_mount(meta, w->path, &o, 0, err);
}

static const struct erofs_way way = {
	.ops = &datapath_erofs_loop,
	.carrier = IMAGE_SESSION_CARRIER_LOOP,
	.is_same = is_same,
	.make = erofs_loop_make,
};

static int start(const struct datapath_config *cfg, struct datapath **ret,
		 struct error *err)
{
	return erofs_way_start(&way, cfg, ret, err);
}

const struct datapath_ops datapath_erofs_loop = {
	.name = "erofs-loop",
	.probe = probe_erofs_loop,
	.start = start,
	.mount = erofs_way_mount,
	.umount = erofs_way_umount,
	.check = erofs_way_check,
	.resume = erofs_way_resume,
	.stop = erofs_way_stop,
};
