// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out what this kernel can do by trying it with an image of a few KiB, and names a cure
 * if it cannot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/loops.h"
#include "image/erofs/erofs.h"
#include "snapshotter/datapath/image_session.h"
#include "snapshotter/datapath/kinds.h"
#include "snapshotter/datapath/mounts.h"

#define FILE_NAME "file"
#define DATA_SIZE ((uint64_t)2 * EROFS_BLOCK)
#define VALUE "kept"

/* Kinds of xattrs to try: kernels can be built with EROFS but without some of them. */
static const char *const xattr_names[] = { "user.probe", "trusted.probe",
					   "security.probe" };

/* ------------------------------------------------------------- the image --- */

static void fill_data(uint8_t data[DATA_SIZE])
{
	for (size_t i = 0; i < DATA_SIZE; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
}

/* Make a tree with a file of two blocks, which lie on the data device in reverse order: a
 * kernel that ignores the chunk index reads wrong bytes. */
static int fill_tree(struct tree *t)
{
	struct inode *i = tree_inode_new(t, S_IFREG | 0444);
	struct extent *x = tree_alloc(t, 2 * sizeof(*x));
	int rc;

	if (!i || !x)
		return -ENOMEM;
	x[0] = (struct extent){ 0, EROFS_BLOCK, EROFS_BLOCK };
	x[1] = (struct extent){ EROFS_BLOCK, EROFS_BLOCK, 0 };
	i->size = DATA_SIZE;
	i->data = INODE_DATA_EXTENTS;
	i->extents = x;
	i->n_extents = 2;
	rc = tree_link(t, tree_root(t), FILE_NAME, strlen(FILE_NAME), i);
	for (size_t k = 0; rc == 0 && k < ARRAY_SIZE(xattr_names); k++)
		rc = tree_set_xattr(t, i, xattr_names[k], VALUE, strlen(VALUE));
	return rc;
}

static int make_image(void **ret, size_t *ret_len, struct error *err)
{
	const struct erofs_device device = { .size = DATA_SIZE,
					     .tag = "probe" };
	const struct erofs_params params = { .devices = &device,
					     .n_devices = 1 };
	AUTO(tree) t = tree_new();

	if (!t || fill_tree(t) < 0)
		return error_nomem(err);
	return erofs_write(t, &params, ret, ret_len, err);
}

/* ------------------------------------------------------------- the trial --- */

/* The argument of mount_isolated()'s child, which must not allocate memory. */
struct trial {
	void *image; /* for `meta` */
	size_t len;
	char *dir, *meta, *data; /* a folder, and files in it */
	char *path, *file;       /* mount point, and the file in the mount */
	int (*mount)(const char *meta, const char *data, const char *path,
		     struct error *err);
};

static void trial_fini(struct trial *t)
{
	free(t->image);
	free(t->dir);
	free(t->meta);
	free(t->data);
	free(t->path);
	free(t->file);
}

static int trial_init(struct trial *t, const struct datapath_config *cfg,
		      struct error *err)
{
	t->dir = fs_join(cfg->state_dir, "probe");
	t->path = fs_join(cfg->run_dir, "probe");
	if (!t->dir || !t->path)
		return error_nomem(err);
	t->meta = fs_join(t->dir, "meta");
	t->data = fs_join(t->dir, "data");
	t->file = fs_join(t->path, FILE_NAME);
	if (!t->meta || !t->data || !t->file)
		return error_nomem(err);
	return make_image(&t->image, &t->len, err);
}

static int check_xattrs(const char *file, struct error *err)
{
	for (size_t k = 0; k < ARRAY_SIZE(xattr_names); k++) {
		char value[16];
		ssize_t n =
			getxattr(file, xattr_names[k], value, sizeof(value));

		if (n == (ssize_t)strlen(VALUE) &&
		    memcmp(value, VALUE, strlen(VALUE)) == 0)
			continue;
		return error_set(err, ENOTSUP,
				 "EROFS of this kernel loses '%s': file"
				 " capabilities would be lost (needs a kernel"
				 " with CONFIG_EROFS_FS_XATTR and"
				 " CONFIG_EROFS_FS_SECURITY)",
				 xattr_names[k]);
	}
	return 0;
}

static int check_mount(const char *file, struct error *err)
{
	uint8_t want[DATA_SIZE], got[DATA_SIZE];
	AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "open a file of EROFS");
	rc = fs_pread_full(fd, got, sizeof(got), 0);
	if (rc < 0)
		return error_errno(err, -rc, "read a file of EROFS");
	fill_data(want);
	if (memcmp(got, want + EROFS_BLOCK, EROFS_BLOCK) != 0 ||
	    memcmp(got + EROFS_BLOCK, want, EROFS_BLOCK) != 0)
		return error_set(err, EIO,
				 "EROFS of this kernel reads wrong bytes from"
				 " an extra device (needs Linux 5.16)");
	return check_xattrs(file, err);
}

