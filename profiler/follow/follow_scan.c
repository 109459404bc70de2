// SPDX-License-Identifier: Apache-2.0
/* Finds the logs to follow: those of pods below their folder, those of this node's own processes,
 * and files named by options. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "profiler/emit/emit.h"
#include "profiler/follow/follower.h"

/* logs of one pod, one for each start of its containers */
#define POD_LOGS_MAX 256u
#define BENEATH \
	(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | \
	 RESOLVE_NO_XDEV)

/* ----------------------------------------------------------------------- the table --- */

/* Set the pod of the log, and count the log among those that are followed. */
static bool name_pod(struct event_follower *f, struct followed_log *l)
{
	AUTO_FREE char *pod = strdup(l->folder);
	struct pod_log_name n;
	char *slash = pod ? strchr(pod, '/') : NULL;

	if (!slash)
		return false;
	*slash = '\0';
	if (!pod_name_parse(pod, &l->pod) || !pod_is_container(slash + 1) ||
	    !pod_log_name_parse(l->base, &n) || *n.rotated)
		return false;
	memcpy(l->container, slash + 1, strlen(slash + 1) + 1);
	l->restart = n.restart;
	return allowance_add_log(&f->allowance, pod, l->pod.namespace,
				 &l->share);
}

/* May a log without a pod be followed? */
static bool may_add_other(struct event_follower *f)
{
	if (HASH_COUNT(f->logs) < LOGS_MAX)
		return true;
	if (!f->is_others_told)
		log_warning("events",
			    "a file is not followed reason=\"%u logs are\"",
			    LOGS_MAX);
	f->is_others_told = true;
	return false;
}

static struct followed_log *add_log(struct event_follower *f,
				    const struct log_kind *kind,
				    const char *folder, const char *base,
				    const struct buf *key)
{
	AUTO(followed_log) l = calloc(1, sizeof(*l) + key->len + 1);

	if (!l)
		return NULL;
	l->kind = kind;
	l->fd = l->root_fd = -1;
	l->attempt = l->rank = l->begin_ns = l->stage_end_ns = STAGE_NONE;
	l->folder = strdup(folder);
	l->base = strdup(base);
	l->key_len = key->len;
	memcpy(l->key, key->data, key->len + 1);
	if (!l->folder || !l->base ||
	    !(kind == &log_kind_pod ? name_pod(f, l) : may_add_other(f)))
		return NULL;
	HASH_ADD_KEYPTR(hh, f->logs, l->key, l->key_len, l);
	if (hash_has_added(l))
		return steal_ptr(&l);
	allowance_drop_log(&f->allowance, &l->share);
	return NULL;
}

struct followed_log *follow_find(struct event_follower *f,
				 const struct log_kind *kind,
				 const char *folder, const char *base)
{
	AUTO_BUF key = BUF_INIT;
	struct followed_log *l;

	if (buf_printf(&key, "%s %s%s%s", kind->name, folder,
		       *folder ? "/" : "", base) < 0)
		return NULL;
	HASH_FIND(hh, f->logs, key.data, key.len, l);
	return l ? l : add_log(f, kind, folder, base, &key);
}

/* Find or add the log of a file that exists. NULL: the log is not followed. */
static struct followed_log *find_or_add_log(struct event_follower *f,
					    const struct log_kind *kind,
					    int root_fd, const char *folder,
					    const char *base, bool *ret_is_new)
{
	struct followed_log *l = follow_find(f, kind, folder, base);

	if (!l)
		return NULL;
	/* The log is new if no scan saw it before and no position was loaded for it. */
	*ret_is_new = l->seen == 0 && l->at.ino == 0 && !*l->at.rotated;
	l->root_fd = root_fd;
	l->seen = f->scan;
	return l;
}

/* ------------------------------------------------------------------------------ pods --- */

