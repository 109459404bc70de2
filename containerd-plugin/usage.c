// SPDX-License-Identifier: Apache-2.0
/*
 * Counts the usage of a folder. A container may make folders deeper than any path can be, and
 * more of them than there are descriptors. So the walk has only the innermost folder open, and
 * goes back by "..", which it compares with the folders on its way.
 *
 * The container may move folders meanwhile, even one above the walk's folder to below it, or
 * make new ones ahead of it. No folder is entered twice, and the number of steps is limited.
 */
#include "containerd-plugin/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"

#define DISK_SECTOR 512 /* unit of st_blocks */

#define FOLDER_STEPS 16 /* steps that a folder costs, besides its entries */

/* Set of inodes that were counted already: open addressing, at most half full. */
struct seen {
	ino_t *v; /* 0: free */
	size_t n, cap;
};

struct count {
	int64_t blocks, inodes;
	struct seen seen;    /* folders, and files with several names */
	uint64_t steps_left; /* 0: stop counting */
};

static size_t find_inode_slot(const ino_t *v, size_t cap, ino_t ino)
{
	uint64_t h = (uint64_t)ino * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(h >> 32) & (cap - 1);

	while (v[at] && v[at] != ino)
		at = (at + 1) & (cap - 1);
	return at;
}

static int grow_seen(struct seen *s, struct error *err)
{
	size_t cap = s->cap ? s->cap * 2 : 64;
	ino_t *v = calloc(cap, sizeof(*v));

	if (!v)
		return error_nomem(err);
	for (size_t i = 0; i < s->cap; i++)
		if (s->v[i])
			v[find_inode_slot(v, cap, s->v[i])] = s->v[i];
	free(s->v);
	s->v = v;
	s->cap = cap;
	return 0;
}

/* Add an inode to the set; `*ret`: it was not in it before. */
static int note_seen(struct seen *s, ino_t ino, bool *ret, struct error *err)
{
	int rc = s->n * 2 >= s->cap ? grow_seen(s, err) : 0;
	size_t at;

	if (rc < 0)
		return rc;
	at = find_inode_slot(s->v, s->cap, ino);
	*ret = !s->v[at];
	s->n += *ret;
	s->v[at] = ino;
	return 0;
}

static void spend_steps(struct count *c, uint64_t steps)
{
	c->steps_left -= steps < c->steps_left ? steps : c->steps_left;
}

/* A folder on the way from the top, with its subfolders that are still to be counted. */
struct frame {
	dev_t dev;
	ino_t ino;
	char **names;
	size_t n, cap;
};

struct usage_walk {
	struct count *count;
	struct frame *frames;
	size_t n, cap;
	int top, fd; /* descriptors of the top and of the innermost folder */
};

static void drop_frames(struct usage_walk *w, size_t keep)
{
	while (w->n > keep) {
		struct frame *f = &w->frames[--w->n];

		while (f->n)
			free(f->names[--f->n]);
		free(f->names);
	}
}

static int add_name(struct frame *f, const char *name, struct error *err)
{
	if (array_grow(&f->names, f->n, &f->cap, 16) < 0)
		return error_nomem(err);
	f->names[f->n] = strdup(name);
	if (!f->names[f->n])
		return error_nomem(err);
	f->n++;
	return 0;
}

