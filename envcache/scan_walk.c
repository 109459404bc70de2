// SPDX-License-Identifier: Apache-2.0
/*
 * The walk over the targets by several threads: on a cold disk each stat(2) waits for the disk,
 * which serves several at once.  A thread takes a folder, calls stat(2) for its names in inode
 * order (as they lie on the disk), and queues its subfolders for any thread.  At the end the
 * entries are sorted by name.
 *
 * The folder found last is taken first, which keeps the queue short.  A queued folder is a path,
 * not a descriptor, so only as many descriptors are open as there are threads and targets.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/fs.h"
#include "common/side_by_side.h"
#include "common/text.h"
#include "envcache/scan.h"

#define TEXTS_BYTES (64u << 10)
#define LIST_BYTES (32u << 10)

/* Memory for paths, which are stored one after the other. */
struct scan_texts {
	struct scan_texts *next;
	size_t used, size;
	char data[];
};

struct scan_root {
	int fd;
	dev_t dev;
	size_t path_len;
	struct env_entry entry;
	struct scan_folder *folder; /* NULL: the target does not exist */
};

struct scan_name {
	struct env_entry entry;
	struct scan_folder *folder; /* if it is a folder */
	bool is_mount;
};

struct scan_folder {
	struct scan_folder *next; /* next in the queue */
	const struct scan_root *root;
	const char *path;
	size_t path_len;
	unsigned int depth;
	struct scan_name *names; /* sorted */
	size_t n;
};

struct scan_walk {
	pthread_mutex_t lock; /* protects the members below, except the
	                       * texts of each thread */
	pthread_cond_t found;
	struct scan_folder *waiting;
	size_t n_left; /* folders that are queued or being read */
	size_t n_names;
	bool has_failed;
	struct scan_texts *texts[ENV_SCAN_THREADS];
};

/* State of a thread of the walk. */
struct scan_side {
	struct scan_walk *walk;
	struct scan_texts **texts;
	char *list; /* LIST_BYTES */
	/* Names of the folder that is being read; copied to the folder with the exact size. */
	struct scan_name *names;
	size_t n, cap;
};

static void texts_free(struct scan_texts *t)
{
	while (t) {
		struct scan_texts *next = t->next;

		free(t);
		t = next;
	}
}

/* Allocate a text that lives as long as the scan. */
static char *text_new(struct scan_texts **texts, size_t size)
{
	struct scan_texts *t = *texts;

	if (!t || t->size - t->used < size) {
		size_t room = size > TEXTS_BYTES ? size : TEXTS_BYTES;

		t = malloc(sizeof(*t) + room);
		if (!t)
			return NULL;
		*t = (struct scan_texts){ .next = *texts, .size = room };
		*texts = t;
	}
	t->used += size;
	return t->data + t->used - size;
}

void env_scan_free(struct env_scan *s)
{
	if (!s)
		return;
	texts_free(s->texts);
	free((void *)s->mounts);
	free(s->entries);
	free(s);
}

/* Recursive, which is safe as folders are at most ENV_DEPTH_MAX deep. */
static void folder_free(struct scan_folder *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		folder_free(f->names[i].folder);
	free(f->names);
	free(f);
}

/* ------------------------------------------------------------------ a folder's names --- */

static bool is_listed(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
	       strncmp(name, ENV_STAGING, strlen(ENV_STAGING)) != 0;
}

static const char *name_in(const struct scan_folder *f,
			   const struct scan_name *n)
{
	return n->entry.path + f->path_len + 1;
}

static int add_name(struct scan_side *s, const struct scan_folder *f,
		    const char *name, uint64_t ino, struct error *err)
{
	size_t len = strlen(name) + 1;
	char *path;

	if (s->n == ENV_ENTRIES_MAX)
		return env_scan_is_full(err);
	if (array_grow(&s->names, s->n, &s->cap, 64) < 0)
		return error_nomem(err);
	path = text_new(s->texts, f->path_len + 1 + len);
	if (!path)
		return error_nomem(err);
	memcpy(path, f->path, f->path_len);
	path[f->path_len] = '/';
	memcpy(path + f->path_len + 1, name, len);
	s->names[s->n++] = (struct scan_name){
		.entry = { .path = path, .ino = ino },
	};
	return 0;
}

