// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"

char *path_join(const char *dir, const char *name)
{
	AUTO_BUF b = BUF_INIT;

	if (buf_printf(&b, "%s/%s", dir, name) < 0)
		return NULL;
	return buf_steal(&b);
}

/* ------------------------------------------------------------- isolation --- */

struct isolated_result {
	int rc;
	struct error err;
};

/* Only `fd` stays open, as `RESULT_FD`. */
#define RESULT_FD 3

static void keep_only(int fd)
{
	if (fd != RESULT_FD)
		(void)dup2(fd, RESULT_FD);
	(void)close_range(RESULT_FD + 1, ~0U, 0);
}

static int run_locked(const char *run_dir, uint64_t lock, isolated_fn *fn,
		      void *arg, struct error *err)
{
	struct flock l = { .l_type = F_WRLCK,
			   .l_start = (off_t)lock,
			   .l_len = 1 };
	AUTO_FREE char *path = path_join(run_dir, "mount.lock");
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = fs_mkdir_p(run_dir, 0700, err);
	if (rc < 0)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	if (fcntl(fd, F_OFD_SETLKW, &l) < 0)
		return error_set(err, errno, "lock '%s': %s", path,
				 strerror(errno));
	return fn(arg, err);
}

static void child(int fd, const char *run_dir, uint64_t lock, isolated_fn *fn,
		  void *arg)
{
	struct isolated_result r = { .rc = 0 };
	ssize_t n;

	keep_only(fd);
	r.rc = run_locked(run_dir, lock, fn, arg, &r.err);
	n = write(RESULT_FD, &r, sizeof(r));
	/* Not exit(): the buffers and handlers are the parent's. */
	_exit(n == (ssize_t)sizeof(r) ? 0 : 1);
}

static int read_result(int fd, struct isolated_result *r)
{
	ssize_t n;

	do
		n = read(fd, r, sizeof(*r));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*r) ? 0 : -EIO;
}

int isolated_run(const char *run_dir, uint64_t lock, isolated_fn *fn, void *arg,
		 struct error *err)
{
	struct isolated_result r;
	int p[2], rc;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0) {
		rc = error_set(err, errno, "fork: %s", strerror(errno));
		(void)close(p[0]);
		(void)close(p[1]);
		return rc;
	}
	if (pid == 0)
		child(p[1], run_dir, lock, fn, arg);
	(void)close(p[1]);
	rc = read_result(p[0], &r);
	(void)close(p[0]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	if (rc < 0)
		return error_set(err, EIO,
				 "the process that mounts ended early");
	if (r.rc < 0 && err)
		*err = r.err;
	return r.rc;
}

/* ------------------------------------------------------------- mountinfo --- */

void mount_line_fini(struct mount_line *l)
{
	free(l->root);
	free(l->path);
	free(l->fstype);
	free(l->source);
	*l = (struct mount_line){ .major = 0 };
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *s)
{
	char *out = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] &&
		    s[3]) {
			*out++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
					(s[3] - '0'));
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

/* "36 35 98:0 /root /path opts [tags...] - fstype source super-opts" */
static int parse_line(char *line, const char *path, struct mount_line *ret)
{
	char *save = NULL, *root, *mp, *tok;
	unsigned int major, minor;

	if (!strtok_r(line, " ", &save) || !strtok_r(NULL, " ", &save))
		return 0;
	tok = strtok_r(NULL, " ", &save);
	if (!tok || sscanf(tok, "%u:%u", &major, &minor) != 2)
		return 0;
	root = strtok_r(NULL, " ", &save);
	mp = strtok_r(NULL, " ", &save);
	if (!root || !mp)
		return 0;
	unescape(mp);
	if (strcmp(mp, path) != 0)
		return 0;
	do
		tok = strtok_r(NULL, " ", &save);
	while (tok && strcmp(tok, "-") != 0);
	if (!tok)
		return 0;
	mount_line_fini(ret);
	ret->major = major;
	ret->minor = minor;
	tok = strtok_r(NULL, " ", &save);
	ret->fstype = strdup(tok ? tok : "");
	tok = strtok_r(NULL, " \n", &save);
	ret->source = strdup(tok ? tok : "");
	ret->root = strdup(root);
	ret->path = strdup(mp);
	if (!ret->fstype || !ret->source || !ret->root || !ret->path)
		return -ENOMEM;
	unescape(ret->source);
	unescape(ret->root);
	return 1;
}

