// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer image mount` and `umount`: use an image without containerd. bootseerd mounts the image
 * once; DIR is a bind mount of that, made here.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "cli/command.h"
#include "cli/image.h"
#include "cli/mount_holders.h"
#include "cli/node_socket.h"
#include "common/text.h"

struct mount_config {
	struct node_options node;
	bool plain_http;
};

static const struct option_spec mount_options[] = {
	IMAGE_PLAIN_HTTP_OPTION(offsetof(struct mount_config, plain_http)),
	NODE_OPTIONS(struct mount_config),
	{ .key = NULL },
};

static const struct option_spec umount_options[] = {
	NODE_OPTIONS(struct mount_config),
	{ .key = NULL },
};

/* Get the folder's absolute path, and the user name under which bootseerd keeps the image for it;
 * `cure` is for the message if the folder does not exist. */
static int resolve_mount_user(const char *dir, const char *cure,
			      char path[PATH_MAX], char **ret,
			      struct error *err)
{
	struct stat st;

	if (!realpath(dir, path))
		return error_set(err, errno, "'%s': %s%s", dir, strerror(errno),
				 errno == ENOENT ? cure : "");
	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR,
				 "'%s': Not a directory: name a folder", path);
	if (asprintf(ret, "dir:%s", path) < 0) {
		*ret = NULL;
		return error_nomem(err);
	}
	return 0;
}

/* Is a file system mounted at `dir`, and is it the one of `path`? */
static int is_mounted(const char *dir, const char *path, bool *ret_same,
		      struct error *err)
{
	char up[PATH_MAX + 4];
	struct stat at, above, want;

	*ret_same = false;
	snprintf(up, sizeof(up), "%s/..", dir);
	if (stat(dir, &at) < 0 || stat(up, &above) < 0)
		return error_errno(err, errno, "'%s'", dir);
	if (!S_ISDIR(at.st_mode))
		return error_set(err, ENOTDIR, "'%s' is no folder", dir);
	if (path && stat(path, &want) == 0)
		*ret_same =
			want.st_dev == at.st_dev && want.st_ino == at.st_ino;
	return at.st_dev != above.st_dev;
}

static int bind_image_at(const char *path, const char *dir, struct error *err)
{
	bool same;
	int rc = is_mounted(dir, path, &same, err);

	if (rc < 0)
		return rc;
	if (rc > 0 && !same)
		return error_set(err, EBUSY,
				 "something else is mounted at '%s'", dir);
	if (!same && mount(path, dir, NULL, MS_BIND, NULL) < 0)
		return error_set(err, errno, "mount at '%s': %s%s", dir,
				 strerror(errno), error_root_hint(errno));
	/* Set the flags on the bind mount too: bootseerd's mount may have been made without
	 * them. */
	if (mount(NULL, dir, NULL,
		  MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV |
			  MS_NOATIME,
		  NULL) < 0) {
		rc = error_errno(err, errno, "mount options of '%s'", dir);
		if (!same)
			(void)umount2(dir, UMOUNT_NOFOLLOW | MNT_DETACH);
		return rc;
	}
	return 0;
}

static int mount_image_at(struct node_client *c,
			  const struct node_image_query *q, const char *dir,
			  struct error *err)
{
	AUTO_FINI(node_image) image = { .chain_ids = NULL };
	AUTO_FREE char *user = NULL;
	AUTO_FREE char *path = NULL;
	char where[PATH_MAX];
	struct error ignored;
	int rc = resolve_mount_user(dir,
				    ": make the folder first, or mend the path",
				    where, &user, err);

	if (rc == 0)
		rc = node_image_prepare(c, q, &image, err);
	if (rc < 0)
		return rc;
	if (image.warning) {
		text_make_printable(image.warning);
		fprintf(stderr,
			"bootseer: warning: '%s' may name another image by "
			"now: %s\n",
			q->ref, image.warning);
	}
	rc = node_image_mount(c, &image.id, user, false, &path, NULL, err);
	if (rc == 0) {
		rc = bind_image_at(path, where, err);
		if (rc < 0 &&
		    node_image_umount(c, &image.id, user, &ignored) < 0)
			fprintf(stderr, "bootseer: %s\n", ignored.msg);
	}
	return rc;
}

