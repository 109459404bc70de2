// SPDX-License-Identifier: Apache-2.0
/*
 * Removes whiteouts below a folder.  A layer may have any number of names, so no list of them
 * is kept; and any depth, so few folders are open at a time.  The other folders are opened
 * again through ".." and read on from the saved position.  No other process uses the layer's
 * folder, so nothing moves meanwhile.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "snapshotter/node/layers/unpack_priv.h"

#define OPEN_MAX_LEVELS 32

struct whiteout_level {
	DIR *dir; /* NULL: closed for now */
	long at;  /* position at which it was closed */
	dev_t dev;
	ino_t ino;
};

struct hunt {
	struct unpack *unpack;
	struct whiteout_level *levels;
	size_t n, cap;
	size_t n_closed; /* the outermost of `n` that are closed */
};

static int call_failed(const char *name, struct error *err)
{
	return error_errno(err, errno, "look for whiteouts in '%.80s'", name);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Returns 1 if the entry was a whiteout, which is removed. */
static int drop_if_whiteout(int folder, const struct dirent *d,
			    struct error *err)
{
	struct stat st;

	if (d->d_type != DT_CHR && d->d_type != DT_UNKNOWN)
		return 0;
	if (fstatat(folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return call_failed(d->d_name, err);
	if (!unpack_is_whiteout(&st))
		return 0;
	if (unlinkat(folder, d->d_name, 0) < 0)
		return error_errno(err, errno, "remove a whiteout");
	return 1;
}

/* Remove the whiteouts of one folder, which is rewound afterwards.  Its time stays. */
static int drop_of_folder(struct hunt *h, DIR *dir, struct error *err)
{
	struct timespec mtime;
	const struct dirent *d;
	int n_dropped, rc = unpack_get_time(dirfd(dir), &mtime, err);
	bool has_changed = false;

	do {
		n_dropped = 0;
		for (errno = 0; rc == 0 && (d = readdir(dir)); errno = 0) {
			rc = unpack_spend(h->unpack, 1, err);
			if (rc == 0)
				rc = drop_if_whiteout(dirfd(dir), d, err);
			n_dropped += rc > 0;
			rc = rc > 0 ? 0 : rc;
		}
		if (rc == 0 && errno)
			rc = call_failed(".", err);
		rewinddir(dir);
		has_changed |= n_dropped > 0;
		/* Repeat: a file system may skip names while others are removed. */
	} while (rc == 0 && n_dropped);
	return rc == 0 && has_changed ? unpack_set_time(dirfd(dir), &mtime, err)
				      : rc;
}

static int open_level(int parent, const char *name, struct whiteout_level *ret,
		      struct error *err)
{
	AUTO_CLOSE int fd =
		openat(parent, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return call_failed(name, err);
	*ret = (struct whiteout_level){ .dir = fdopendir(fd),
					.dev = st.st_dev,
					.ino = st.st_ino };
	if (!ret->dir)
		return call_failed(name, err);
	(void)steal_fd(&fd);
	return 0;
}

static int enter_folder(struct hunt *h, int parent, const char *name,
			struct error *err)
{
	struct whiteout_level *l;
	int rc;

	if (array_grow(&h->levels, h->n, &h->cap, 2 * OPEN_MAX_LEVELS) < 0)
		return error_nomem(err);
	rc = open_level(parent, name, &h->levels[h->n], err);
	if (rc < 0)
		return rc;
	h->n++;
	if (h->n - h->n_closed > OPEN_MAX_LEVELS) {
		l = &h->levels[h->n_closed++];
		l->at = telldir(l->dir);
		(void)closedir(steal_ptr(&l->dir));
	}
	return drop_of_folder(h, h->levels[h->n - 1].dir, err);
}

/* Return to the parent of the innermost folder, which was read to its end. */
static int return_to_parent(struct hunt *h, struct error *err)
{
	struct whiteout_level *l = &h->levels[--h->n], above, *up = l - 1;
	int rc = 0;

	if (h->n > 0 && !up->dir) {
		rc = open_level(dirfd(l->dir), "..", &above, err);
		if (rc == 0) {
			up->dir = above.dir;
			seekdir(up->dir, up->at);
			h->n_closed = h->n - 1;
		}
		if (rc == 0 && (above.ino != up->ino || above.dev != up->dev))
			rc = error_set(err, ESTALE,
				       "the layer's folders were moved");
	}
	(void)closedir(steal_ptr(&l->dir));
	return rc;
}

static int next_entry(struct hunt *h, struct error *err)
{
	struct whiteout_level *l = &h->levels[h->n - 1];
	const struct dirent *d;
	struct stat st;
	int rc;

	errno = 0;
	d = readdir(l->dir);
	if (!d)
		return errno ? call_failed(".", err) : return_to_parent(h, err);
	rc = unpack_spend(h->unpack, 1, err);
	if (rc < 0 || is_dots(d->d_name))
		return rc;
	if (d->d_type == DT_UNKNOWN) {
		if (fstatat(dirfd(l->dir), d->d_name, &st,
			    AT_SYMLINK_NOFOLLOW) < 0)
			return call_failed(d->d_name, err);
		return S_ISDIR(st.st_mode)
			       ? enter_folder(h, dirfd(l->dir), d->d_name, err)
			       : 0;
	}
	return d->d_type == DT_DIR
		       ? enter_folder(h, dirfd(l->dir), d->d_name, err)
		       : 0;
}

int unpack_drop_whiteouts(struct unpack *u, int folder, struct error *err)
{
	struct hunt h = { .unpack = u };
	int rc = enter_folder(&h, folder, ".", err);

	while (rc == 0 && h.n)
		rc = next_entry(&h, err);
	while (h.n-- > h.n_closed)
		(void)closedir(h.levels[h.n].dir);
	free(h.levels);
	return rc;
}
