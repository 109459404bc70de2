// SPDX-License-Identifier: Apache-2.0
/*
 * Traces in a folder of this machine: DIR/IMAGE/WORKLOAD.trace, with the hex digits of the
 * image's digest and of the key's hash. All recordings of one start are merged in one file: that
 * is as useful as a list of recordings (a merged trace counts with its number of runs, and
 * trace_merge_recent() lets old ones fade), takes an eighth of the space, is replaced in one
 * step, and costs the start of a container one read.
 *
 * A file's modification time is that of its last use. Writers hold a lock, so several processes
 * may use a folder. The folder only serves speed: unreadable files are dropped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "recorder/store_priv.h"

#define SUFFIX ".trace"
#define WORKLOAD_HEX 32
#define FILES_MAX 16384 /* in a folder */
#define HEAD_MAX 4096   /* bytes of a file's beginning that hold its info */
#define DAMAGED_MAX 8   /* damaged files dropped by one get */

struct trace_folder {
	struct trace_store base;
	char *dir;
	uint64_t bytes_max;
};

/* A file of the folder. */
struct kept_trace {
	char *path;
	uint64_t size;
	int64_t used_ns; /* time of the last use */
};

struct kept_list {
	struct kept_trace *list;
	size_t n, cap;
	uint64_t bytes;
};

static struct trace_folder *folder_of(struct trace_store *s)
{
	return container_of(s, struct trace_folder, base);
}

static char *image_path(const struct trace_folder *f,
			const struct digest *image)
{
	char text[DIGEST_STR_MAX];
	char *path;

	digest_format(image, text);
	return asprintf(&path, "%s/%s", f->dir, strchr(text, ':') + 1) < 0
		       ? NULL
		       : path;
}

static char *trace_path(const struct trace_folder *f,
			const struct digest *image, const char *workload)
{
	AUTO_FREE char *dir = image_path(f, image);
	char hash[WORKLOAD_HEX + 1];
	char *path;

	if (!dir || store_workload_hash(workload, WORKLOAD_HEX, hash) < 0 ||
	    asprintf(&path, "%s/%s" SUFFIX, dir, hash) < 0)
		return NULL;
	return path;
}

/* Take the writers' lock; held until the descriptor is closed. Holders only work on this
 * folder, so the wait is short. */
static int lock_folder(const struct trace_folder *f, struct error *err)
{
	AUTO_CLOSE int fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return error_set(err, errno, "lock '%s': %s%s", f->dir,
				 strerror(errno), error_root_hint(errno));
	return steal_fd(&fd);
}

/* ------------------------------------------------------------------- listing --- */

static void kept_list_fini(struct kept_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->list[i].path);
	free(l->list);
}

