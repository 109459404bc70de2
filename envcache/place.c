// SPDX-License-Identifier: Apache-2.0
/*
 * A folder that is not there yet is built in the stage and gets its place whole; in one
 * that is there, each thing gets its place by itself.
 */
#include "envcache/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/buf.h"
#include "envcache/changes.h"
#include "envcache/xattrs.h"

#define FOLDER_NAME 16

void place_node_name(uint32_t node, char ret[PLACE_NODE_NAME])
{
	(void)snprintf(ret, PLACE_NODE_NAME, "n%u", node);
}

/* ---------------------------------------------------------------------- attributes --- */

static void times_of(const struct inode *i, struct timespec ret[2])
{
	ret[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	ret[1] = (struct timespec){ .tv_sec = i->mtime,
				    .tv_nsec = i->mtime_nsec };
}

void place_times(int fd, const struct inode *i)
{
	struct timespec times[2];

	times_of(i, times);
	(void)!futimens(fd, times);
}

/* Of anything that is open, also with O_PATH. */
static int set_owner(int fd, const struct inode *i, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "stat: %s", strerror(errno));
	if ((st.st_uid == i->uid && st.st_gid == i->gid) ||
	    fchownat(fd, "", i->uid, i->gid, AT_EMPTY_PATH) == 0)
		return 0;
	return error_set(err, errno, "give a file to %u:%u: %s%s", i->uid,
			 i->gid, strerror(errno), error_root_hint(errno));
}

int place_attributes(int fd, const struct inode *i, struct error *err)
{
	struct timespec times[2];
	int rc = set_owner(fd, i, err);

	/* A change of the owner takes set-uid bits and capabilities away. */
	if (rc == 0 && fchmod(fd, i->mode & 07777) < 0)
		rc = error_set(err, errno, "chmod: %s", strerror(errno));
	if (rc == 0)
		rc = xattrs_write(fd, i, err);
	if (rc < 0)
		return rc;
	times_of(i, times);
	return futimens(fd, times) < 0
		       ? error_set(err, errno, "set times: %s", strerror(errno))
		       : 0;
}

int place_special(struct stage *s, uint32_t node, const struct inode *i,
		  struct error *err)
{
	char name[PLACE_NODE_NAME];
	struct timespec times[2];
	AUTO_CLOSE int fd = -1;
	int rc;