static int run_mount(const void *config, char **args, struct error *err)
{
	const struct mount_config *cfg = config;
	const struct node_image_query q = {
		.ref = args[0],
		.plain_http = cfg->plain_http,
	};
	struct node_client *c = NULL;
	int rc = node_connect(&cfg->node, &c, err);

	if (rc == 0)
		rc = mount_image_at(c, &q, args[1], err);
	node_client_close(c);
	return rc;
}

/* Tell bootseerd that the folder no longer uses the image. */
static int release_folder(struct node_client *c, const char *user,
			  bool *ret_was, struct error *err)
{
	json_t *root = json_pack("{s:s}", "user", user);
	AUTO_FREE char *params = root ? json_dumps(root, 0) : NULL;
	AUTO_FREE char *reply = NULL;
	int released = 0, rc;

	json_decref(root);
	if (!params)
		return error_set(err, EINVAL, "'%s' is not UTF-8", user);
	rc = node_call(c, "image.umount", params, &reply, err);
	if (rc < 0)
		return rc;
	root = json_loads(reply, 0, NULL);
	(void)json_unpack(root, "{s:i}", "released", &released);
	json_decref(root);
	*ret_was = released > 0;
	return 0;
}

/* May the mount be one of ours?  File systems of other types are not. */
static bool may_be_image(const char *dir)
{
	struct statfs st;

	return statfs(dir, &st) < 0 || st.f_type == EROFS_SUPER_MAGIC_V1 ||
	       st.f_type == FUSE_SUPER_MAGIC;
}

static int refuse_unmount(const char *dir, int code, struct error *err)
{
	AUTO_BUF who = BUF_INIT;

	if (code != EBUSY)
		return error_set(err, code, "unmount '%s': %s%s", dir,
				 strerror(code), error_root_hint(code));
	mount_holders(dir, &who);
	if (!who.len)
		return error_set(
			err, code,
			"unmount '%s': in use by a process that is not "
			"seen from here: try again, as root and "
			"outside of containers",
			dir);
	return error_set(err, code,
			 "unmount '%.64s': in use by %.150s: end that first",
			 dir, who.data);
}

static int umount_at(struct node_client *c, const char *dir, struct error *err)
{
	AUTO_FREE char *user = NULL;
	char where[PATH_MAX];
	bool was = false, unmounted;
	int rc = resolve_mount_user(
		dir, ": mend the path: 'findmnt' lists what is mounted", where,
		&user, err);

	if (rc < 0)
		return rc;
	errno = EINVAL;
	unmounted = may_be_image(where) && umount2(where, UMOUNT_NOFOLLOW) == 0;
	if (!unmounted && errno != EINVAL)
		return refuse_unmount(where, errno, err);
	rc = release_folder(c, user, &was, err);
	if (rc == 0 && !was && !unmounted)
		rc = error_set(err, EINVAL,
			       "no image is mounted at '%s': 'findmnt' lists "
			       "what is",
			       where);
	return rc;
}

static int run_umount(const void *config, char **args, struct error *err)
{
	const struct mount_config *cfg = config;
	struct node_client *c = NULL;
	int rc = node_connect(&cfg->node, &c, err);

	if (rc == 0)
		rc = umount_at(c, args[0], err);
	node_client_close(c);
	return rc;
}

const struct command image_mount_command = {
	.brief = "Mount an image; its blocks come when they are read",
	.program = {
		.name = "bootseer image mount",
		.usage = "[OPTIONS] REF DIR",
		.summary = "Mount a converted image; its blocks come when they "
			   "are read.",
		.options = mount_options,
		.examples = "  bootseer image mount registry.example/ml:1 /mnt",
		.see_also = "bootseerd(8)",
		.min_args = 2,
	},
	.config_size = sizeof(struct mount_config),
	.check = image_check_first,
	.run = run_mount,
};

const struct command image_umount_command = {
	.brief = "Unmount what 'image mount' mounted",
	.program = {
		.name = "bootseer image umount",
		.usage = "[OPTIONS] DIR",
		.summary = "Unmount what 'bootseer image mount' mounted.",
		.options = umount_options,
		.see_also = "bootseerd(8)",
		.min_args = 1,
	},
	.config_size = sizeof(struct mount_config),
	.run = run_umount,
};
