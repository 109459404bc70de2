// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/erofs_way.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct erofs_path {
	struct datapath base;
	const struct erofs_way *way;
	struct session *carrier;
	char *run_dir;
};

static struct erofs_path *of(struct datapath *d)
{
	return container_of(d, struct erofs_path, base);
}

int erofs_way_start(const struct erofs_way *way,
		    const struct datapath_config *cfg, struct datapath **ret,
		    struct error *err)
{
	struct erofs_path *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->base.ops = way->ops;
	p->way = way;
	p->run_dir = strdup(cfg->run_dir);
	rc = p->run_dir ? carrier_start(cfg, way->carrier, &p->carrier, err)
			: error_nomem(err);
	if (rc < 0) {
		free(p->run_dir);
		free(p);
		return rc;
	}
	*ret = &p->base;
	return 0;
}

static int mount_served(struct erofs_path *p, struct datapath_image *img,
			bool added, struct error *err)
{
	AUTO_FREE char *file = carrier_path(p->carrier, img);
	AUTO_FREE char *meta = realpath(img->meta_path, NULL);
	const struct erofs_job job = { meta, file };
	const struct mount_wish wish = { .run_dir = p->run_dir,
					 .lock = img->index,
					 .path = img->mountpoint,
					 .is_same = p->way->is_same,
					 .make = p->way->make,
					 .arg = &job };
	int rc;

	if (!meta)
		return error_set(err, errno, "metadata '%s': %s",
				 img->meta_path, strerror(errno));
	if (!file)
		return error_nomem(err);
	/* What hangs on a carrier that nobody kept can only fail. */
	if (added && !session_is_adopted(p->carrier)) {
		rc = umount_image(p->run_dir, img->index, img->mountpoint, true,
				  err);
		if (rc < 0)
			return rc;
	}
	return mount_image(&wish, NULL, err);
}

int erofs_way_mount(struct datapath *d, struct datapath_image *img,
		    struct error *err)
{
	struct erofs_path *p = of(d);
	int added = carrier_add(p->carrier, img, err);
	int rc;

	if (added < 0)
		return added;
	rc = mount_served(p, img, added == 0, err);
	if (rc < 0 && added == 0)
		carrier_remove(p->carrier, img);
	return rc;
}

int erofs_way_umount(struct datapath *d, struct datapath_image *img,
		     struct error *err)
{
	struct erofs_path *p = of(d);
	int rc = umount_image(p->run_dir, img->index, img->mountpoint, false,
			      err);

	if (rc == 0)
		carrier_remove(p->carrier, img);
	return rc;
}

int erofs_way_resume(struct datapath *d, struct error *err)
{
	session_admit(of(d)->carrier, true);
	return 0;
}

void erofs_way_stop(struct datapath *d, bool keep)
{
	struct erofs_path *p = of(d);

	session_stop(p->carrier, keep);
	free(p->run_dir);
	free(p);
}
