// SPDX-License-Identifier: Apache-2.0
#include "envcache/xattrs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define LINK_MAX_LEN 32

static bool is_machine_attribute(const char *name)
{
	static const char *const theirs[] = { "security.selinux",
					      "security.ima", "security.evm",
					      "system.nfs4_acl" };

	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		if (strcmp(theirs[i], name) == 0)
			return true;
	return false;
}

/* Is it an attribute of overlayfs?  An overlay over the snapshot would interpret it. */
static bool is_overlay_attribute(const char *name)
{
	static const char prefix[] = "trusted.overlay.";

	return strncmp(name, prefix, sizeof(prefix) - 1) == 0;
}

/* Access by this link, which also works for O_PATH descriptors, such as of symlinks. */
static void get_fd_link(int fd, char ret[LINK_MAX_LEN])
{
	(void)snprintf(ret, LINK_MAX_LEN, "/proc/self/fd/%d", fd);
}

static int read_one(const char *link, const char *name, char *value,
		    struct tree *t, struct inode *i, struct error *err)
{
	ssize_t n = getxattr(link, name, value, TREE_XATTR_VALUE_MAX);
	int rc;

	if (n < 0)
		return error_set(err, errno == ENODATA ? ESTALE : errno,
				 "attribute %s: %s", name, strerror(errno));
	rc = tree_set_xattr(t, i, name, value, (size_t)n);
	return rc < 0 ? error_errno(err, -rc, "attribute %s", name) : 0;
}

int xattrs_read(int fd, struct tree *t, struct inode *i, struct error *err)
{
	AUTO_FREE char *names = NULL;
	AUTO_FREE char *value = NULL;
	char link[LINK_MAX_LEN];
	ssize_t len;
	int rc = 0;

	get_fd_link(fd, link);
	len = listxattr(link, NULL, 0);
	if (len == 0 || (len < 0 && errno == EOPNOTSUPP))
		return 0;
	if (len < 0)
		return error_errno(err, errno, "attributes");
	names = malloc((size_t)len);
	value = malloc(TREE_XATTR_VALUE_MAX);
	if (!names || !value)
		return error_nomem(err);
	len = listxattr(link, names, (size_t)len);
	if (len < 0)
		return error_set(err, errno == ERANGE ? ESTALE : errno,
				 "attributes: %s", strerror(errno));
	for (const char *p = names; rc == 0 && p < names + len;
	     p += strlen(p) + 1)
		if (is_overlay_attribute(p))
			rc = error_set(err, ENOTSUP,
				       "attribute %s, which only overlayfs may "
				       "set",
				       p);
		else if (!is_machine_attribute(p))
			rc = read_one(link, p, value, t, i, err);
	return rc;
}

int xattrs_write(int fd, const struct inode *i, struct error *err)
{
	char link[LINK_MAX_LEN];

	get_fd_link(fd, link);
	for (const struct xattr *x = i->xattrs; x; x = x->next)
		if (setxattr(link, x->name, x->value, x->size, 0) < 0)
			return error_errno(err, errno, "attribute %s", x->name);
	return 0;
}