int mount_find(const char *path, struct mount_line *ret, struct error *err)
{
	struct mount_line found = { .major = 0 };
	AUTO_FCLOSE FILE *f = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	size_t cap = 0;
	int any = 0;

	if (!f)
		return error_set(err, errno, "open /proc/self/mountinfo: %s",
				 strerror(errno));
	/* A later line is mounted over an earlier one. */
	while (getline(&line, &cap, f) >= 0) {
		int rc = parse_line(line, path, &found);

		if (rc < 0) {
			mount_line_fini(&found);
			return error_nomem(err);
		}
		any |= rc;
	}
	if (any)
		*ret = found;
	return any;
}

int mount_canonical(const char *path, char **ret, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	AUTO_FREE char *dir = NULL;
	char *base;

	if (!copy)
		return error_nomem(err);
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	base = strrchr(copy, '/');
	if (copy[0] != '/' || !base || !base[1])
		return error_set(err, EINVAL,
				 "mount point '%s' is not an absolute path",
				 path);
	*base++ = '\0';
	dir = realpath(copy[0] ? copy : "/", NULL);
	if (!dir)
		return error_set(err, errno, "folder of mount point '%s': %s",
				 path, strerror(errno));
	*ret = path_join(strcmp(dir, "/") == 0 ? "" : dir, base);
	return *ret ? 0 : error_nomem(err);
}

/* -------------------------------------------------------- mount, unmount --- */

struct mount_job {
	const struct mount_wish *wish;
	const char *path;
};

#define JOB_ADOPTED 1

static int mount_job(void *arg, struct error *err)
{
	const struct mount_job *j = arg;
	struct mount_line line = { .major = 0 };
	int rc = mount_find(j->path, &line, err);

	if (rc < 0)
		return rc;
	if (rc == 0)
		return j->wish->make(j->wish, err);
	rc = j->wish->is_same(j->wish, &line) ? JOB_ADOPTED : 0;
	if (rc == 0)
		rc = error_set(err, EBUSY,
			       "'%s' is already a mount of '%s' (%s)", j->path,
			       line.source, line.fstype);
	mount_line_fini(&line);
	return rc;
}

int mount_image(const struct mount_wish *w, bool *ret_adopted,
		struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct mount_wish wish = *w;
	struct mount_job job = { .wish = &wish };
	int rc = mount_canonical(w->path, &path, err);

	if (rc < 0)
		return rc;
	wish.path = job.path = path;
	rc = isolated_run(w->run_dir, w->lock, mount_job, &job, err);
	if (rc < 0)
		return rc;
	if (ret_adopted)
		*ret_adopted = rc == JOB_ADOPTED;
	return 0;
}

struct umount_job {
	const char *path;
	bool lazily;
};

static int umount_job(void *arg, struct error *err)
{
	const struct umount_job *j = arg;
	struct mount_line line = { .major = 0 };
	int rc = mount_find(j->path, &line, err);

	if (rc <= 0)
		return rc;
	mount_line_fini(&line);
	if (umount2(j->path, UMOUNT_NOFOLLOW | (j->lazily ? MNT_DETACH : 0)) <
	    0)
		return error_set(err, errno, "unmount '%s': %s", j->path,
				 strerror(errno));
	return 0;
}

int umount_image(const char *run_dir, uint64_t lock, const char *path,
		 bool lazily, struct error *err)
{
	AUTO_FREE char *canonical = NULL;
	struct umount_job job = { .lazily = lazily };
	int rc = mount_canonical(path, &canonical, err);

	if (rc < 0)
		return rc;
	job.path = canonical;
	return isolated_run(run_dir, lock, umount_job, &job, err);
}

/* ----------------------------------------------------------------- EROFS --- */

#define BDI_DIR "/sys/class/bdi"
#define METADATA_AHEAD (64 << 20)
#define BDI_MAX 4096 /* more than that many EROFS mounts: leave readahead */

