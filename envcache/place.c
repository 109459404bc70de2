// SPDX-License-Identifier: Apache-2.0
/*
 * Move unpacked files to their places.  A folder that does not exist yet is built completely in
 * the stage and placed by one rename; in an existing folder each entry is placed separately.
 * `user_ptr` of a folder is its path in the stage, or NULL if it exists in the target.
 */
#include "envcache/place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/buf.h"
#include "common/fs.h"
#include "envcache/changes.h"
#include "envcache/merge.h"
#include "envcache/xattrs.h"

/* A folder whose path in the stage would be longer than this is built at the stage's top and moved
 * into its parent later: no path may reach PATH_MAX. */
#define BUILT_PATH_MAX 3500u

/* ----------------------------------------------------------------------- the stage --- */

static const char *built_path(const struct inode *dir)
{
	return dir->user_ptr;
}

/* Is the folder placed by a rename of its own? */
static bool is_placed_by_rename(const struct inode *dir)
{
	return built_path(dir) && !strchr(built_path(dir), '/');
}

void place_node_path(const struct unpack_plan *plan, uint32_t node,
		     char ret[PLACE_PATH_MAX])
{
	const struct unpack_node *n = &plan->nodes[node];
	const char *dir = built_path(n->name->parent);

	/* A file with several names (hard links) is linked to each of them later. */
	if (dir && n->inode->nlink == 1)
		(void)snprintf(ret, PLACE_PATH_MAX, "%s/%s", dir,
			       n->name->name);
	else
		(void)snprintf(ret, PLACE_PATH_MAX, "n%u", node);
}

/* ---------------------------------------------------------------------- attributes --- */

static void get_inode_times(const struct inode *i, struct timespec ret[2])
{
	ret[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	ret[1] = (struct timespec){ .tv_sec = i->mtime,
				    .tv_nsec = i->mtime_nsec };
}

void place_times(int fd, const struct inode *i)
{
	struct timespec times[2];

	get_inode_times(i, times);
	(void)!futimens(fd, times);
}

/* Set the owner of a file that is open, maybe by O_PATH, and has the state `st`. */
static int set_owner(int fd, const struct stat *st, const struct inode *i,
		     struct error *err)
{
	if ((st->st_uid == i->uid && st->st_gid == i->gid) ||
	    fchownat(fd, "", i->uid, i->gid, AT_EMPTY_PATH) == 0)
		return 0;
	return error_set(err, errno, "give a file to %u:%u: %s%s", i->uid,
			 i->gid, strerror(errno), error_root_hint(errno));
}

/* Unnecessary system calls are avoided here, as there may be many thousands of files. */
int place_attributes(int fd, const struct inode *i, struct error *err)
{
	struct timespec times[2];
	bool is_owned;
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "stat");
	if (S_ISREG(i->mode) && (uint64_t)st.st_size != i->size &&
	    ftruncate(fd, (off_t)i->size) < 0)
		return fs_refuse_write(fd, -errno, i->size, "", err);
	is_owned = st.st_uid == i->uid && st.st_gid == i->gid;
	rc = set_owner(fd, &st, i, err);
	/* A change of the owner clears set-uid bits and capabilities. */
	if (rc == 0 &&
	    (!is_owned || (st.st_mode & 07777) != (i->mode & 07777)) &&
	    fchmod(fd, i->mode & 07777) < 0)
		rc = error_errno(err, errno, "chmod");
	if (rc == 0 && i->xattrs)
		rc = xattrs_write(fd, i, err);
	if (rc < 0)
		return rc;
	get_inode_times(i, times);
	return futimens(fd, times) < 0 ? error_errno(err, errno, "set times")
				       : 0;
}