static int count_entry(struct usage_walk *w, struct frame *f, int fd,
		       const char *name, struct error *err)
{
	struct count *c = w->count;
	bool is_new = true;
	struct stat st;
	int rc = 0;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	spend_steps(c, 1);
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set(err, EIO, "'%.80s': %s",
						   name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return st.st_dev == f->dev ? add_name(f, name, err) : 0;
	if (st.st_nlink > 1)
		rc = note_seen(&c->seen, st.st_ino, &is_new, err);
	if (rc == 0 && is_new) {
		c->blocks += st.st_blocks;
		c->inodes++;
	}
	return rc;
}

/* Add a frame for the folder, and count the folder itself. `*ret` NULL: it was counted
 * before. */
static int begin_frame(struct usage_walk *w, int fd, struct frame **ret,
		       struct error *err)
{
	struct count *c = w->count;
	bool is_new = false;
	struct stat st;
	int rc;

	*ret = NULL;
	if (array_grow(&w->frames, w->n, &w->cap, 64) < 0)
		return error_nomem(err);
	if (fstat(fd, &st) < 0)
		return error_set(err, EIO, "%s", strerror(errno));
	rc = note_seen(&c->seen, st.st_ino, &is_new, err);
	if (rc < 0 || !is_new)
		return rc;
	spend_steps(c, FOLDER_STEPS);
	c->blocks += st.st_blocks;
	c->inodes++;
	*ret = &w->frames[w->n++];
	**ret = (struct frame){ .dev = st.st_dev, .ino = st.st_ino };
	return 0;
}

static int count_entries(struct usage_walk *w, struct frame *f, int folder,
			 struct error *err)
{
	int fd = fcntl(folder, F_DUPFD_CLOEXEC, 0), rc = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		rc = error_set(err, EIO, "%s", strerror(errno));
		fd_close(fd);
		return rc;
	}
	for (errno = 0; rc == 0 && w->count->steps_left && (e = readdir(d));
	     errno = 0)
		rc = count_entry(w, f, folder, e->d_name, err);
	if (rc == 0 && errno)
		rc = error_set(err, EIO, "%s", strerror(errno));
	(void)closedir(d);
	return rc;
}

/* Count the folder and its entries; subfolders are left for later. Takes `fd`, which becomes
 * the innermost folder unless it was entered before. */
static int enter_folder(struct usage_walk *w, int fd, struct error *err)
{
	AUTO_CLOSE int own = fd;
	struct frame *f;
	int rc = begin_frame(w, own, &f, err);

	if (rc < 0 || !f)
		return rc;
	rc = count_entries(w, f, own, err);
	fd_close(w->fd);
	w->fd = steal_fd(&own);
	return rc;
}

/* The innermost folder is done: go back by "..". If folders were moved, that leads
 * elsewhere: then go on at the top, without the rest of the folders on the way. */
static int leave_folder(struct usage_walk *w, struct error *err)
{
	const struct frame *f;
	struct stat st;
	int fd;

	drop_frames(w, w->n - 1);
	if (!w->n)
		return 0;
	f = &w->frames[w->n - 1];
	fd = openat(w->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != f->ino ||
	    st.st_dev != f->dev) {
		fd_close(fd);
		drop_frames(w, 1);
		fd = fcntl(w->top, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return error_set(err, EIO, "%s", strerror(errno));
	}
	(void)close(w->fd);
	w->fd = fd;
	return 0;
}

static int enter_next(struct usage_walk *w, struct error *err)
{
	struct frame *f = &w->frames[w->n - 1];
	AUTO_FREE char *name = f->names[--f->n];
	int fd = openat(w->fd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return enter_folder(w, fd, err);
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return 0;
	return error_set(err, EIO, "'%.80s': %s", name, strerror(errno));
}

static int walk_tree(const char *path, struct count *c, struct error *err)
{
	AUTO_CLOSE int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct usage_walk w = { .count = c, .top = top, .fd = -1 };
	int rc, fd;

	if (top < 0)
		return errno == ENOENT
			       ? 0
			       : error_set(err, EIO, "%s", strerror(errno));
	fd = fcntl(top, F_DUPFD_CLOEXEC, 0);
	rc = fd < 0 ? error_set(err, EIO, "%s", strerror(errno))
		    : enter_folder(&w, fd, err);
	while (rc == 0 && w.n && c->steps_left)
		rc = w.frames[w.n - 1].n ? enter_next(&w, err)
					 : leave_folder(&w, err);
	drop_frames(&w, 0);
	free(w.frames);
	fd_close(w.fd);
	return rc;
}

int usage_count(const char *path, uint64_t steps_max, int64_t *ret_size,
		int64_t *ret_inodes, struct error *err)
{
	struct count c = { .steps_left = steps_max };
	int rc = walk_tree(path, &c, err);

	free(c.seen.v);
	if (rc < 0)
		return error_wrap(err, rc, "count '%s'", path);
	*ret_size = c.blocks * DISK_SECTOR;
	*ret_inodes = c.inodes;
	return 0;
}