/* A bit set of the N of all erofs-N, which the kernel numbers in order. */
struct bdi_set {
	int n;
	long ids[BDI_MAX];
};

static void bdi_list(struct bdi_set *s)
{
	DIR *d = opendir(BDI_DIR);
	struct dirent *e;
	long id;

	s->n = 0;
	while (d && s->n < BDI_MAX && (e = readdir(d)))
		if (sscanf(e->d_name, "erofs-%ld", &id) == 1)
			s->ids[s->n++] = id;
	if (d)
		(void)closedir(d);
}

static bool bdi_has(const struct bdi_set *s, long id)
{
	for (int i = 0; i < s->n; i++)
		if (s->ids[i] == id)
			return true;
	return false;
}

/*
 * A file-backed EROFS has a backing device of its own that nothing links to
 * its mount, but for the moment it appears.  When several appeared at once
 * we cannot tell which is ours, and leave them alone: it is only about speed.
 */
static void set_readahead(const struct bdi_set *before, unsigned int kib)
{
	AUTO_FREE struct bdi_set *now = malloc(sizeof(*now));
	AUTO_FCLOSE FILE *f = NULL;
	char path[64];
	long id = -1;

	if (!now)
		return;
	bdi_list(now);
	for (int i = 0; i < now->n; i++) {
		if (bdi_has(before, now->ids[i]))
			continue;
		if (id >= 0)
			return;
		id = now->ids[i];
	}
	if (id < 0)
		return;
	(void)snprintf(path, sizeof(path), BDI_DIR "/erofs-%ld/read_ahead_kb",
		       id);
	f = fopen(path, "we");
	if (f)
		(void)fprintf(f, "%u\n", kib);
}

/* What mount(2)'s errno means here, and what to do about it. */
static const char *mount_hint(int code)
{
	switch (code) {
	case ENODEV:
		return " (the kernel has no EROFS: modprobe erofs, or a kernel"
		       " with CONFIG_EROFS_FS)";
	case ENOTBLK:
		return " (the kernel cannot mount EROFS from a file: needs"
		       " Linux 6.12 with CONFIG_EROFS_FS_BACKED_BY_FILE, and"
		       " the file on a disk file system, not tmpfs)";
	case EINVAL:
		return " (damaged metadata, a feature this kernel lacks, or a"
		       " wrong number of data devices; see dmesg)";
	case EPERM:
		return " (needs CAP_SYS_ADMIN)";
	default:
		return "";
	}
}

/*
 * The kernel reads most of the metadata page by page; a walk right after the
 * mount takes 0.8 of the time when it is asked for as a whole (only asked for:
 * this does not wait).
 */
static void ask_for_metadata(const char *source)
{
	AUTO_CLOSE int fd = open(source, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)posix_fadvise(fd, 0, METADATA_AHEAD, POSIX_FADV_WILLNEED);
}

int erofs_mount(const char *source, const char *path, const char *data,
		unsigned int readahead_kib, struct error *err)
{
	AUTO_FREE struct bdi_set *before = NULL;

	ask_for_metadata(source);
	if (readahead_kib) {
		before = malloc(sizeof(*before));
		if (!before)
			return error_nomem(err);
		bdi_list(before);
	}
	/* Device nodes of a rootfs work through overlayfs, which has mount
	 * flags of its own; nobody opens them down here. */
	if (mount(source, path, "erofs", MS_RDONLY | MS_NODEV | MS_NOATIME,
		  data) < 0)
		return error_set(err, errno, "mount '%s' on '%s': %s%s", source,
				 path, strerror(errno), mount_hint(errno));
	if (readahead_kib)
		set_readahead(before, readahead_kib);
	return 0;
}

int erofs_mount_direct(const char *source, const char *path, const char *data,
		       unsigned int readahead_kib, struct error *err)
{
	AUTO_BUF direct = BUF_INIT;
	int rc;

	if (buf_printf(&direct, "%s%sdirectio", data ? data : "",
		       data ? "," : "") < 0)
		return error_nomem(err);
	rc = erofs_mount(source, path, direct.data, readahead_kib, err);
	/* Not every kernel that mounts files knows the option. */
	if (rc == -EINVAL)
		rc = erofs_mount(source, path, data, readahead_kib, err);
	return rc;
}
