// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/erofs_way.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fs.h"

struct erofs_path {
	struct datapath base;
	const struct erofs_way *way;
	struct image_session *carrier;
	char *run_dir;
	/* Folder RUN/CARRIER.made: a file for each index that was mounted on this carrier, by
	 * this process or by those whose descriptors it took over. */
	char *made_dir;
};

static struct erofs_path *erofs_way_of(struct datapath *d)
{
	return container_of(d, struct erofs_path, base);
}

static void free_path(struct erofs_path *p)
{
	free(p->made_dir);
	free(p->run_dir);
	free(p);
}

/* Open the folder of made mounts; empty it if the carrier is new, since mounts on an old
 * carrier are useless. */
static int open_made(struct erofs_path *p, struct error *err)
{
	int rc = 0;

	if (!session_is_adopted(p->carrier->session))
		rc = fs_remove_tree(p->made_dir, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	return fs_mkdir_p(p->made_dir, 0700, err);
}

static char *made_file_path(const struct erofs_path *p, uint64_t index)
{
	char *file;

	return asprintf(&file, "%s/%" PRIu64, p->made_dir, index) < 0 ? NULL
								      : file;
}

int erofs_way_start(const struct erofs_way *way,
		    const struct datapath_config *cfg, struct datapath **ret,
		    struct error *err)
{
	const char *const mine[] = { way->carrier, NULL };
	struct erofs_path *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->base.ops = way->ops;
	p->way = way;
	p->run_dir = strdup(cfg->run_dir);
	if (asprintf(&p->made_dir, "%s/%s.made", cfg->run_dir, way->carrier) <
	    0)
		p->made_dir = NULL;
	rc = p->run_dir && p->made_dir
		     ? carrier_start(cfg, way->carrier, &p->carrier, err)
		     : error_nomem(err);
	if (rc == 0) {
		image_session_drop_others(cfg, mine);
		rc = open_made(p, err);
		if (rc < 0)
			image_session_stop(p->carrier, false);
	}
	if (rc < 0) {
		free_path(p);
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
	AUTO_FREE char *made = made_file_path(p, img->index);
	AUTO_CLOSE int fd = -1;
	const struct erofs_job job = { meta, file };
	struct mount_wish wish = { .run_dir = p->run_dir,
				   .lock = img->index,
				   .path = img->mountpoint,
				   .is_same = p->way->is_same,
				   .make = p->way->make,
				   .arg = &job };
	int rc;

	if (!meta)
		return error_errno(err, errno, "metadata '%s'", img->meta_path);
	if (!file || !made)
		return error_nomem(err);
	/* A mount on a carrier that is gone, or on another index of the carrier, can only fail.
	 * If that is not known, replacing it does no harm. */
	wish.replaces = added && access(made, F_OK) < 0;
	rc = mount_image(&wish, NULL, err);
	if (rc < 0)
		return rc;
	fd = open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? error_errno(err, errno, "create '%s'", made) : 0;
}

int erofs_way_mount(struct datapath *d, struct datapath_image *img,
		    struct error *err)
{
	struct erofs_path *p = erofs_way_of(d);
	int added, rc = image_session_ensure(p->carrier, err);

	if (rc < 0)
		return rc;
	added = carrier_add(p->carrier, img, err);
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
	struct erofs_path *p = erofs_way_of(d);
	AUTO_FREE char *made = made_file_path(p, img->index);
	int rc = mount_take_down(p->run_dir, img->index, img->mountpoint, false,
				 err);

	if (rc < 0)
		return rc;
	if (made)
		(void)unlink(made);
	carrier_remove(p->carrier, img);
	return 0;
}

int erofs_way_check(struct datapath *d, struct error *err)
{
	return image_session_ensure(erofs_way_of(d)->carrier, err);
}

int erofs_way_resume(struct datapath *d, struct error *err)
{
	session_admit(erofs_way_of(d)->carrier->session, true);
	return 0;
}

void erofs_way_stop(struct datapath *d, bool keep)
{
	struct erofs_path *p = erofs_way_of(d);

	image_session_stop(p->carrier, keep);
	free_path(p);
}