static int list_folder(struct scan_side *s, const struct scan_folder *f,
		       int dir, struct error *err)
{
	int rc = 0;

	s->n = 0;
	while (rc == 0) {
		ssize_t n = getdents64(dir, s->list, LIST_BYTES);

		/* ENOENT: the folder was removed while it was read. */
		if (n == 0 || (n < 0 && errno == ENOENT))
			break;
		if (n < 0)
			return error_errno(err, errno, "list '%.160s'",
					   f->path);
		for (ssize_t at = 0; rc == 0 && at < n;) {
			const struct dirent64 *d =
				(const struct dirent64
					 *)(const void *)(s->list + at);

			if (is_listed(d->d_name))
				rc = add_name(s, f, d->d_name, d->d_ino, err);
			at += d->d_reclen;
		}
	}
	return rc;
}

static int read_link(struct scan_side *s, int dir, const char *name,
		     struct env_entry *e, struct error *err)
{
	size_t room = (size_t)e->size + 2;
	char *text = text_new(s->texts, room);
	ssize_t n;

	if (!text)
		return error_nomem(err);
	n = readlinkat(dir, name, text, room);
	if (n < 0)
		return error_errno(err, errno, "read link '%.200s'", name);
	if ((size_t)n >= room - 1)
		return error_set(err, EBUSY, "link '%.200s' changes", name);
	text[n] = '\0';
	e->link = text;
	return 0;
}

static int new_folder(const struct scan_folder *in, struct scan_name *n,
		      struct error *err)
{
	struct scan_folder *f = calloc(1, sizeof(*f));

	if (!f)
		return error_nomem(err);
	f->root = in->root;
	f->path = n->entry.path;
	f->path_len = strlen(f->path);
	f->depth = in->depth + 1;
	n->folder = f;
	return 0;
}

/* Get a name's entry. *ret false: the name is gone, or is to be skipped. */
static int look_at_name(struct scan_side *s, const struct scan_folder *f,
			int dir, struct scan_name *n, bool *ret,
			struct error *err)
{
	const char *name = name_in(f, n);
	struct env_entry *e = &n->entry;
	int rc = env_entry_look(dir, name, e, &n->is_mount);

	*ret = false;
	if (rc < 0)
		return rc == -ENOENT
			       ? 0
			       : error_errno(err, -rc, "'%.160s'", e->path);
	if (S_ISSOCK(e->mode) && !n->is_mount)
		return 0; /* belongs to a running process */
	*ret = true;
	/* A subvolume of the same file system counts as a mount. */
	if (S_ISDIR(e->mode) && e->dev != f->root->dev)
		n->is_mount = true;
	if (n->is_mount)
		return 0;
	if (S_ISLNK(e->mode))
		return read_link(s, dir, name, e, err);
	return S_ISDIR(e->mode) ? new_folder(f, n, err) : 0;
}

static int compare_inodes(const void *a, const void *b)
{
	const struct scan_name *x = a, *y = b;

	return x->entry.ino < y->entry.ino ? -1 : x->entry.ino > y->entry.ino;
}

/* Compare two names of one folder by their last component. */
static int compare_names(const void *a, const void *b)
{
	const struct scan_name *x = a, *y = b;

	return strcmp(x->entry.path, y->entry.path);
}

/* Sort the names and store them in the folder. */
static int keep_names(const struct scan_side *s, struct scan_folder *f,
		      struct error *err)
{
	if (s->n == 0)
		return 0;
	qsort(s->names, s->n, sizeof(*s->names), compare_names);
	f->names = malloc(s->n * sizeof(*f->names));
	if (!f->names)
		return error_nomem(err);
	memcpy(f->names, s->names, s->n * sizeof(*f->names));
	f->n = s->n;
	return 0;
}

static int look_at_names(struct scan_side *s, struct scan_folder *f, int dir,
			 struct error *err)
{
	size_t n_listed;
	int rc = list_folder(s, f, dir, err);

