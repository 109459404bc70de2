// SPDX-License-Identifier: Apache-2.0
/*
 * Third choice, for kernels without EROFS: a FUSE file system that answers from the
 * metadata image itself.  Each image is a folder of a session, named by its index,
 * which is bind-mounted where the image belongs.
 *
 * There are two sessions.  The kernel keeps no xattr of a FUSE file and asks for
 * some whenever a file is listed or looked up below overlayfs, unless it was told
 * once, for a whole connection, that there are none.  So images in which no inode
 * has any are served on a connection of their own (docs/decisions/0002-datapath.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "snapshotter/datapath/kinds.h"
#include "snapshotter/datapath/mounts.h"
#include "snapshotter/datapath/plain.h"

/* The two sessions: for images with and without xattrs. */
enum side { SIDE_XATTR, SIDE_NO_XATTR, N_SIDES };

static const struct {
	const char *name, *fstype;
	const struct session_handler *handler;
} sides[N_SIDES] = {
	[SIDE_XATTR] = { IMAGE_SESSION_PLAIN, IMAGE_SESSION_FSTYPE,
			 &plain_handler },
	[SIDE_NO_XATTR] = { IMAGE_SESSION_NO_XATTR,
			    IMAGE_SESSION_FSTYPE_NO_XATTR,
			    &plain_no_xattr_handler },
};

struct plain_fuse {
	struct datapath base;
	struct image_session *sessions[N_SIDES];
	struct plain_counts counts;
	char *run_dir;
};

static struct plain_fuse *plain_fuse_of(struct datapath *d)
{
	return container_of(d, struct plain_fuse, base);
}

static int start_sessions(struct plain_fuse *p,
			  const struct datapath_config *cfg, struct error *err)
{
	struct image_session_config sc = { .datapath = cfg,
					   .priv = &p->counts };

	for (int k = 0; k < N_SIDES; k++) {
		int rc;

		sc.name = sides[k].name;
		sc.fstype = sides[k].fstype;
		sc.handler = sides[k].handler;
		rc = image_session_start(&sc, &p->sessions[k], err);
		if (rc == 0) {
			sc.pool = p->sessions[k]->pool;
			continue;
		}
		/* Keep sessions that were taken over: their readers may wait for another try. */
		while (k-- > 0)
			image_session_stop(p->sessions[k],
					   session_is_adopted(
						   p->sessions[k]->session));
		return rc;
	}
	return 0;
}

static int start(const struct datapath_config *cfg, struct datapath **ret,
		 struct error *err)
{
	static const char *const mine[] = { IMAGE_SESSION_PLAIN,
					    IMAGE_SESSION_NO_XATTR, NULL };
	struct plain_fuse *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->base.ops = &datapath_plain_fuse;
	p->run_dir = strdup(cfg->run_dir);
	rc = p->run_dir ? start_sessions(p, cfg, err) : error_nomem(err);
	if (rc < 0) {
		free(p->run_dir);
		free(p);
		return rc;
	}
	image_session_drop_others(cfg, mine);
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
		return error_errno(err, errno, "metadata '%s'", path);
	if (st.st_size <= 0)
		return error_set(err, EINVAL, "metadata '%s' is empty", path);
	pi->len = (size_t)st.st_size;
	pi->map = mmap(NULL, pi->len, PROT_READ, MAP_SHARED, fd, 0);
	if (pi->map == MAP_FAILED)
		return error_errno(err, errno, "map '%s'", path);
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
	/* Inodes get a generation for their image: an index that is reused for another image
	 * must not find inodes of this one in the kernel's cache. */
	memcpy(&pi->generation, pi->erofs.uuid, sizeof(pi->generation));
	pi->generation |= 1;
	*ret = pi;
	return 0;
}

/* Name of the image's folder in its session's root. */
struct open_folder {
	char name[24];
};

static struct open_folder folder_of(const struct datapath_image *img)
{
	struct open_folder f;

