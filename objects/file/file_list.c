// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "objects/file/file_path.h"

#define DEPTH_MAX 64u /* depth of folders; each takes a descriptor */

struct file_walk {
	struct file_store *f;
	bool deep;
	object_list_fn *fn;
	void *arg;
};

static int walk_folder(const struct file_walk *w, const char *folder,
		       unsigned int depth, struct error *err);

static int list_entry(const struct file_walk *w, DIR *d, const char *leaf,
		      const char *name, unsigned int depth, struct error *err)
{
	struct object_entry e = { .name = name };
	struct stat st;

	/* Skip a name that was removed since the folder was read, and a symbolic link, which is
	 * not an object of the store. */
	if (fstatat(dirfd(d), leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
			       ? 0
			       : file_error(w->f, errno, "look at", name, err);
	if (S_ISDIR(st.st_mode)) {
		if (w->deep)
			return walk_folder(w, name, depth + 1, err);
		e.is_folder = true;
		return w->fn(w->arg, &e, err);
	}
	e.is_odd = !S_ISREG(st.st_mode);
	file_stat_fill(&st, &e.stat);
	return w->fn(w->arg, &e, err);
}

static int walk_open(const struct file_walk *w, DIR *d, const char *folder,
		     unsigned int depth, struct error *err)
{
	const struct dirent *entry;

	while (errno = 0, (entry = readdir(d))) {
		AUTO_BUF name = BUF_INIT;
		int rc;

		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0)
			continue;
		if (buf_printf(&name, "%s%s%s", folder, *folder ? "/" : "",
			       entry->d_name) < 0)
			return error_nomem(err);
		/* Skip the store's own folder, which is not listed. */
		if (!*folder && strcmp(name.data, STORE_OWN) == 0)
			continue;
		rc = list_entry(w, d, entry->d_name, name.data, depth, err);
		if (rc < 0)
			return rc;
	}
	return errno ? file_error(w->f, errno, "list", folder, err) : 0;
}

static int walk_folder(const struct file_walk *w, const char *folder,
		       unsigned int depth, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	DIR *d;
	int rc;

	if (depth > DEPTH_MAX)
		return error_set(err, ELOOP,
				 "%s has too many folders in one "
				 "another",
				 folder);
	fd = file_path_open_folder(w->f, *folder ? folder : ".");
	if (fd < 0)
		return file_is_none(errno)
			       ? 0
			       : file_error(w->f, errno, "list", folder, err);
	d = fdopendir(fd);
	if (!d)
		return error_nomem(err);
	(void)steal_fd(&fd);
	rc = walk_open(w, d, folder, depth, err);
	(void)closedir(d);
	return rc;
}

int file_store_list(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err)
{
	struct file_walk w = {
		.f = file_store_of(s), .deep = deep, .fn = fn, .arg = arg
	};

	return walk_folder(&w, folder, 0, err);
}

struct file_sweep {
	struct file_store *f;
	int64_t before_ms;
	size_t n;
};

static int sweep_file_if_old(void *arg, const struct object_entry *e,
			     struct error *err)
{
	struct file_sweep *s = arg;

	if (e->is_folder || e->is_odd ||
	    !object_is_old(e->stat.modified_ms, s->before_ms))
		return 0;
	if (file_path_unlink(s->f, e->name, 0) == 0)
		s->n++;
	else if (errno != ENOENT)
		return file_error(s->f, errno, "remove", e->name, err);
	return 0;
}

int file_store_sweep(struct object_store *s, const char *folder,
		     int64_t before_ms, size_t *ret_n, struct error *err)
{
	struct file_sweep sweep = { .f = file_store_of(s),
				    .before_ms = before_ms };
	int rc = file_store_list(s, STORE_TMP, false, sweep_file_if_old, &sweep,
				 err);

	*ret_n = sweep.n;
	return rc;
}
