// SPDX-License-Identifier: Apache-2.0
#include "cli/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"

/* Append a path with the separators of overlayfs options ("," and ":") escaped. */
static int append_escaped(struct buf *b, const char *path)
{
	for (; *path; path++)
		if ((strchr(",:\\", *path) && buf_append(b, "\\", 1) < 0) ||
		    buf_append(b, path, 1) < 0)
			return -ENOMEM;
	return 0;
}

static int mount_overlay(const struct rootfs *r, struct error *err)
{
	AUTO_BUF o = BUF_INIT;

	if (buf_puts(&o, "volatile,lowerdir=") < 0 ||
	    append_escaped(&o, r->image) < 0 ||
	    buf_puts(&o, ",upperdir=") < 0 || append_escaped(&o, r->dir) < 0 ||
	    buf_puts(&o, "/own/upper,workdir=") < 0 ||
	    append_escaped(&o, r->dir) < 0 || buf_puts(&o, "/own/work") < 0)
		return error_nomem(err);
	if (mount("overlay", r->merged, "overlay", 0, o.data) == 0)
		return 0;
	/* Kernels before 5.10 have no "volatile", and sync files that are never needed again. */
	if (errno == EINVAL && mount("overlay", r->merged, "overlay", 0,
				     o.data + strlen("volatile,")) == 0)
		return 0;
	return error_set(err, errno,
			 "overlay in '%s': %s: $TMPDIR should name a folder on "
			 "ext4, xfs or tmpfs",
			 r->dir, strerror(errno));
}

static int make_dir(const struct rootfs *r, const char *name, unsigned int mode,
		    struct error *err)
{
	AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s/%s", r->dir, name) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	if (mkdir(path, mode) < 0)
		return error_errno(err, errno, "create '%s'", path);
	return 0;
}

const char *rootfs_temp_dir(void)
{
	const char *temp = getenv("TMPDIR");

	return temp && *temp == '/' ? temp : "/var/tmp";
}

/* Lock the folder, to show other processes that its process lives. */
static int lock_dir(struct rootfs *r, struct error *err)
{
	r->lock_fd = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->lock_fd < 0 || flock(r->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return error_errno(err, errno, "lock '%s'", r->dir);
	return 0;
}

static int make_dirs(struct rootfs *r, const char *image, struct error *err)
{
	int rc;

	r->image = strdup(image);
	if (asprintf(&r->dir, "%s/" ROOTFS_DIR_PREFIX "XXXXXX",
		     rootfs_temp_dir()) < 0)
		r->dir = NULL;
	if (!r->image || !r->dir)
		return error_nomem(err);
	if (!mkdtemp(r->dir)) {
		rc = error_errno(err, errno, "create '%s'", r->dir);
		free(r->dir);
		r->dir = NULL;
		return rc;
	}
	rc = lock_dir(r, err);
	if (rc < 0)
		return rc;
	/* The container's user needs to traverse this folder. */
	if (chmod(r->dir, 0711) < 0)
		return error_errno(err, errno, "'%s'", r->dir);
	/* Users of the host must not reach the container's files, which may include set-user-id
	 * programs. */
	rc = make_dir(r, "own", 0700, err);
	if (rc == 0)
		rc = make_dir(r, "own/upper", 0755, err);
	if (rc == 0)
		rc = make_dir(r, "own/work", 0755, err);
	if (rc == 0)
		rc = make_dir(r, "rootfs", 0755, err);
	return rc;
}

int rootfs_new(const char *image, struct rootfs **ret, struct error *err)
{
	AUTO(rootfs) r = calloc(1, sizeof(*r));
	char *merged;
	int rc;

	if (!r)
		return error_nomem(err);
	r->lock_fd = -1;
	rc = make_dirs(r, image, err);
	if (rc < 0)
		return rc;
	if (asprintf(&merged, "%s/rootfs", r->dir) < 0)
		return error_nomem(err);
	/* Our own mount namespace: it receives unmounts from outside, and its mounts stay
	 * inside. */
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		rc = error_set(err, errno, "mount namespace: %s%s",
			       strerror(errno), error_root_hint(errno));
	/* Without a namespace of our own there must be nothing for rootfs_free() to unmount. */
	if (rc < 0) {
		free(merged);
		return rc;
	}
	r->merged = merged;
	rc = mount_overlay(r, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&r);
	return 0;
}

void rootfs_free(struct rootfs *r)
{
	struct error err = ERROR_INIT;

	if (!r)
		return;
	/* These mounts exist only in our namespace; the image's is a copy of bootseerd's. */
	if (r->merged) {
		(void)umount2(r->merged, MNT_DETACH);
		(void)umount2(r->image, MNT_DETACH);
	}
	if (r->dir && fs_remove_tree(r->dir, &err) < 0)
		log_warning("rootfs", "left behind: path=\"%s\" reason=\"%s\"",
			    r->dir, err.msg);
	fd_close(r->lock_fd);
	free(r->dir);
	free(r->merged);
	free(r->image);
	free(r);
}

/* Open a file in the container's root, without leaving it by symbolic links. */
static int open_in(const struct rootfs *r, const char *path, uint64_t flags)
{
	AUTO_CLOSE int root = open(r->merged, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -1;
	return fs_openat2(root, path, flags, RESOLVE_IN_ROOT);
}

bool rootfs_has(const struct rootfs *r, const char *path)
{
	AUTO_CLOSE int fd = open_in(r, path, O_PATH);

	return fd >= 0;
}

int rootfs_read(const struct rootfs *r, const char *path, size_t max,
		struct buf *ret, struct error *err)
{
	AUTO_CLOSE int root = open(r->merged, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (root < 0)
		return error_errno(err, errno, "open '%s'", r->merged);
	rc = fs_read_file_in(root, path, max, ret, err);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	return error_wrap(err, rc, "in the image");
}