	(void)snprintf(f.name, sizeof(f.name), "%llu",
		       (unsigned long long)img->index);
	return f;
}

static bool is_on(const struct mount_line *l, enum side side,
		  const struct datapath_image *img)
{
	return strcmp(l->fstype, sides[side].fstype) == 0 &&
	       l->root[0] == '/' &&
	       strcmp(l->root + 1, folder_of(img).name) == 0;
}

/* Find the session whose mount of the image is there; N_SIDES: there is none. */
static int find_mounted_side(const struct datapath_image *img, enum side *ret,
			     struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FINI(mount_line) line = { .major = 0 };
	int rc = mount_canonical(img->mountpoint, &path, err);

	if (rc == 0)
		rc = mount_find(path, &line, err);
	if (rc < 0)
		return rc;
	*ret = 0;
	while (*ret < N_SIDES && (rc == 0 || !is_on(&line, *ret, img)))
		(*ret)++;
	return 0;
}

/* Find the session that serves the image, or N_SIDES. */
static int find_serving_side(struct plain_fuse *p,
			     const struct datapath_image *img, enum side *ret,
			     struct error *err)
{
	for (*ret = 0; *ret < N_SIDES; (*ret)++) {
		struct image_table *t = p->sessions[*ret]->images;
		struct image_entry *e = image_get(t, img->index);
		bool is_same = e && e->img == img;

		if (!e)
			continue;
		image_put(t, e);
		return is_same ? 0
			       : error_set(err, EEXIST,
					   "another image has the index of "
					   "'%s'",
					   img->name);
	}
	return 0;
}

/* Choose the session for an image that is to be served; `there` is the one whose mount it has. */
static int choose_side(struct plain_fuse *p, const struct plain_image *pi,
		       enum side there, enum side *ret, struct error *err)
{
	bool has_xattrs = true;
	int rc = erofs_has_xattrs(&pi->erofs, &has_xattrs, err);

	if (rc < 0)
		return rc;
	*ret = has_xattrs ? SIDE_XATTR : SIDE_NO_XATTR;
	/* An older bootseerd with a single session has mounted it: it stays there. */
	if (there == SIDE_XATTR &&
	    session_is_adopted(p->sessions[there]->session))
		*ret = there;
	return 0;
}

static int plain_fuse_add(struct plain_fuse *p, struct datapath_image *img,
			  enum side there, enum side *ret, struct error *err)
{
	AUTO(plain_image) pi = NULL;
	int rc;

	if (!img->device)
		return error_set(err, EINVAL,
				 "image '%s' has no device that can be served",
				 img->name);
	rc = plain_image_new(img->meta_path, &pi, err);
	if (rc == 0)
		rc = choose_side(p, pi, there, ret, err);
	if (rc == 0)
		rc = image_table_add(p->sessions[*ret]->images, img, pi, err);
	if (rc < 0)
		return rc;
	(void)steal_ptr(&pi);
	session_admit(p->sessions[*ret]->session, false);
	return 0;
}

static void plain_fuse_drop(struct plain_fuse *p, struct datapath_image *img)
{
	void *pi = NULL;

	for (int k = 0; k < N_SIDES; k++)
		if (image_table_remove(p->sessions[k]->images, img->index,
				       &pi) == 0)
			plain_image_free(pi);
}

/* ---------------------------------------------------------------- mounts --- */

struct fuse_job {
	const struct datapath_image *img;
	enum side side;
	char *folder; /* folder of the image in the session's mount */
};

static bool is_same(const struct mount_wish *w, const struct mount_line *l)
{
	const struct fuse_job *j = w->arg;

	return is_on(l, j->side, j->img);
}

static int plain_fuse_make(const struct mount_wish *w, struct error *err)
{
	const struct fuse_job *j = w->arg;

	if (mount(j->folder, w->path, NULL, MS_BIND, NULL) < 0)
		return error_errno(err, errno, "bind '%s' to '%s'", j->folder,
				   w->path);
	return 0;
}

