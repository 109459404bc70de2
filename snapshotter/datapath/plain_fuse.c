// SPDX-License-Identifier: Apache-2.0
/*
 * Third choice, for kernels without EROFS: a FUSE file system that answers
 * from the metadata image itself.  One session serves all images, each in a
 * folder named by its index, which is bind-mounted where the image belongs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "snapshotter/datapath/init.h"
#include "snapshotter/datapath/kinds.h"
#include "snapshotter/datapath/mounts.h"
#include "snapshotter/datapath/plain.h"

struct plain_fuse {
	struct datapath base;
	struct session *session;
	char *run_dir;
};

static struct plain_fuse *of(struct datapath *d)
{
	return container_of(d, struct plain_fuse, base);
}

static int start(const struct datapath_config *cfg, struct datapath **ret,
		 struct error *err)
{
	const struct session_config sc = {
		.name = SESSION_PLAIN,
		.mount_data = "default_permissions,allow_other",
		.datapath = cfg,
		.ops = &plain_ops,
		.init = plain_init,
	};
	struct plain_fuse *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->base.ops = &datapath_plain_fuse;
	p->run_dir = strdup(cfg->run_dir);
	rc = p->run_dir ? session_start(&sc, &p->session, err)
			: error_nomem(err);
	if (rc < 0) {
		free(p->run_dir);
		free(p);
		return rc;
	}
	*ret = &p->base;
	return 0;
}

/* ---------------------------------------------------------------- images --- */

static void plain_image_free(struct plain_image *pi)
{
	if (!pi)
		return;
	(void)munmap(pi->map, pi->len);
	free(pi);
}
DEFINE_AUTO(plain_image)

static int open_meta(const char *path, struct plain_image *pi,
		     struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "metadata '%s': %s", path,
				 strerror(errno));
	if (st.st_size <= 0)
		return error_set(err, EINVAL, "metadata '%s' is empty", path);
	pi->len = (size_t)st.st_size;
	pi->map = mmap(NULL, pi->len, PROT_READ, MAP_SHARED, fd, 0);
	if (pi->map == MAP_FAILED)
		return error_set(err, errno, "map '%s': %s", path,
				 strerror(errno));
	return 0;
}

static int plain_image_new(const char *path, struct plain_image **ret,
			   struct error *err)
{
	struct plain_image *pi = calloc(1, sizeof(*pi));
	int rc;

	if (!pi)
		return error_nomem(err);
	rc = open_meta(path, pi, err);
	if (rc < 0) {
		free(pi);
		return rc;
	}
	rc = erofs_open(pi->map, pi->len, &pi->erofs, err);
	if (rc < 0) {
		plain_image_free(pi);
		return error_wrap(err, rc, "metadata '%s'", path);
	}
	/* An index that comes back with another image must not find inodes of
	 * this one in the kernel's cache: they have another generation. */
	memcpy(&pi->generation, pi->erofs.uuid, sizeof(pi->generation));
	pi->generation |= 1;
	*ret = pi;
	return 0;
}

/* 0, or 1 when it was served already. */
static int add(struct plain_fuse *p, struct datapath_image *img,
	       struct error *err)
{
	AUTO(plain_image) pi = NULL;
	int rc;

	if (!img->device)
		return error_set(err, EINVAL,
				 "image '%s' has no device that can be served",
				 img->name);
	rc = plain_image_new(img->meta_path, &pi, err);
	if (rc < 0)
		return rc;
	rc = image_table_add(session_images(p->session), img, pi, err);
	if (rc == -EALREADY)
		return 1;
	if (rc < 0)
		return rc;
	(void)steal_ptr(&pi);
	session_admit(p->session, false);
	return 0;
}

static void drop(struct plain_fuse *p, struct datapath_image *img)
{
	void *pi = NULL;

	if (image_table_remove(session_images(p->session), img->index, &pi) ==
	    0)
		plain_image_free(pi);
}

/* ---------------------------------------------------------------- mounts --- */

struct job {
	char *folder;  /* of the image in the session's mount */
	char root[24]; /* the same as mountinfo has it */
};

static bool is_same(const struct mount_wish *w, const struct mount_line *l)
{
	const struct job *j = w->arg;

	return strcmp(l->fstype, SESSION_FSTYPE) == 0 &&
	       strcmp(l->root, j->root) == 0;
}

static int make(const struct mount_wish *w, struct error *err)
{
	const struct job *j = w->arg;

	if (mount(j->folder, w->path, NULL, MS_BIND, NULL) < 0)
		return error_set(err, errno, "bind '%s' to '%s': %s", j->folder,
				 w->path, strerror(errno));
	return 0;
}

static int mount_served(struct plain_fuse *p, struct datapath_image *img,
			bool added, struct error *err)
{
	struct job job = { NULL, "" };
	const struct mount_wish wish = { .run_dir = p->run_dir,
					 .lock = img->index,
					 .path = img->mountpoint,
					 .is_same = is_same,
					 .make = make,
					 .arg = &job };
	AUTO_FREE char *folder = NULL;
	int rc = 0;

	(void)snprintf(job.root, sizeof(job.root), "/%llu",
		       (unsigned long long)img->index);
	folder = path_join(session_path(p->session), job.root + 1);
	if (!folder)
		return error_nomem(err);
	job.folder = folder;
	/* What a session that nobody kept left there can only fail. */
	if (added && !session_is_adopted(p->session))
		rc = umount_image(p->run_dir, img->index, img->mountpoint, true,
				  err);
	return rc == 0 ? mount_image(&wish, NULL, err) : rc;
}

static int do_mount(struct datapath *d, struct datapath_image *img,
		    struct error *err)
{
	struct plain_fuse *p = of(d);
	int added = add(p, img, err);
	int rc;

	if (added < 0)
		return added;
	rc = mount_served(p, img, added == 0, err);
	if (rc < 0 && added == 0)
		drop(p, img);
	return rc;
}

static int do_umount(struct datapath *d, struct datapath_image *img,
		     struct error *err)
{
	struct plain_fuse *p = of(d);
	int rc = umount_image(p->run_dir, img->index, img->mountpoint, false,
			      err);

	if (rc == 0)
		drop(p, img);
	return rc;
}

static int resume(struct datapath *d, struct error *err)
{
	session_admit(of(d)->session, true);
	return 0;
}

static void stop(struct datapath *d, bool keep)
{
	struct plain_fuse *p = of(d);

	session_stop(p->session, keep);
	free(p->run_dir);
	free(p);
}

const struct datapath_ops datapath_plain_fuse = {
	.name = "fuse",
	.probe = probe_plain_fuse,
	.start = start,
	.mount = do_mount,
	.umount = do_umount,
	.resume = resume,
	.stop = stop,
};