	place_node_name(node, name);
	rc = S_ISLNK(i->mode) ? symlinkat(i->target, s->new_fd, name)
			      : mknodat(s->new_fd, name, i->mode,
					makedev(i->major, i->minor));
	if (rc < 0)
		return error_set(err, errno, "make a %s: %s",
				 S_ISLNK(i->mode) ? "symlink" : "special file",
				 strerror(errno));
	fd = openat(s->new_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open: %s", strerror(errno));
	rc = set_owner(fd, i, err);
	if (rc == 0 && !S_ISLNK(i->mode) &&
	    fchmodat(s->new_fd, name, i->mode & 07777, 0) < 0)
		rc = error_set(err, errno, "chmod: %s", strerror(errno));
	if (rc == 0)
		rc = xattrs_write(fd, i, err);
	times_of(i, times);
	if (rc == 0 &&
	    utimensat(s->new_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		rc = error_set(err, errno, "set times: %s", strerror(errno));
	return rc;
}

/* -------------------------------------------------------------------------- things --- */

/* One walk over the folders of a target. */
struct place_walk {
	struct placing *p;
	struct stage *stage;
	struct buf path; /* relative to the target, "" of itself */
	bool is_new;     /* in a folder that is not in its place yet */
	uint32_t *n_built;
};

typedef int place_fn(struct place_walk *w, int dir, const struct dentry *d,
		     struct error *err);

static int open_folder(int in, const char *name)
{
	return openat(in, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Was the whole folder built by us? */
static bool is_built(const struct inode *dir)
{
	return dir->user_ptr == (const void *)dir;
}

static int each_child(struct place_walk *w, int fd, const struct inode *dir,
		      place_fn *fn, struct error *err)
{
	size_t len = w->path.len;
	int rc = 0;

	for (const struct dentry *d = dir->children; rc == 0 && d;
	     d = d->next) {
		rc = buf_printf(&w->path, "%s%s", len ? "/" : "", d->name) < 0
			     ? error_nomem(err)
			     : fn(w, fd, d, err);
		w->path.len = len;
		if (w->path.data)
			w->path.data[len] = '\0';
	}
	return rc;
}

/* Make room at a place, and write down that something comes there. */
static int clear_place(struct place_walk *w, int dir, const char *name,
		       struct error *err)
{
	int rc;

	if (w->is_new)
		return 0;
	rc = stage_put_aside(w->stage, dir, name, w->path.data, err);
	return rc < 0 ? rc : stage_log_put(w->stage, w->path.data, err);
}

static int place_node(struct place_walk *w, int dir, const struct dentry *d,
		      struct error *err)
{
	const struct unpack_node *n = &w->p->plan->nodes[d->inode->user];
	const struct stage *from = &w->p->stages[n->target];
	char name[PLACE_NODE_NAME];
	int rc = clear_place(w, dir, d->name, err);

	if (rc < 0)
		return rc;
	place_node_name((uint32_t)d->inode->user, name);
	rc = d->inode->nlink > 1 ? linkat(from->new_fd, name, dir, d->name, 0)
				 : renameat(from->new_fd, name, dir, d->name);
	return rc < 0 ? error_set(err, errno, "place '%.300s': %s",
				  w->path.data, strerror(errno))
		      : 0;
}

static int place_child(struct place_walk *w, int dir, const struct dentry *d,
		       struct error *err);

static int fill_folder(struct place_walk *w, int in, const char *name,
		       const struct inode *dir, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	int rc;

	if (mkdirat(in, name, 0700) < 0)
		return error_set(err, errno, "make '%.300s': %s", w->path.data,
				 strerror(errno));
	fd = open_folder(in, name);
	if (fd < 0)
		return error_set(err, errno, "open '%.300s': %s", w->path.data,
				 strerror(errno));
	rc = each_child(w, fd, dir, place_child, err);
	return rc < 0 ? rc : place_attributes(fd, dir, err);
}

/* A folder that is not there: from the stage, with all that is in it. */
static int build_folder(struct place_walk *w, int dir, const struct dentry *d,
			struct error *err)
{
	struct place_walk inner = *w;
	char name[FOLDER_NAME];
	int rc;

	d->inode->user_ptr = d->inode;
	if (w->is_new)
		return fill_folder(w, dir, d->name, d->inode, err);
	(void)snprintf(name, sizeof(name), "d%u", (*w->n_built)++);
	inner.is_new = true;
	rc = fill_folder(&inner, w->stage->new_fd, name, d->inode, err);
	w->path = inner.path; /* it may have grown */
	if (rc == 0)
		rc = clear_place(w, dir, d->name, err);
	if (rc == 0 && renameat(w->stage->new_fd, name, dir, d->name) < 0)
		rc = error_set(err, errno, "place '%.300s': %s", w->path.data,
			       strerror(errno));
	return rc;
}

/* A folder that is there: its attributes change with the first thing in it. */
static int merge_folder(struct place_walk *w, int fd, const struct inode *dir,
			struct error *err)
{
	int rc = stage_log_attributes(w->stage, fd,
				      w->path.len ? w->path.data : ".", err);

	return rc < 0 ? rc : each_child(w, fd, dir, place_child, err);
}

static int place_child(struct place_walk *w, int dir, const struct dentry *d,
		       struct error *err)
{
	AUTO_CLOSE int fd = -1;

	if (change_is_whiteout(d->inode))
		return 0;
	if (!S_ISDIR(d->inode->mode))
		return place_node(w, dir, d, err);
	if (!w->is_new)
		fd = open_folder(dir, d->name);
	if (!w->is_new && fd < 0 && errno != ENOENT && errno != ENOTDIR &&
	    errno != ELOOP)
		return error_set(err, errno, "open '%.300s': %s", w->path.data,
				 strerror(errno));
	return fd < 0 ? build_folder(w, dir, d, err)
		      : merge_folder(w, fd, d->inode, err);
}

/* ------------------------------------------------------------- deletions, attributes --- */

static int delete_child(struct place_walk *w, int dir, const struct dentry *d,
			struct error *err)
{
	AUTO_CLOSE int fd = -1;

	if (change_is_whiteout(d->inode))
		return stage_put_aside(w->stage, dir, d->name, w->path.data,
				       err);
	if (!S_ISDIR(d->inode->mode) || is_built(d->inode))
		return 0;
	fd = open_folder(dir, d->name);
	return fd < 0 ? error_set(err, errno, "open '%.300s': %s", w->path.data,
				  strerror(errno))
		      : each_child(w, fd, d->inode, delete_child, err);
}

static int set_folder(struct place_walk *w, int fd, const struct inode *dir,
		      struct error *err);

static int attributes_child(struct place_walk *w, int dir,
			    const struct dentry *d, struct error *err)
{
	AUTO_CLOSE int fd = -1;

	if (!S_ISDIR(d->inode->mode) || is_built(d->inode))
		return 0;
	fd = open_folder(dir, d->name);
	return fd < 0 ? error_set(err, errno, "open '%.300s': %s", w->path.data,
				  strerror(errno))
		      : set_folder(w, fd, d->inode, err);
}

/* The inner ones first: nothing changes in a folder after it has its time. */
static int set_folder(struct place_walk *w, int fd, const struct inode *dir,
		      struct error *err)
{
	int rc = each_child(w, fd, dir, attributes_child, err);

	return rc < 0 ? rc : place_attributes(fd, dir, err);
}

/* ------------------------------------------------------------------------- interface --- */

enum place_pass { PASS_THINGS, PASS_DELETIONS, PASS_ATTRIBUTES };

static int walk_target(struct placing *p, size_t target, enum place_pass pass,
		       struct error *err)
{
	uint32_t n_built = 0;
	struct place_walk w = { .p = p,
				.stage = &p->stages[target],
				.n_built = &n_built };
	const struct inode *dir = p->plan->folders[target];
	int rc;

	switch (pass) {
	case PASS_THINGS:
		rc = merge_folder(&w, w.stage->root, dir, err);
		break;
	case PASS_DELETIONS:
		rc = each_child(&w, w.stage->root, dir, delete_child, err);
		break;
	default:
		rc = set_folder(&w, w.stage->root, dir, err);
	}
	buf_fini(&w.path);
	return rc;
}

int place_things(struct placing *p, size_t target, struct error *err)
{
	return walk_target(p, target, PASS_THINGS, err);
}

int place_deletions(struct placing *p, size_t target, struct error *err)
{
	return walk_target(p, target, PASS_DELETIONS, err);
}

int place_folder_attributes(struct placing *p, size_t target, struct error *err)
{
	return walk_target(p, target, PASS_ATTRIBUTES, err);
}