static int add_kept(struct kept_list *l, char *path, const struct stat *st)
{
	if (array_grow(&l->list, l->n, &l->cap, 64) < 0) {
		free(path);
		return -ENOMEM;
	}
	l->list[l->n++] = (struct kept_trace){
		.path = path,
		.size = (uint64_t)st->st_size,
		.used_ns = clock_ns_of(st->st_mtim),
	};
	l->bytes += (uint64_t)st->st_size;
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* List the traces of an image. `sweep`: remove leftovers of interrupted writes; only with
 * the lock, since a running write looks the same. */
static int scan_image(const char *dir, bool sweep, struct kept_list *l,
		      struct error *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	int rc = 0;

	if (!d && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!d)
		return error_set(err, errno, "open folder '%s': %s%s", dir,
				 strerror(errno), error_root_hint(errno));
	while (rc == 0 && l->n < FILES_MAX && (e = readdir(d))) {
		char *path;

		if (e->d_name[0] == '.' ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) <
			    0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (!ends_with(e->d_name, SUFFIX)) {
			if (sweep)
				(void)unlinkat(dirfd(d), e->d_name, 0);
			continue;
		}
		rc = asprintf(&path, "%s/%s", dir, e->d_name) < 0
			     ? -ENOMEM
			     : add_kept(l, path, &st);
	}
	(void)closedir(d);
	return rc < 0 ? error_nomem(err) : 0;
}

static int scan_all(const struct trace_folder *f, bool sweep,
		    struct kept_list *l, struct error *err)
{
	DIR *d = opendir(f->dir);
	struct dirent *e;
	int rc = 0;

	if (!d)
		return error_set(err, errno, "open folder '%s': %s%s", f->dir,
				 strerror(errno), error_root_hint(errno));
	while (rc == 0 && l->n < FILES_MAX && (e = readdir(d))) {
		AUTO_FREE char *path = NULL;

		if (e->d_name[0] == '.')
			continue;
		if (asprintf(&path, "%s/%s", f->dir, e->d_name) < 0) {
			path = NULL;
			rc = error_nomem(err);
		} else {
			rc = scan_image(path, sweep, l, err);
		}
	}
	(void)closedir(d);
	return rc;
}

/* List the traces of the query's image, or of all. */
static int scan_traces(const struct trace_folder *f,
		       const struct trace_query *q, bool all,
		       struct kept_list *l, struct error *err)
{
	AUTO_FREE char *dir = NULL;

	if (all)
		return scan_all(f, false, l, err);
	dir = image_path(f, &q->image);
	return dir ? scan_image(dir, false, l, err) : error_nomem(err);
}

/* ------------------------------------------------------------------- reading --- */

static int read_trace(const char *path, struct trace **ret, struct error *err)
{
	AUTO_BUF data = BUF_INIT;
	int rc = fs_read_file(path, TRACE_BYTES_MAX, &data, err);

	if (rc == 0)
		rc = trace_decode(data.data, data.len, ret, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

static int read_info(const char *path, struct trace_info *ret,
		     struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	char head[HEAD_MAX];
	size_t entries;
	ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);

	if (n < 0)
		return error_errno(err, errno, "read '%s'", path);
	return trace_decode_info(head, (size_t)n, ret, &entries, err);
}

/* Is the trace damaged? Other failures are faults of the machine, or a later version of the
 * format. */
static bool is_damage(int rc)
{
	return rc == -EINVAL || rc == -EBADMSG || rc == -EFBIG;
}

/* Remove the file if it is still damaged; checked with the lock, so that no writer replaces
 * it meanwhile. */
static void drop_damaged(const struct trace_folder *f, const char *path)
{
	AUTO_CLOSE int lock = lock_folder(f, NULL);
	AUTO(trace) t = NULL;
	struct error why = ERROR_INIT;

	if (lock < 0 || !is_damage(read_trace(path, &t, &why)))
		return;
	log_warning("traces", "dropped a damaged trace reason=\"%s\"", why.msg);
	(void)unlink(path);
}

/* Read a trace and mark it as used. -ENOENT also when it is unusable. */
static int use_trace(const struct trace_folder *f, const char *path,
		     struct trace **ret, struct error *err)
{
	int rc = read_trace(path, ret, err);

	if (is_damage(rc))
		drop_damaged(f, path);
	if (is_damage(rc) || rc == -ENOTSUP)
		return -ENOENT;
	if (rc == 0)
		(void)utimensat(AT_FDCWD, path, NULL, 0);
	return rc;
}

/* Find the file that matches the query best, the newest of equal ones; the caller owns the
 * path, NULL when there is none. */
static int find_nearest(const struct trace_folder *f,
			const struct trace_query *q, char **ret,
			enum trace_match *ret_match, struct error *err)
{
	struct kept_list l = { .list = NULL };
	int best = STORE_NO_MATCH, rc;
	uint64_t best_at = 0;

	*ret = NULL;
	rc = scan_traces(f, q, q->repo && *q->repo, &l, err);
	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		struct trace_info info;
		int m;

		if (read_info(l.list[i].path, &info, NULL) < 0)
			continue;
		m = store_match(q, &info.image, info.workload,
				q->repo && strcmp(info.repo, q->repo) == 0);
		if (m != STORE_NO_MATCH &&
		    (best == STORE_NO_MATCH || m < best ||
		     (m == best && info.created_at > best_at))) {
			free(*ret);
			*ret = steal_ptr(&l.list[i].path);
			best = m;
			best_at = info.created_at;
		}
		trace_info_fini(&info);
	}
	kept_list_fini(&l);
	*ret_match = (enum trace_match)best;
	return rc;
}

static int set_no_trace(const struct trace_folder *f, struct error *err)
{
	return error_set(err, ENOENT, "'%s' holds no trace of this image",
			 f->dir);
}

static int get_own(const struct trace_folder *f, const struct trace_query *q,
		   struct trace_found *ret, struct error *err)
{
	AUTO_FREE char *path = trace_path(f, &q->image, q->workload);
	int rc = path ? use_trace(f, path, &ret->trace, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	ret->match = TRACE_MATCH_OWN;
	ret->wanted = store_wants_more(&ret->trace->info);
	return 0;
}

static int folder_get(struct trace_store *s, const struct trace_query *q,
		      struct trace_found *ret, struct error *err)
{
	struct trace_folder *f = folder_of(s);
	int rc = get_own(f, q, ret, err);

	if (rc == -ENOENT && q->exact)
		return set_no_trace(f, err);
	/* A trace found damaged is dropped, so the next pass finds another. */
	for (int i = 0; rc == -ENOENT && i < DAMAGED_MAX; i++) {
		AUTO_FREE char *path = NULL;

		rc = find_nearest(f, q, &path, &ret->match, err);
		if (rc == 0 && !path)
			return set_no_trace(f, err);
		if (rc == 0)
			rc = use_trace(f, path, &ret->trace, err);
		ret->wanted = true;
	}
	return rc == -ENOENT ? set_no_trace(f, err) : rc;
}

static int folder_list(struct trace_store *s, const struct trace_query *q,
		       struct trace_info **ret, size_t *ret_n,
		       struct error *err)
{
	struct trace_folder *f = folder_of(s);
	struct kept_list files = { .list = NULL };
	struct store_list l = { .infos = NULL };
	bool all = !store_has_image(q);
	int rc = scan_traces(f, q, all, &files, err);

	for (size_t i = 0; rc == 0 && i < files.n; i++) {
		struct trace_info info;

		if (read_info(files.list[i].path, &info, NULL) < 0)
			continue;
		if ((q->workload && strcmp(q->workload, info.workload) != 0) ||
		    (all && q->repo && strcmp(q->repo, info.repo) != 0))
			trace_info_fini(&info);
		else
			rc = store_list_add(&l, &info, err);
	}
	kept_list_fini(&files);
	if (rc < 0) {
		store_list_fini(&l);
		return rc;
	}
	*ret = l.infos;
	*ret_n = l.n;
	return 0;
}

/* ------------------------------------------------------------------- writing --- */

static int compare_traces_by_use(const void *a, const void *b)
{
	const struct kept_trace *x = a, *y = b;

	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Remove the least recently used traces, except `fresh`, until the rest fits. */
static int make_room(const struct trace_folder *f, const char *fresh,
		     struct error *err)
{
	AUTO_FINI(kept_list) l = { .list = NULL };
	int rc = scan_all(f, true, &l, err);
	size_t n = l.n;

	if (rc == 0 && l.n)
		qsort(l.list, l.n, sizeof(*l.list), compare_traces_by_use);
	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		if (l.bytes <= f->bytes_max && n < FILES_MAX)
			break;
		if (strcmp(l.list[i].path, fresh) == 0 ||
		    unlink(l.list[i].path) < 0)
			continue;
		l.bytes -= l.list[i].size;
		n--;
		*strrchr(l.list[i].path, '/') = '\0';
		(void)rmdir(l.list[i].path); /* only succeeds if it is empty */
	}
	return rc;
}

/* Make the new content of `path`: `t` merged with the trace that is there. */
static int merge_into(const char *path, const struct trace *t, struct buf *ret,
		      struct error *err)
{
	AUTO(trace) old = NULL;
	AUTO(trace) merged = NULL;
	const struct trace *both[2] = { t };
	struct error why = ERROR_INIT;
	int rc = read_trace(path, &old, &why);

	if (rc == -ENOMEM)
		return error_nomem(err);
	if (rc < 0 && rc != -ENOENT)
		log_warning("traces", "replacing a trace reason=\"%s\"",
			    why.msg);
	if (!old)
		return trace_encode(t, ret, err);
	both[1] = old;
	rc = trace_merge_recent(both, 2, &merged, err);
	return rc < 0 ? rc : trace_encode(merged, ret, err);
}

static int folder_put(struct trace_store *s, const struct trace *t,
		      struct error *err)
{
	struct trace_folder *f = folder_of(s);
	const struct trace one = store_as_one_run(t);
	AUTO_FREE char *path = trace_path(f, &t->info.image, t->info.workload);
	AUTO_FREE char *dir = image_path(f, &t->info.image);
	AUTO_CLOSE int lock = -1;
	AUTO_BUF data = BUF_INIT;
	int rc;

	if (!path || !dir)
		return error_nomem(err);
	lock = lock_folder(f, err);
	if (lock < 0)
		return lock;
	rc = merge_into(path, &one, &data, err);
	if (rc == 0 && data.len > f->bytes_max)
		rc = error_set(err, EFBIG,
			       "a trace of %zu bytes is more than '%s' may "
			       "hold",
			       data.len, f->dir);
	if (rc == 0)
		rc = fs_mkdir_p(dir, 0700, err);
	if (rc == 0)
		rc = fs_replace_file(path, data.data, data.len, 0600, err);
	if (rc == 0)
		rc = fs_sync_dir(f->dir, err);
	return rc < 0 ? rc : make_room(f, path, err);
}

static int folder_remove(struct trace_store *s, const struct trace_query *q,
			 struct error *err)
{
	struct trace_folder *f = folder_of(s);
	AUTO_FREE char *dir = image_path(f, &q->image);
	AUTO_FREE char *only = NULL;
	struct kept_list l = { .list = NULL };
	AUTO_CLOSE int lock = lock_folder(f, err);
	size_t n = 0;
	int rc = lock;

	if (q->workload)
		only = trace_path(f, &q->image, q->workload);
	if (lock >= 0)
		rc = dir && (only || !q->workload)
			     ? scan_image(dir, true, &l, err)
			     : error_nomem(err);
	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		if (only && strcmp(only, l.list[i].path) != 0)
			continue;
		if (unlink(l.list[i].path) < 0)
			rc = error_errno(err, errno, "remove '%s'",
					 l.list[i].path);
		n++;
	}
	kept_list_fini(&l);
	if (rc < 0)
		return rc;
	(void)rmdir(dir); /* only succeeds if it is empty */
	return n ? fs_sync_dir(f->dir, err) : set_no_trace(f, err);
}

static void folder_free(struct trace_store *s)
{
	struct trace_folder *f = folder_of(s);

	free(f->dir);
	free(f);
}

static const struct trace_store_ops folder_ops = {
	.name = "folder",
	.get = folder_get,
	.put = folder_put,
	.list = folder_list,
	.remove = folder_remove,
	.free = folder_free,
};

int trace_folder_new(const char *dir, uint64_t bytes_max,
		     struct trace_store **ret, struct error *err)
{
	AUTO_FREE struct trace_folder *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return error_nomem(err);
	rc = fs_mkdir_p(dir, 0700, err);
	if (rc < 0)
		return rc;
	f->dir = strdup(dir);
	if (!f->dir)
		return error_nomem(err);
	f->base.ops = &folder_ops;
	f->bytes_max = bytes_max;
	*ret = &steal_ptr(&f)->base;
	return 0;
}