/* Mount `meta` with `data` on `path` through loop devices, which are closed at the end. */
static int mount_files(const char *meta, const char *data, const char *path,
		       struct error *err)
{
	struct mount_options o = MOUNT_OPTIONS_INIT;
	int rc = erofs_add_device(&o, data, err);

	return rc < 0 ? rc : erofs_mount(meta, path, &o, 0, err);
}

static int mount_loops(const char *meta, const char *data, const char *path,
		       struct error *err)
{
	char meta_loop[LOOP_PATH_MAX], data_loop[LOOP_PATH_MAX];
	AUTO_CLOSE int meta_fd = -1;
	AUTO_CLOSE int data_fd = -1;
	int rc = loop_open(meta, meta_loop, &meta_fd, err);

	if (rc == 0)
		rc = loop_open(data, data_loop, &data_fd, err);
	return rc < 0 ? rc : mount_files(meta_loop, data_loop, path, err);
}

/* Write a file; an old one is removed first, since a killed trial may have left it in use by a
 * loop device. */
static int put_file(const char *path, const void *bytes, size_t len,
		    struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int rc;

	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc = fd < 0 ? -errno : fs_write_full(fd, bytes, len);
	return rc < 0 ? error_errno(err, -rc, "write '%s'", path) : 0;
}

static int try_mount(const struct trial *t, struct error *err)
{
	uint8_t bytes[DATA_SIZE];
	int rc = put_file(t->meta, t->image, t->len, err);

	fill_data(bytes);
	if (rc == 0)
		rc = put_file(t->data, bytes, sizeof(bytes), err);
	if (rc == 0)
		rc = t->mount(t->meta, t->data, t->path, err);
	if (rc < 0)
		return rc;
	rc = check_mount(t->file, err);
	if (umount2(t->path, UMOUNT_NOFOLLOW) < 0 && rc == 0)
		rc = error_errno(err, errno, "unmount '%s'", t->path);
	return rc;
}

/* Try a mount; runs in the child of mount_isolated(), one at a time. */
static int try_datapath(void *arg, struct error *err)
{
	const struct trial *t = arg;
	int rc;

	/* Remove what a killed trial left. */
	(void)umount2(t->path, UMOUNT_NOFOLLOW | MNT_DETACH);
	rc = fs_mkdir(t->dir, 0700, err);
	if (rc == 0)
		rc = fs_mkdir(t->path, 0700, err);
	if (rc == 0)
		rc = try_mount(t, err);
	(void)unlink(t->meta);
	(void)unlink(t->data);
	(void)rmdir(t->dir);
	(void)rmdir(t->path);
	return rc;
}

/* --------------------------------------------------------------- the ways --- */

int probe_plain_fuse(const struct datapath_config *cfg, struct error *err)
{
	return session_probe(err);
}

static int probe_erofs(const struct datapath_config *cfg, struct trial *t,
		       struct error *err)
{
	int rc = probe_plain_fuse(cfg, err);

	if (rc == 0)
		rc = fs_mkdir_p(cfg->state_dir, 0700, err);
	if (rc == 0)
		rc = trial_init(t, cfg, err);
	if (rc == 0)
		rc = mount_isolated(cfg->run_dir, MOUNT_LOCK_PROBE,
				    try_datapath, t, err);
	trial_fini(t);
	return rc;
}

int probe_erofs_fuse(const struct datapath_config *cfg, struct error *err)
{
	struct trial t = { .mount = mount_files };

	return probe_erofs(cfg, &t, err);
}

int probe_erofs_loop(const struct datapath_config *cfg, struct error *err)
{
	struct trial t = { .mount = mount_loops };

	return probe_erofs(cfg, &t, err);
}
