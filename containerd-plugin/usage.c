// SPDX-License-Identifier: Apache-2.0
/*
 * A container makes folders as deep as it likes: no path leads to their end, and there
 * are more than descriptors.  So the walk has the innermost folder open, and goes back
 * by "..", which is held against what it came through.
 */
#include "containerd-plugin/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#define DISK_SECTOR 512 /* unit of st_blocks */

/* A file with several names, once for each name. */
struct linked {
	ino_t ino;
	blkcnt_t blocks;
};

struct count {
	int64_t blocks, inodes; /* of all others */
	struct linked *linked;
	size_t n, cap;
};

static int compare(const void *a, const void *b)
{
	const struct linked *x = a, *y = b;

	return (x->ino > y->ino) - (x->ino < y->ino);
}

static int add(struct count *c, const struct stat *st, struct error *err)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		struct linked *v = realloc(c->linked, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		c->linked = v;
		c->cap = cap;
	}
	c->linked[c->n++] =
		(struct linked){ .ino = st->st_ino, .blocks = st->st_blocks };
	return 0;
}

/* A folder on the way from the top, and those in it that are still to be counted. */
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
	int top, fd; /* `fd` is the innermost one */
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
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 16;
		char **v = realloc(f->names, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		f->names = v;
		f->cap = cap;
	}
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
	struct stat st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : error_set(err, EIO, "'%.80s': %s",
						   name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return st.st_dev == f->dev ? add_name(f, name, err) : 0;
	if (st.st_nlink > 1)
		return add(c, &st, err);
	c->blocks += st.st_blocks;
	c->inodes++;
	return 0;
}

/* The folder itself and what is in it, folders for later.  Takes `fd`, which becomes
 * the innermost. */
static int enter(struct usage_walk *w, int fd, struct error *err)
{
	AUTO_CLOSE int own = fd;
	struct frame *f;
	struct stat st;
	struct dirent *e;
	DIR *d;
	int rc = 0;

	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		struct frame *v = realloc(w->frames, cap * sizeof(*v));

		if (!v)
			return error_nomem(err);
		w->frames = v;
		w->cap = cap;
	}
	if (fstat(fd, &st) < 0)
		return error_set(err, EIO, "%s", strerror(errno));
	f = &w->frames[w->n++];
	*f = (struct frame){ .dev = st.st_dev, .ino = st.st_ino };
	w->count->blocks += st.st_blocks;
	w->count->inodes++;
	fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		rc = error_set(err, EIO, "%s", strerror(errno));
		if (fd >= 0)
			(void)close(fd);
		return rc;
	}
	for (errno = 0; rc == 0 && (e = readdir(d)); errno = 0)
		rc = count_entry(w, f, own, e->d_name, err);
	if (rc == 0 && errno)
		rc = error_set(err, EIO, "%s", strerror(errno));
	(void)closedir(d);
	if (w->fd >= 0)
		(void)close(w->fd);
	w->fd = steal_fd(&own);
	return rc;
}

/* The innermost folder is done.  What has been moved meanwhile leads elsewhere: then
 * the walk goes on at the top, without what was left on the way. */
static int leave(struct usage_walk *w, struct error *err)
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
		if (fd >= 0)
			(void)close(fd);
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
		return enter(w, fd, err);
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return 0;
	return error_set(err, EIO, "'%.80s': %s", name, strerror(errno));
}

static int walk(const char *path, struct count *c, struct error *err)
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
		    : enter(&w, fd, err);
	while (rc == 0 && w.n)
		rc = w.frames[w.n - 1].n ? enter_next(&w, err) : leave(&w, err);
	drop_frames(&w, 0);
	free(w.frames);
	if (w.fd >= 0)
		(void)close(w.fd);
	return rc;
}

int usage_count(const char *path, int64_t *ret_size, int64_t *ret_inodes,
		struct error *err)
{
	struct count c = { .blocks = 0 };
	int rc = walk(path, &c, err);

	if (c.n)
		qsort(c.linked, c.n, sizeof(*c.linked), compare);
	for (size_t i = 0; i < c.n; i++) {
		if (i > 0 && c.linked[i].ino == c.linked[i - 1].ino)
			continue;
		c.blocks += c.linked[i].blocks;
		c.inodes++;
	}
	free(c.linked);
	if (rc < 0)
		return error_wrap(err, rc, "count '%s'", path);
	*ret_size = c.blocks * DISK_SECTOR;
	*ret_inodes = c.inodes;
	return 0;
}
