// SPDX-License-Identifier: Apache-2.0
#include "image/closure/rootfs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 40u
#define STEPS_MAX 1024u /* names looked up for one path, links included */

/* The state of resolving one path. */
struct path_walk {
	const struct erofs_image *img;
	struct rootfs_file *at; /* the file reached so far */
	size_t at_len;
	char todo[2 * ROOTFS_PATH_MAX + 2];
	unsigned int n_links;
	struct error *err;
};

static int fail_walk(struct path_walk *w, const char *why)
{
	return error_set(w->err, ENOENT, "path in the image: %s", why);
}

static int enter_root(struct path_walk *w)
{
	w->at_len = 0;
	w->at->path[0] = '\0';
	return erofs_inode(w->img, w->img->root_nid, &w->at->inode, w->err);
}

/* Go to the parent folder of the file reached so far; its path has no links. */
static int leave_folder(struct path_walk *w)
{
	char path[ROOTFS_PATH_MAX + 1];
	const char *name;
	uint64_t nid;
	size_t len;
	int rc;

	while (w->at_len && w->at->path[w->at_len - 1] != '/')
		w->at_len--;
	w->at_len -= w->at_len > 0;
	w->at->path[w->at_len] = '\0';
	memcpy(path, w->at->path, w->at_len + 1);
	rc = erofs_inode(w->img, w->img->root_nid, &w->at->inode, w->err);
	for (name = path; rc == 0 && *name; name += len) {
		name += *name == '/';
		len = strcspn(name, "/");
		w->at->n_steps++;
		rc = erofs_lookup(w->img, &w->at->inode, name, len, &nid,
				  w->err);
		if (rc == 0)
			rc = erofs_inode(w->img, nid, &w->at->inode, w->err);
	}
	return rc;
}

static int follow_link(struct path_walk *w, const struct erofs_inode *link,
		       const char *rest)
{
	char next[sizeof(w->todo)];
	const char *target;
	size_t len, rest_len = strlen(rest);
	int rc = erofs_readlink(w->img, link, &target, &len, w->err);

	if (rc < 0)
		return rc;
	if (++w->n_links > LINKS_MAX)
		return fail_walk(w, "too many links");
	if (len > ROOTFS_PATH_MAX || len + 1 + rest_len >= sizeof(next))
		return fail_walk(w, "a link is too long");
	memcpy(next, target, len);
	next[len] = '/';
	memcpy(next + len + 1, rest, rest_len + 1);
	memcpy(w->todo, next, len + 1 + rest_len + 1);
	return len && target[0] == '/' ? enter_root(w) : 0;
}

static int enter_child(struct path_walk *w, const char *name, size_t len,
		       const char *rest)
{
	struct erofs_inode child;
	uint64_t nid;
	int rc;

	if (!S_ISDIR(w->at->inode.mode))
		return fail_walk(w, "no folder");
	rc = erofs_lookup(w->img, &w->at->inode, name, len, &nid, w->err);
	if (rc == 0)
		rc = erofs_inode(w->img, nid, &child, w->err);
	if (rc < 0)
		return rc;
	if (S_ISLNK(child.mode))
		return follow_link(w, &child, rest);
	if (w->at_len + 1 + len > ROOTFS_PATH_MAX)
		return fail_walk(w, "too long");
	w->at->path[w->at_len++] = '/';
	memcpy(w->at->path + w->at_len, name, len);
	w->at_len += len;
	w->at->path[w->at_len] = '\0';
	w->at->inode = child;
	memmove(w->todo, rest, strlen(rest) + 1);
	return 0;
}

static int walk_step(struct path_walk *w, bool *ret_done)
{
	char name[TREE_NAME_MAX];
	const char *from = w->todo + strspn(w->todo, "/");
	size_t len = strcspn(from, "/");
	const char *rest = from + len;

	*ret_done = len == 0;
	if (len == 0)
		return 0;
	if (++w->at->n_steps > STEPS_MAX)
		return fail_walk(w, "too many names");
	if (len > TREE_NAME_MAX)
		return fail_walk(w, "a name is too long");
	memcpy(name, from, len);
	if (len == 1 && name[0] == '.') {
		memmove(w->todo, rest, strlen(rest) + 1);
		return 0;
	}
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		memmove(w->todo, rest, strlen(rest) + 1);
		return leave_folder(w);
	}
	return enter_child(w, name, len, rest);
}

int rootfs_find(const struct erofs_image *img, const char *path,
		struct rootfs_file *ret, struct error *err)
{
	struct path_walk w = { .img = img, .at = ret, .err = err };
	bool is_done = false;
	int rc;

	ret->n_steps = 0;
	if (strlen(path) > ROOTFS_PATH_MAX)
		return fail_walk(&w, "too long");
	memcpy(w.todo, path, strlen(path) + 1);
	rc = enter_root(&w);
	while (rc == 0 && !is_done)
		rc = walk_step(&w, &is_done);
	return rc;
}