	if (rc < 0)
		return rc;
	n_listed = s->n;
	s->n = 0;
	if (n_listed)
		qsort(s->names, n_listed, sizeof(*s->names), compare_inodes);
	for (size_t i = 0; i < n_listed; i++) {
		bool is_there;

		rc = look_at_name(s, f, dir, &s->names[i], &is_there, err);
		if (rc < 0)
			break;
		if (is_there)
			s->names[s->n++] = s->names[i];
	}
	if (rc == 0)
		rc = keep_names(s, f, err);
	for (size_t i = 0; rc < 0 && i < s->n; i++)
		free(s->names[i].folder);
	return rc;
}

static int scan_folder_names(struct scan_side *s, struct scan_folder *f,
			     struct error *err)
{
	AUTO_CLOSE int fd = -1;

	if (f->depth > ENV_DEPTH_MAX)
		return error_set(err, ELOOP,
				 "'%.160s' lies in more than %u folders",
				 f->path, ENV_DEPTH_MAX);
	if (f->depth == 0)
		return look_at_names(s, f, f->root->fd, err);
	fd = env_open_long(f->root->fd, f->path + f->root->path_len + 1,
			   O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0; /* removed during the scan; a later scan shows that */
	if (fd < 0)
		return error_errno(err, errno, "open '%.160s'", f->path);
	return look_at_names(s, f, fd, err);
}

/* --------------------------------------------------------------------------- threads --- */

static void push_folder(struct scan_walk *w, struct scan_folder *f)
{
	f->next = w->waiting;
	w->waiting = f;
	w->n_left++;
	(void)pthread_cond_signal(&w->found);
}

/* Take a folder from the queue; NULL: none is left, nor will come. */
static struct scan_folder *take_folder(struct scan_walk *w)
{
	struct scan_folder *f = NULL;

	(void)pthread_mutex_lock(&w->lock);
	while (!w->has_failed && !w->waiting && w->n_left)
		(void)pthread_cond_wait(&w->found, &w->lock);
	if (!w->has_failed && w->waiting) {
		f = w->waiting;
		w->waiting = f->next;
	}
	(void)pthread_mutex_unlock(&w->lock);
	return f;
}

/* Finish a folder, and queue its subfolders. */
static int queue_subfolders(struct scan_walk *w, const struct scan_folder *f,
			    int rc, struct error *err)
{
	(void)pthread_mutex_lock(&w->lock);
	for (size_t i = f->n; rc == 0 && i-- > 0;)
		if (f->names[i].folder)
			push_folder(w, f->names[i].folder);
	w->n_names += f->n;
	if (rc == 0 && w->n_names > ENV_ENTRIES_MAX)
		rc = env_scan_is_full(err);
	w->has_failed |= rc < 0;
	w->n_left--;
	if (w->n_left == 0 || rc < 0)
		(void)pthread_cond_broadcast(&w->found);
	(void)pthread_mutex_unlock(&w->lock);
	return rc;
}

static int walk_side(void *arg, unsigned int index, struct error *err)
{
	struct scan_walk *w = arg;
	AUTO_FREE char *list = malloc(LIST_BYTES);
	struct scan_side s = { .walk = w,
			       .texts = &w->texts[index],
			       .list = list };
	struct scan_folder *f;
	int rc = 0;

	while (rc == 0 && (f = take_folder(w))) {
		rc = list ? scan_folder_names(&s, f, err) : error_nomem(err);
		rc = queue_subfolders(w, f, rc, err);
	}
	free(s.names);
	return rc;
}

/* ------------------------------------------------------------------------------ targets --- */

static int open_root(struct scan_walk *w, const char *target,
		     struct scan_root *ret, struct error *err)
{
	size_t len = strlen(target);
	bool is_mount;
	char *path;
	int rc;

