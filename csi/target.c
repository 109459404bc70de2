// SPDX-License-Identifier: Apache-2.0
#include "csi/target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fs.h"

#define VOLUMES "volumes/kubernetes.io~csi"
#define LAYERS_MAX 64 /* mounts on top of each other */
#define NAME_PART_MAX 253

static bool is_name(const char *s, size_t len, const char *more)
{
	if (len < 1 || len > NAME_PART_MAX || s[0] == '.')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= '0' && s[i] <= '9') &&
		    !(s[i] >= 'a' && s[i] <= 'z') &&
		    !(s[i] >= 'A' && s[i] <= 'Z') && !strchr(more, s[i]))
			return false;
	return true;
}

/* Advance *p over `text`; false: it is not there. */
static bool skip_text(const char **p, const char *text)
{
	size_t len = strlen(text);

	if (strncmp(*p, text, len) != 0)
		return false;
	*p += len;
	return true;
}

static int fill_names(const char *uid, size_t uid_len, const char *volume,
		      size_t volume_len, struct target *t, struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct digest d;

	if (!is_name(uid, uid_len, "-_.") || uid_len >= sizeof(t->uid) ||
	    !is_name(volume, volume_len, "-_."))
		return -EINVAL;
	(void)snprintf(t->uid, sizeof(t->uid), "%.*s", (int)uid_len, uid);
	(void)snprintf(t->name, sizeof(t->name), "%.*s/%.*s", (int)uid_len, uid,
		       (int)volume_len, volume);
	if (digest_of(t->name, strlen(t->name), &d) < 0)
		return error_nomem(err);
	digest_format(&d, text);
	(void)snprintf(t->id, sizeof(t->id), "%.16s", strchr(text, ':') + 1);
	return 0;
}

static int take_path(const char *kubelet_dir, const char *path,
		     struct target *t, struct error *err)
{
	const char *p = path, *uid, *volume;
	size_t uid_len, volume_len;

	if (!skip_text(&p, kubelet_dir) || !skip_text(&p, "/pods/"))
		return -EINVAL;
	uid = p;
	uid_len = strcspn(p, "/");
	p += uid_len;
	if (!skip_text(&p, "/" VOLUMES "/"))
		return -EINVAL;
	volume = p;
	volume_len = strcspn(p, "/");
	p += volume_len;
	if (strcmp(p, "/mount") != 0)
		return -EINVAL;
	return fill_names(uid, uid_len, volume, volume_len, t, err);
}