static int mount_served(struct plain_fuse *p, struct datapath_image *img,
			enum side side, struct error *err)
{
	AUTO_FREE char *folder =
		fs_join(session_path(p->sessions[side]->session),
			folder_of(img).name);
	const struct fuse_job job = { img, side, folder };
	const struct mount_wish wish = { .run_dir = p->run_dir,
					 .lock = img->index,
					 .path = img->mountpoint,
					 .is_same = is_same,
					 .make = plain_fuse_make,
					 .arg = &job };
	int rc = image_session_ensure(p->sessions[side], err);

	if (rc < 0)
		return rc;
	return folder ? mount_image(&wish, NULL, err) : error_nomem(err);
}

/* Mount an image that this process does not serve yet. */
static int mount_new(struct plain_fuse *p, struct datapath_image *img,
		     struct error *err)
{
	enum side there, side = SIDE_XATTR;
	int rc = find_mounted_side(img, &there, err);

	if (rc == 0)
		rc = plain_fuse_add(p, img, there, &side, err);
	if (rc < 0)
		return rc;
	/* Unmount first if the mount's session was not kept, or if it is the other session's:
	 * such a mount can only fail, since nobody serves it. */
	if (!session_is_adopted(p->sessions[side]->session) ||
	    (there != N_SIDES && there != side))
		rc = mount_take_down(p->run_dir, img->index, img->mountpoint,
				     true, err);
	if (rc == 0)
		rc = mount_served(p, img, side, err);
	if (rc < 0)
		plain_fuse_drop(p, img);
	return rc;
}

static int do_mount(struct datapath *d, struct datapath_image *img,
		    struct error *err)
{
	struct plain_fuse *p = plain_fuse_of(d);
	enum side side;
	int rc = find_serving_side(p, img, &side, err);

	if (rc < 0)
		return rc;
	return side == N_SIDES ? mount_new(p, img, err)
			       : mount_served(p, img, side, err);
}

static int do_umount(struct datapath *d, struct datapath_image *img,
		     struct error *err)
{
	struct plain_fuse *p = plain_fuse_of(d);
	int rc = mount_take_down(p->run_dir, img->index, img->mountpoint, false,
				 err);

	if (rc == 0)
		plain_fuse_drop(p, img);
	return rc;
}

static int plain_fuse_check(struct datapath *d, struct error *err)
{
	int rc = 0;

	for (int k = 0; rc == 0 && k < N_SIDES; k++)
		rc = image_session_ensure(plain_fuse_of(d)->sessions[k], err);
	return rc;
}

static int plain_fuse_resume(struct datapath *d, struct error *err)
{
	for (int k = 0; k < N_SIDES; k++)
		session_admit(plain_fuse_of(d)->sessions[k]->session, true);
	return 0;
}

static void get_stats(struct datapath *d, struct datapath_stats *ret)
{
	struct plain_fuse *p = plain_fuse_of(d);

	*ret = (struct datapath_stats){
		.images_no_xattr =
			image_table_count(p->sessions[SIDE_NO_XATTR]->images),
		.xattr_requests = atomic_load(&p->counts.xattr_requests),
	};
}

static void stop(struct datapath *d, bool keep)
{
	struct plain_fuse *p = plain_fuse_of(d);

	for (int k = 0; k < N_SIDES; k++)
		image_session_stop(p->sessions[k], keep);
	free(p->run_dir);
	free(p);
}

const struct datapath_ops datapath_plain_fuse = {
	.name = "fuse",
	.probe = probe_plain_fuse,
	.start = start,
	.mount = do_mount,
	.umount = do_umount,
	.check = plain_fuse_check,
	.resume = plain_fuse_resume,
	.get_stats = get_stats,
	.stop = stop,
};