/* Skip lines that were written long before the log was followed: they belong to finished starts. */
static void skip_old_lines(struct event_follower *f, struct followed_log *l,
			   const struct pod_log_name *n, const struct stat *st,
			   int dir)
{
	AUTO_CLOSE int fd = -1;
	int64_t age = clock_scale(time(NULL) - st->st_mtime, NS_PER_S, 0);

	if (!f->is_first || age < f->cfg->max_age)
		return;
	if (*n->rotated && strcmp(n->rotated, l->at.rotated) > 0) {
		memcpy(l->at.rotated, n->rotated, sizeof(l->at.rotated));
	} else if (!*n->rotated) {
		fd = openat(dir, l->base,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return;
		l->at.head_n = log_head(fd, &l->at.head_crc);
		l->at.dev = (uint64_t)st->st_dev;
		l->at.ino = (uint64_t)st->st_ino;
		l->at.offset = (uint64_t)st->st_size;
	}
}

static DIR *open_folder(int root_fd, const char *path)
{
	int fd = fs_openat2(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			    BENEATH);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

static void scan_container(struct event_follower *f, const char *pod,
			   const char *folder, unsigned int *n_logs)
{
	DIR *d = open_folder(f->pods_fd, folder);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		struct pod_log_name n;
		struct followed_log *l;
		struct stat st;
		bool is_new;
		char base[32];

		if (!pod_log_name_parse(e->d_name, &n))
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) <
			    0 ||
		    !S_ISREG(st.st_mode)) {
			f->stats.links++;
			continue;
		}
		(void)snprintf(base, sizeof(base), "%.*s.log",
			       (int)strspn(e->d_name, "0123456789"), e->d_name);
		if (++*n_logs > POD_LOGS_MAX) {
			allowance_tell(&f->allowance, pod,
				       "it has too many logs");
			continue;
		}
		l = find_or_add_log(f, &log_kind_pod, f->pods_fd, folder, base,
				    &is_new);
		if (l && (is_new || l->first_scan == f->scan)) {
			l->first_scan = f->scan;
			skip_old_lines(f, l, &n, &st, dirfd(d));
		}
	}
	if (d)
		(void)closedir(d);
}

static void scan_pod(struct event_follower *f, const char *pod)
{
	DIR *d = open_folder(f->pods_fd, pod);
	const struct dirent *e;
	unsigned int n_logs = 0;

	while (d && (e = readdir(d))) {
		AUTO_FREE char *folder = NULL;

		if (!pod_is_container(e->d_name))
			continue;
		if (e->d_type == DT_LNK)
			f->stats.links++;
		folder = fs_join(pod, e->d_name);
		if (folder)
			scan_container(f, pod, folder, &n_logs);
	}
	if (d)
		(void)closedir(d);
}

static void scan_pods(struct event_follower *f)
{
	DIR *d = f->pods_fd < 0 ? NULL : open_folder(f->pods_fd, ".");
	const struct dirent *e;
	struct pod_name p;

	while (d && (e = readdir(d))) {
		if (!pod_name_parse(e->d_name, &p))
			continue;
		if (e->d_type == DT_LNK)
			f->stats.links++;
		scan_pod(f, e->d_name);
	}
	if (d)
		(void)closedir(d);
}

/* ---------------------------------------------------------------- own and named files --- */

static void scan_own_event_files(struct event_follower *f)
{
	DIR *d = f->events_fd < 0 ? NULL : open_folder(f->events_fd, ".");
	const size_t suffix = strlen(STAGE_EMIT_SUFFIX);
	const struct dirent *e;
	bool is_new;

	while (d && (e = readdir(d))) {
		size_t n = strlen(e->d_name);

		if (n > suffix &&
		    strcmp(e->d_name + n - suffix, STAGE_EMIT_SUFFIX) == 0)
			(void)find_or_add_log(f, &log_kind_own, f->events_fd,
					      ".", e->d_name, &is_new);
	}
	if (d)
		(void)closedir(d);
}

static void add_log_of_file(struct event_follower *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *folder =
		slash ? strndup(path, (size_t)(slash - path) + (slash == path))
		      : strdup(".");
	bool is_new;

	if (folder)
		(void)find_or_add_log(f, &log_kind_file, AT_FDCWD, folder,
				      slash ? slash + 1 : path, &is_new);
}

static void open_root(const char *path, int *fd)
{
	if (*fd < 0 && path && *path)
		*fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Is the log's folder gone, and was the log read to its end? */
static bool is_gone(const struct event_follower *f,
		    const struct followed_log *l)
{
	bool has_root = l->kind == &log_kind_pod   ? f->pods_fd >= 0
			: l->kind == &log_kind_own ? f->events_fd >= 0
						   : true;

	return l->seen != f->scan && l->fd < 0 && has_root;
}

void follow_scan(struct event_follower *f, char **files)
{
	struct followed_log *l, *next;

	f->scan++;
	open_root(f->cfg->pods, &f->pods_fd);
	open_root(f->cfg->events, &f->events_fd);
	scan_pods(f);
	scan_own_event_files(f);
	for (; *files; files++)
		if (strcmp(*files, "-") != 0)
			add_log_of_file(f, *files);
	HASH_ITER(hh, f->logs, l, next)
	{
		if (!is_gone(f, l))
			continue;
		HASH_DEL(f->logs, l);
		allowance_drop_log(&f->allowance, &l->share);
		followed_log_free(l);
		f->is_dirty = true;
	}
}