int place_special(const struct stage *s, const char *path,
		  const struct inode *i, struct error *err)
{
	struct timespec times[2];
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc = S_ISLNK(i->mode) ? symlinkat(i->target, s->new_fd, path)
				  : mknodat(s->new_fd, path, i->mode,
					    makedev(i->major, i->minor));

	if (rc < 0)
		return error_errno(err, errno, "make a %s",
				   S_ISLNK(i->mode) ? "symlink"
						    : "special file");
	fd = openat(s->new_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open");
	rc = set_owner(fd, &st, i, err);
	if (rc == 0 && !S_ISLNK(i->mode) &&
	    fchmodat(s->new_fd, path, i->mode & 07777, 0) < 0)
		rc = error_errno(err, errno, "chmod");
	if (rc == 0)
		rc = xattrs_write(fd, i, err);
	get_inode_times(i, times);
	if (rc == 0 &&
	    utimensat(s->new_fd, path, times, AT_SYMLINK_NOFOLLOW) < 0)
		rc = error_errno(err, errno, "set times");
	return rc;
}

/* -------------------------------------------------------------------------- things --- */

/* State of a walk over the folders of a target. */
struct place_walk {
	struct placing *p;
	struct stage *stage;
	struct buf path; /* relative to the target; "" for itself */
	bool is_new;     /* inside a folder that is not in its place yet */
	uint32_t n_built;
};

typedef int place_fn(struct place_walk *w, int dir, const struct dentry *d,
		     struct error *err);

static int open_folder(int in, const char *name)
{
	return openat(in, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
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

/* Free a place: log that `made` in the stage `from` will get there (by rename or as a link), and
 * move away the present file. */
static int clear_place_for_entry(struct place_walk *w, int dir,
				 const char *name, const struct stage *from,
				 const char *made, bool is_renamed,
				 struct error *err)
{
	int rc;

	if (w->is_new)
		return 0;
	rc = is_renamed
		     ? stage_keep_aside(w->stage, dir, name, w->path.data, err)
		     : stage_put_aside(w->stage, dir, name, w->path.data, err);
	return rc < 0 ? rc
		      : stage_log_put(w->stage, from->new_fd, made,
				      w->path.data, err);
}

/* In a merged target: has a program put a file there meanwhile that is to stay? */
static bool has_kept_file(const struct place_walk *w, int dir,
			  const struct dentry *d)
{
	struct stat st;

	return w->p->merges && !w->is_new &&
	       fstatat(dir, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       merge_keeps(&st, d->inode);
}

static int place_node(struct place_walk *w, int dir, const struct dentry *d,
		      struct error *err)
{
	const struct unpack_plan *plan = w->p->plan;
	const struct unpack_node *n = &plan->nodes[d->inode->user];
	const struct stage *from = &w->p->stages[n->target];
	char name[PLACE_PATH_MAX];
	int rc;

	if (built_path(d->parent) && d->inode->nlink == 1)
		return 0; /* it was created in its built folder */
	if (has_kept_file(w, dir, d))
		return 0;
	place_node_path(plan, (uint32_t)d->inode->user, name);
	rc = clear_place_for_entry(w, dir, d->name, from, name,
				   d->inode->nlink == 1, err);
	if (rc < 0)
		return rc;
	rc = d->inode->nlink > 1 ? linkat(from->new_fd, name, dir, d->name, 0)
				 : renameat(from->new_fd, name, dir, d->name);
	return rc < 0 ? error_errno(err, errno, "place '%.160s'", w->path.data)
		      : 0;
}

static int place_child(struct place_walk *w, int dir, const struct dentry *d,
		       struct error *err);

/* Add hard links to a built folder, which is open as `fd`. */
static int fill_folder(struct place_walk *w, int fd, const struct inode *dir,
		       struct error *err)
{
	bool was_new = w->is_new;
	int rc;

	w->is_new = true;
	rc = each_child(w, fd, dir, place_child, err);
	w->is_new = was_new;
	return rc;
}

/* Refuse to replace something that appeared in the target after place_prepare(). */
static int check_place(const struct place_walk *w, int in, const char *name,
		       struct error *err)
{
	struct stat st;

	if (w->is_new || fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode))
		return 0;
	return error_set(err, ESTALE, "the folder '%.160s' came meanwhile",
			 w->path.data);
}

/* Place a built folder in `in`, the existing folder that it belongs to. */
static int place_built(struct place_walk *w, int in, const struct dentry *d,
		       struct error *err)
{
	const char *path = built_path(d->inode);
	AUTO_CLOSE int fd = is_placed_by_rename(d->inode)
				    ? open_folder(w->stage->new_fd, path)
				    : open_folder(in, d->name);
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "open '%.160s'", w->path.data);
	rc = fill_folder(w, fd, d->inode, err);
	if (rc == 0 && is_placed_by_rename(d->inode)) {
		rc = check_place(w, in, d->name, err);
		if (rc == 0)
			rc = clear_place_for_entry(w, in, d->name, w->stage,
						   path, false, err);
		if (rc == 0 &&
		    renameat(w->stage->new_fd, path, in, d->name) < 0)
			rc = error_errno(err, errno, "place '%.160s'",
					 w->path.data);
	}
	/* Only afterwards: with its own permissions the owner might not be allowed to move it. */
	return rc < 0 ? rc : place_attributes(fd, d->inode, err);
}

/* Give the owner write permission on a folder, which users other than root need. */
static void allow_owner_writes(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_uid != 0 && st.st_uid == geteuid() &&
	    (st.st_mode & 0300) != 0300)
		(void)!fchmod(fd, (st.st_mode & 07777) | 0300);
}

/* Place entries in an existing folder; its attributes are logged first, as the first entry changes
 * them. */
static int merge_folder(struct place_walk *w, int fd, const struct inode *dir,
			struct error *err)
{
	int rc = stage_log_attributes(w->stage, fd,
				      w->path.len ? w->path.data : ".", err);

	/* The folder gets its final permissions after its entries. */
	if (rc == 0)
		allow_owner_writes(fd);
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
	if (built_path(d->inode))
		return place_built(w, dir, d, err);
	fd = open_folder(dir, d->name);
	return fd < 0 ? error_errno(err, errno, "open '%.160s'", w->path.data)
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
	if (!S_ISDIR(d->inode->mode) || built_path(d->inode))
		return 0;
	fd = open_folder(dir, d->name);
	return fd < 0 ? error_errno(err, errno, "open '%.160s'", w->path.data)
		      : each_child(w, fd, d->inode, delete_child, err);
}

static int set_tree_attributes(struct place_walk *w, int fd,
			       const struct inode *dir, struct error *err);

static int set_child_attributes(struct place_walk *w, int dir,
				const struct dentry *d, struct error *err)
{
	AUTO_CLOSE int fd = -1;

	if (!S_ISDIR(d->inode->mode) || built_path(d->inode))
		return 0;
	fd = open_folder(dir, d->name);
	return fd < 0 ? error_errno(err, errno, "open '%.160s'", w->path.data)
		      : set_tree_attributes(w, fd, d->inode, err);
}

/* Set attributes of inner folders first, as changes inside a folder would change its time. */
static int set_tree_attributes(struct place_walk *w, int fd,
			       const struct inode *dir, struct error *err)
{
	int rc = each_child(w, fd, dir, set_child_attributes, err);

	if (rc == 0)
		rc = stage_log_xattrs(w->stage, fd, dir,
				      w->path.len ? w->path.data : ".", err);
	return rc < 0 ? rc : place_attributes(fd, dir, err);
}

/* --------------------------------------------------------------------------- prepare --- */

/* Allocate the path for a folder to be built, below `above`; if that is NULL or too long already,
 * a new path at the stage's top. */
static char *new_built_folder_path(struct place_walk *w, const char *above,
				   const char *name)
{
	size_t room = strlen(name) + (above ? strlen(above) : 0) + 16;
	char *path = tree_alloc(w->p->tree, room);

	if (path && above && room < BUILT_PATH_MAX)
		(void)snprintf(path, room, "%s/%s", above, name);
	else if (path)
		(void)snprintf(path, room, "d%u", w->n_built++);
	return path;
}

static int build_child(struct place_walk *w, int dir, const struct dentry *d,
		       struct error *err)
{
	char *path;

	if (!S_ISDIR(d->inode->mode))
		return 0;
	path = new_built_folder_path(w, built_path(d->parent), d->name);
	if (!path)
		return error_nomem(err);
	d->inode->user_ptr = path;
	if (mkdirat(w->stage->new_fd, path, 0700) < 0)
		return error_errno(err, errno, "make '%.160s'", w->path.data);
	return each_child(w, -1, d->inode, build_child, err);
}

static int prepare_child(struct place_walk *w, int dir, const struct dentry *d,
			 struct error *err)
{
	AUTO_CLOSE int fd = -1;

	if (!S_ISDIR(d->inode->mode))
		return 0;
	fd = open_folder(dir, d->name);
	if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		return error_errno(err, errno, "open '%.160s'", w->path.data);
	if (fd < 0)
		return build_child(w, -1, d, err);
	d->inode->user_ptr = NULL;
	return each_child(w, fd, d->inode, prepare_child, err);
}

/* ------------------------------------------------------------------------- interface --- */

enum place_pass { PASS_PREPARE, PASS_THINGS, PASS_DELETIONS, PASS_ATTRIBUTES };

static int walk_target(struct placing *p, size_t target, enum place_pass pass,
		       struct error *err)
{
	struct place_walk w = { .p = p, .stage = &p->stages[target] };
	struct inode *dir = p->plan->folders[target];
	int rc;

	switch (pass) {
	case PASS_PREPARE:
		dir->user_ptr = NULL;
		rc = each_child(&w, w.stage->root, dir, prepare_child, err);
		break;
	case PASS_THINGS:
		rc = merge_folder(&w, w.stage->root, dir, err);
		break;
	case PASS_DELETIONS:
		rc = each_child(&w, w.stage->root, dir, delete_child, err);
		break;
	default:
		rc = set_tree_attributes(&w, w.stage->root, dir, err);
	}
	buf_fini(&w.path);
	return rc;
}

int place_prepare(struct placing *p, size_t target, struct error *err)
{
	return walk_target(p, target, PASS_PREPARE, err);
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
