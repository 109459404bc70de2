// SPDX-License-Identifier: Apache-2.0
/*
 * Sets attributes in the order data, owner, xattrs, mode, times: the kernel removes set-id bits
 * and capabilities when the owner is set or data is written, and an ACL changes the mode.
 */
#include "snapshotter/node/layers/unpack_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define XATTR_LIST_BYTES 65536 /* Linux' XATTR_LIST_MAX */

/* Is this xattr set by this machine (on every file) or by overlayfs, so that the layer does not
 * decide about it? */
static bool is_machines_own(const char *name)
{
	static const char *const own[] = {
		"security.selinux",
		"security.SMACK64",
		"security.ima",
		"security.evm",
	};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strcmp(name, own[i]) == 0)
			return true;
	return strncmp(name, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) == 0;
}

/* Remove all xattrs: a new file inherits its parent's default ACL, and a folder without an
 * entry may have copied those of the layers below, but the header has none of them. */
static int clear_xattrs(const char *path, struct error *err)
{
	ssize_t n = listxattr(path, NULL, 0);
	AUTO_FREE char *names = NULL;

	if (n == 0 || (n < 0 && errno == ENOTSUP))
		return 0;
	names = malloc(XATTR_LIST_BYTES);
	if (!names)
		return error_nomem(err);
	n = listxattr(path, names, XATTR_LIST_BYTES);
	if (n < 0)
		return error_errno(err, errno, "list xattrs");
	for (const char *at = names; at < names + n; at += strlen(at) + 1)
		if (!is_machines_own(at) && removexattr(path, at) < 0 &&
		    errno != ENODATA)
			return error_errno(err, errno, "remove %s", at);
	return 0;
}

static int set_xattrs(const char *path, const struct layer_entry *e,
		      mode_t mode, struct error *err)
{
	for (const struct xattr *x = e->xattrs; x; x = x->next) {
		if (strncmp(x->name, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)) ==
		    0)
			continue;
		/* user.* is allowed on regular files and folders only, and a hard link's header
		 * does not say what it links to. */
		if (e->hard && !S_ISREG(mode) &&
		    strncmp(x->name, "user.", 5) == 0)
			continue;
		if (setxattr(path, x->name, x->value, x->size, 0) < 0 &&
		    errno != ENOTSUP)
			return error_errno(err, errno, "set %s", x->name);
	}
	return 0;
}

int unpack_set_attributes(int fd, const struct layer_entry *e,
			  struct error *err)
{
	const struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = e->mtime, .tv_nsec = e->mtime_nsec },
	};
	char path[32];
	struct stat st;
	int rc = 0;

	/* The path leads to the file itself, even if it is a symlink. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "stat");
	if (fchownat(fd, "", e->uid, e->gid, AT_EMPTY_PATH) < 0)
		return error_errno(err, errno, "chown");
	if (!e->hard)
		rc = clear_xattrs(path, err);
	if (rc == 0)
		rc = set_xattrs(path, e, st.st_mode, err);
	if (rc == 0 && !S_ISLNK(st.st_mode) && chmod(path, e->mode & 07777) < 0)
		rc = error_errno(err, errno, "chmod");
	if (rc == 0 && utimensat(fd, "", times, AT_EMPTY_PATH) < 0)
		rc = error_errno(err, errno, "set time");
	return rc;
}

int unpack_get_time(int folder, struct timespec *ret, struct error *err)
{
	struct stat st;

	if (fstat(folder, &st) < 0)
		return error_errno(err, errno, "stat its folder");
	*ret = st.st_mtim;
	return 0;
}

int unpack_set_time(int folder, const struct timespec *mtime, struct error *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, *mtime };

	if (futimens(folder, times) < 0)
		return error_errno(err, errno, "set the time of its folder");
	return 0;
}

bool unpack_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

int unpack_is_opaque(int folder, bool *ret, struct error *err)
{
	char value = '\0';
	ssize_t n = fgetxattr(folder, OPAQUE_XATTR, &value, 1);

	/* ERANGE: a longer value, which overlayfs never writes. */
	if (n < 0 && errno != ENODATA && errno != ENOTSUP && errno != ERANGE)
		return error_errno(err, errno, "read %s", OPAQUE_XATTR);
	*ret = n == 1 && value == 'y';
	return 0;
}

int unpack_set_opaque(struct unpack *u, int folder, struct error *err)
{
	/* An opaque folder changes what the lower layers show, so the cached view is void. */
	u->view.is_valid = false;
	if (fsetxattr(folder, OPAQUE_XATTR, "y", 1, 0) < 0)
		return error_errno(err, errno, "set %s", OPAQUE_XATTR);
	return 0;
}