	ret->fd = fs_openat2(AT_FDCWD, target, O_RDONLY | O_DIRECTORY,
			     RESOLVE_NO_SYMLINKS);
	if (ret->fd < 0 && errno == ENOENT)
		return 0;
	rc = ret->fd < 0 ? -errno
			 : env_entry_look(ret->fd, "", &ret->entry, &is_mount);
	if (rc < 0)
		return error_errno(err, -rc, "open '%.160s'", target);
	path = text_new(&w->texts[0], len + 1);
	ret->folder = path ? calloc(1, sizeof(*ret->folder)) : NULL;
	if (!ret->folder)
		return error_nomem(err);
	memcpy(path, target, len + 1);
	ret->entry.path = path;
	ret->dev = ret->entry.dev;
	ret->path_len = len;
	*ret->folder = (struct scan_folder){ .root = ret,
					     .path = path,
					     .path_len = len };
	push_folder(w, ret->folder);
	w->n_names++;
	return 0;
}

static int note_mount(struct env_scan *s, const char *path, struct error *err)
{
	if (array_grow(&s->mounts, s->n_mounts, &s->cap_mounts, 16) < 0)
		return error_nomem(err);
	s->mounts[s->n_mounts++] = path;
	return 0;
}

/* Add the entries of a folder, sorted by name; the scan has room for all.  Folders are freed at
 * once, as each name would otherwise be in memory twice. */
static int put_in_order(struct env_scan *s, struct scan_folder *f,
			struct error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < f->n; i++) {
		struct scan_name *n = &f->names[i];

		if (n->is_mount)
			rc = note_mount(s, n->entry.path, err);
		else
			s->entries[s->n++] = n->entry;
		if (rc == 0 && n->folder)
			rc = put_in_order(s, n->folder, err);
		folder_free(n->folder);
		n->folder = NULL;
	}
	return rc;
}

/* Make the scan; takes over the texts. */
static int make_scan(struct scan_walk *w, const struct scan_root *roots,
		     size_t n_roots, struct env_scan **ret, struct error *err)
{
	AUTO(env_scan) s = calloc(1, sizeof(*s));
	int rc = 0;

	if (s) /* never NULL, even if there are no entries */
		s->entries = calloc(w->n_names + 1, sizeof(*s->entries));
	if (!s || !s->entries)
		return error_nomem(err);
	for (size_t i = 0; i < ENV_SCAN_THREADS; i++) {
		struct scan_texts **end = &w->texts[i];

		while (*end)
			end = &(*end)->next;
		*end = s->texts;
		s->texts = steal_ptr(&w->texts[i]);
	}
	for (size_t i = 0; rc == 0 && i < n_roots; i++) {
		if (!roots[i].folder)
			continue;
		s->entries[s->n++] = roots[i].entry;
		rc = put_in_order(s, roots[i].folder, err);
	}
	if (rc == 0)
		*ret = steal_ptr(&s);
	return rc;
}

static void walk_fini(struct scan_walk *w, struct scan_root *roots, size_t n)
{
	for (size_t i = 0; roots && i < n; i++) {
		fd_close(roots[i].fd);
		folder_free(roots[i].folder);
	}
	free(roots);
	for (size_t i = 0; i < ENV_SCAN_THREADS; i++)
		texts_free(w->texts[i]);
	(void)pthread_cond_destroy(&w->found);
	(void)pthread_mutex_destroy(&w->lock);
}

int env_scan_new(const struct env_targets *t, struct env_scan **ret,
		 struct error *err)
{
	struct scan_walk w = { .waiting = NULL };
	struct scan_root *roots = calloc(t->n + 1, sizeof(*roots));
	int rc = roots ? 0 : error_nomem(err);

	(void)pthread_mutex_init(&w.lock, NULL);
	(void)pthread_cond_init(&w.found, NULL);
	for (size_t i = 0; roots && i < t->n; i++)
		roots[i].fd = -1;
	for (size_t i = 0; rc == 0 && i < t->n; i++)
		rc = open_root(&w, t->paths[i], &roots[i], err);
	if (rc == 0)
		rc = side_by_side(ENV_SCAN_THREADS, walk_side, &w, err);
	if (rc == 0)
		rc = make_scan(&w, roots, t->n, ret, err);
	walk_fini(&w, roots, t->n);
	return rc;
}