static int open_parent(const char *kubelet_dir, struct target *t,
		       struct error *err)
{
	AUTO_CLOSE int root =
		open(kubelet_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[TARGET_NAME_MAX + 64];

	if (root < 0)
		return error_set(err, errno == ENOENT ? EINVAL : errno,
				 "--kubelet-dir '%.200s': %s", kubelet_dir,
				 strerror(errno));
	(void)snprintf(path, sizeof(path), "pods/%s/" VOLUMES "%s", t->uid,
		       strchr(t->name, '/'));
	t->parent = fs_openat2(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (t->parent >= 0)
		return 0;
	return error_set(err, errno == ELOOP ? EINVAL : errno,
			 "'%.120s/%.300s': %s", kubelet_dir, path,
			 errno == ELOOP ? "a link is in it, and is not followed"
					: strerror(errno));
}

int target_open(const char *kubelet_dir, const char *path, struct target *ret,
		struct error *err)
{
	int rc;

	*ret = (struct target){ .parent = -1 };
	rc = take_path(kubelet_dir, path, ret, err);
	if (rc == -EINVAL)
		return error_set(
			err, EINVAL,
			"target_path '%.200s' is not %.100s/pods/UID/" VOLUMES
			"/NAME/mount: --kubelet-dir has to be "
			"the kubelet's --root-dir",
			path, kubelet_dir);
	return rc < 0 ? rc : open_parent(kubelet_dir, ret, err);
}

int target_open_name(const char *kubelet_dir, const char *name,
		     struct target *ret, struct error *err)
{
	size_t len = strcspn(name, "/");
	int rc;

	*ret = (struct target){ .parent = -1 };
	rc = fill_names(name, len, name + len + (name[len] == '/'),
			name[len] ? strlen(name + len + 1) : 0, ret, err);
	if (rc == -EINVAL)
		return error_set(err, EINVAL, "'%.100s' names no volume", name);
	return rc < 0 ? rc : open_parent(kubelet_dir, ret, err);
}

void target_close(struct target *t)
{
	fd_close(t->parent);
	t->parent = -1;
}

/* Open the root of the topmost mount there, or the folder.  Sends no request to the file
 * system, whose server may be dead. */
static int open_top(const struct target *t)
{
	return fs_openat2(t->parent, "mount", O_PATH | O_DIRECTORY | O_NOFOLLOW,
			  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Is it the root of a mount?  1: yes. */
static int is_mount_root(int fd, const struct target *t, struct error *err)
{
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &sx) < 0)
		return error_errno(err, errno, "what is mounted of volume %s",
				   t->name);
	if (!(sx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		return error_set(err, ENOSYS,
				 "this kernel does not say what is mounted: "
				 "volumes want Linux 5.12");
	return (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int target_is_mounted(const struct target *t, struct error *err)
{
	AUTO_CLOSE int fd = open_top(t);

	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : error_errno(err, errno, "'mount' of volume %s",
					     t->name);
	return is_mount_root(fd, t, err);
}

int target_shows(const struct target *t, const char *source, struct error *err)
{
	AUTO_CLOSE int fd = open_top(t);
	struct statx at, want;

	if (fd < 0 ||
	    statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &at) < 0 ||
	    statx(AT_FDCWD, source, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, 0,
		  &want) < 0)
		return error_errno(err, errno, "what is at volume %s", t->name);
	return at.stx_dev_major == want.stx_dev_major &&
	       at.stx_dev_minor == want.stx_dev_minor;
}

static int attach_tree(const struct target *t, int tree, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int is_mounted;

	if (mkdirat(t->parent, "mount", 0750) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make the folder of volume %s",
				   t->name);
	is_mounted = target_is_mounted(t, err);
	if (is_mounted < 0)
		return is_mounted;
	if (is_mounted)
		return error_set(err, EBUSY,
				 "something is mounted at volume %s already",
				 t->name);
	fd = open_top(t);
	if (fd < 0 ||
	    move_mount(tree, "", fd, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return error_errno(err, errno, "mount volume %s", t->name);
	return 0;
}

/* Clone the mount at `source`.  Fails if nothing is mounted there any more: the clone would
 * show a folder of the node. */
static int clone_mount(const struct target *t, const char *source,
		       struct error *err)
{
	AUTO_CLOSE int fd =
		open(source, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int tree, rc;

	if (fd < 0)
		return error_errno(err, errno, "'%.200s'", source);
	rc = is_mount_root(fd, t, err);
	if (rc == 0)
		return error_set(err, ESTALE,
				 "nothing is mounted at '%.200s' any more: the "
				 "kubelet asks again",
				 source);
	if (rc < 0)
		return rc;
	tree = open_tree(fd, "",
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	return tree >= 0 ? tree
			 : error_errno(err, errno, "bind '%.200s'", source);
}

int target_mount(const struct target *t, const char *source,
		 uint64_t attributes, struct error *err)
{
	AUTO_CLOSE int tree = clone_mount(t, source, err);
	struct mount_attr attr = { .attr_set = attributes };

	if (tree < 0)
		return tree;
	/* The kernel takes a new atime setting only if the old one is cleared. */
	if (attributes & MOUNT_ATTR_NOATIME)
		attr.attr_clr = MOUNT_ATTR__ATIME;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return error_set(err, errno, "mount options of volume %s: %s%s",
				 t->name, strerror(errno),
				 errno == ENOSYS ? ": volumes want Linux 5.12"
						 : "");
	return attach_tree(t, tree, err);
}

struct target_path target_path(const struct target *t)
{
	struct target_path p;

	(void)snprintf(p.text, sizeof(p.text), "/proc/self/fd/%d/mount",
		       t->parent);
	return p;
}

int target_unmount(const struct target *t, struct error *err)
{
	struct target_path path = target_path(t);
	int rc = target_is_mounted(t, err);

	/* Detach the mount: the pod's containers have ended when the kubelet calls.  A process
	 * of the node that still uses it keeps a nameless mount, and does not delay the pod's
	 * end. */
	for (int i = 0; rc == 1 && i < LAYERS_MAX; i++) {
		if (umount2(path.text, UMOUNT_NOFOLLOW | MNT_DETACH) < 0)
			return error_errno(err, errno, "unmount volume %s",
					   t->name);
		rc = target_is_mounted(t, err);
	}
	if (rc == 1)
		return error_set(err, EBUSY, "over %d mounts lie on volume %s",
				 LAYERS_MAX, t->name);
	if (rc == 0 && unlinkat(t->parent, "mount", AT_REMOVEDIR) < 0 &&
	    errno != ENOENT)
		rc = error_errno(err, errno, "remove the folder of volume %s",
				 t->name);
	return rc;
}
