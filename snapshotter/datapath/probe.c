// SPDX-License-Identifier: Apache-2.0
/*
 * What this kernel can do, found by doing it with an image of a few KiB; and
 * the cure where it cannot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "common/fs.h"
#include "image/erofs/erofs.h"
#include "snapshotter/datapath/image_session.h"
#include "snapshotter/datapath/kinds.h"
#include "snapshotter/datapath/loops.h"
#include "snapshotter/datapath/mounts.h"

#define FILE_NAME "file"
#define DATA_SIZE ((uint64_t)2 * EROFS_BLOCK)
#define VALUE "kept"

/* Kernels can be built with EROFS but without these. */
static const char *const xattr_names[] = { "user.probe", "trusted.probe",
					   "security.probe" };

/* ------------------------------------------------------------- the image --- */

static void fill_data(uint8_t data[DATA_SIZE])
{
	for (size_t i = 0; i < DATA_SIZE; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
}

/* One file of two blocks, on the data device in the other order: whoever
 * ignores the index reads wrong bytes. */
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

static int make_image(const char *meta, const char *data, struct error *err)
{
	const struct erofs_device device = { .size = DATA_SIZE,
					     .tag = "probe" };
	const struct erofs_params params = { .devices = &device,
					     .n_devices = 1 };
	AUTO(tree) t = tree_new();
	AUTO_FREE void *image = NULL;
	uint8_t bytes[DATA_SIZE];
	size_t len;
	int rc;

	if (!t || fill_tree(t) < 0)
		return error_nomem(err);
	fill_data(bytes);
	rc = erofs_write(t, &params, &image, &len, err);
	if (rc == 0)
		rc = fs_replace_file(meta, image, len, 0600, err);
	if (rc == 0)
		rc = fs_replace_file(data, bytes, sizeof(bytes), 0600, err);
	return rc;
}

/* ------------------------------------------------------------- the trial --- */

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

static int check_mount(const char *path, struct error *err)
{
	AUTO_FREE char *file = fs_join(path, FILE_NAME);
	uint8_t want[DATA_SIZE], got[DATA_SIZE];
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!file)
		return error_nomem(err);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open a file of EROFS: %s",
				 strerror(errno));
	rc = fs_pread_full(fd, got, sizeof(got), 0);
	if (rc < 0)
		return error_set(err, -rc, "read a file of EROFS: %s",
				 strerror(-rc));
	fill_data(want);
	if (memcmp(got, want + EROFS_BLOCK, EROFS_BLOCK) != 0 ||
	    memcmp(got + EROFS_BLOCK, want, EROFS_BLOCK) != 0)
		return error_set(err, EIO,
				 "EROFS of this kernel reads wrong bytes from"
				 " an extra device (needs Linux 5.16)");
	return check_xattrs(file, err);
}

/* Mount `meta` with `data` on `path`, which loops hold until the scope ends. */
static int mount_files(const char *meta, const char *data, const char *path,
		       struct error *err)
{
	char *option = NULL;
	int rc;

	if (asprintf(&option, "device=%s", data) < 0)
		return error_nomem(err);
	rc = erofs_mount(meta, path, option, 0, err);
	free(option);
	return rc;
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

struct trial {
	const char *state_dir, *run_dir;
	int (*mount)(const char *meta, const char *data, const char *path,
		     struct error *err);
};

static int try_in(const struct trial *t, const char *dir, const char *path,
		  struct error *err)
{
	AUTO_FREE char *meta = fs_join(dir, "meta");
	AUTO_FREE char *data = fs_join(dir, "data");
	int rc;

	if (!meta || !data)
		return error_nomem(err);
	rc = make_image(meta, data, err);
	if (rc == 0)
		rc = t->mount(meta, data, path, err);
	if (rc < 0)
		return rc;
	rc = check_mount(path, err);
	if (umount2(path, UMOUNT_NOFOLLOW) < 0 && rc == 0)
		rc = error_set(err, errno, "unmount '%s': %s", path,
			       strerror(errno));
	return rc;
}

/* In the child of mount_isolated(), so alone. */
static int try(void *arg, struct error *err)
{
	const struct trial *t = arg;
	AUTO_FREE char *dir = fs_join(t->state_dir, "probe");
	AUTO_FREE char *path = fs_join(t->run_dir, "probe");
	struct error ignored = ERROR_INIT;
	int rc;

	if (!dir || !path)
		return error_nomem(err);
	/* Of one that was killed. */
	(void)umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH);
	rc = fs_mkdir_p(dir, 0700, err);
	if (rc == 0)
		rc = fs_mkdir_p(path, 0700, err);
	if (rc == 0)
		rc = try_in(t, dir, path, err);
	(void)!fs_remove_tree(dir, &ignored);
	(void)rmdir(path);
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

	t->state_dir = cfg->state_dir;
	t->run_dir = cfg->run_dir;
	return rc < 0 ? rc
		      : mount_isolated(cfg->run_dir, MOUNT_LOCK_PROBE, try, t,
				       err);
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

/* -------------------------------------------------------------- restarting --- */

int datapath_probe_resume(const struct datapath_config *cfg, struct error *err)
{
	int rc;

	if (!cfg->keeper || !fd_keeper_is_durable(cfg->keeper))
		return error_set(err, ENOENT,
				 "nobody keeps descriptors: when bootseerd"
				 " crashes, reads fail until it has mounted"
				 " anew (start it with --hold, or by systemd"
				 " with FileDescriptorStoreMax=16)");
	rc = session_probe_resend(cfg->run_dir, IMAGE_SESSION_FSTYPE, err);
	if (rc == 0)
		return error_set(
			err, ENOTSUP,
			"FUSE of this kernel cannot send requests again"
			" (needs Linux 6.9): when bootseerd crashes,"
			" reads fail until it has mounted anew");
	return rc < 0 ? rc : 0;
}
