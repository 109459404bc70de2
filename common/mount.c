// SPDX-License-Identifier: Apache-2.0
#include "common/mount.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/mountinfo.h"

/* ------------------------------------------------------------- isolation --- */

struct isolated_result {
	int rc;
	struct error err;
};

/* In the child, only the pipe for the result stays open, as RESULT_FD. */
#define RESULT_FD 3
/* A mount takes moments, but a mount that hangs in the kernel keeps the lock for long. */
#define LOCK_WAIT_S 20u
/* The child ends itself after this, so that it releases the lock even if its parent was killed.
 * Longer than the deadlines of all reads that a mount or unmount in the kernel may wait for. */
#define JOB_S 300u

static void close_other_descriptors(int fd)
{
	if (fd != RESULT_FD)
		(void)dup2(fd, RESULT_FD);
	(void)close_range(RESULT_FD + 1, ~0U, 0);
}

static void mount_on_alarm(int signo)
{
	(void)signo;
}

/* Called in the child.  Unblocks SIGALRM, which the thread that forked may have blocked. */
static void set_alarm(unsigned int seconds, void (*handler)(int))
{
	const struct sigaction end = { .sa_handler = handler };
	sigset_t set;

	(void)alarm(0);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGALRM);
	(void)sigaction(SIGALRM, &end, NULL);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	(void)alarm(seconds);
}

static int lock_in_time(int fd, struct flock *l, const char *path,
			struct error *err)
{
	int rc;

	set_alarm(LOCK_WAIT_S, mount_on_alarm);
	rc = fcntl(fd, F_OFD_SETLKW, l) < 0 ? -errno : 0;
	set_alarm(JOB_S, SIG_DFL);
	if (rc == -EINTR)
		return error_set(
			err, ETIMEDOUT,
			"lock '%s': a process that mounts or unmounts "
			"the same image has it for %u s: 'fuser -v %s' "
			"shows it",
			path, LOCK_WAIT_S, path);
	return rc < 0 ? error_errno(err, -rc, "lock '%s'", path) : 0;
}

static int run_locked(const char *path, uint64_t lock, mount_isolated_fn *fn,
		      void *arg, struct error *err)
{
	struct flock l = { .l_type = F_WRLCK,
			   .l_start = (off_t)lock,
			   .l_len = 1 };
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	rc = lock_in_time(fd, &l, path, err);
	return rc < 0 ? rc : fn(arg, err);
}

/* `path` is the file of locks. */
static void mount_child(int fd, const char *path, uint64_t lock,
			mount_isolated_fn *fn, void *arg)
{
	struct isolated_result r = { .rc = 0 };
	ssize_t n;

	set_alarm(JOB_S, SIG_DFL);
	close_other_descriptors(fd);
	r.rc = run_locked(path, lock, fn, arg, &r.err);
	n = write(RESULT_FD, &r, sizeof(r));
	/* Not exit(), which would flush the parent's buffers and run its handlers. */
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

int mount_isolated(const char *run_dir, uint64_t lock, mount_isolated_fn *fn,
		   void *arg, struct error *err)
{
	AUTO_FREE char *path = fs_join(run_dir, "mount.lock");
	struct isolated_result r;
	int p[2], rc, status = 0;
	pid_t pid;

	if (!path)
		return error_nomem(err);
	rc = fs_mkdir_p(run_dir, 0700, err);
	if (rc < 0)
		return rc;
	if (pipe2(p, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	pid = fork();
	if (pid < 0) {
		rc = error_errno(err, errno, "fork");
		(void)close(p[0]);
		(void)close(p[1]);
		return rc;
	}
	if (pid == 0)
		mount_child(p[1], path, lock, fn, arg);
	(void)close(p[1]);
	rc = read_result(p[0], &r);
	(void)close(p[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (rc < 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return error_set(err, ETIMEDOUT,
				 "to mount or unmount took over %u s", JOB_S);
	if (rc < 0)
		return error_set(err, EIO,
				 "the process that mounts ended early");
	if (r.rc < 0 && err)
		*err = r.err;
	return r.rc;
}

/* ---------------------------------------------------- what is mounted where --- */

void mount_line_fini(struct mount_line *l)
{
	free(l->root);
	free(l->path);
	free(l->fstype);
	free(l->source);
	*l = (struct mount_line){ .major = 0 };
}

/* Search state of mount_see(). */
struct mount_search {
	const char *path;
	struct mount_seen *found;
	bool any;
};

/* Copy `text` to *at and move *at past the copy; NULL when it does not fit. */
static char *copy_text(char **at, const char *end, const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = *at;

	if (n > (size_t)(end - copy))
		return NULL;
	memcpy(copy, text, n);
	*at += n;
	return copy;
}

/* Later lines replace earlier ones: their mounts lie on top. */
static int mount_compare(void *arg, const struct mountinfo *m,
			 struct error *err)
{
	struct mount_search *s = arg;
	char *at = s->found->text, *end = at + sizeof(s->found->text);
	struct mount_line *l = &s->found->line;

	if (strcmp(m->path, s->path) != 0)
		return 0;
	l->major = m->major;
	l->minor = m->minor;
	l->root = copy_text(&at, end, m->root);
	l->path = copy_text(&at, end, m->path);
	l->fstype = copy_text(&at, end, m->fstype);
	l->source = copy_text(&at, end, m->source);
	s->any = true;
	return l->root && l->path && l->fstype && l->source
		       ? 0
		       : error_set(err, ENAMETOOLONG,
				   "the names of the mount '%s' are too long",
				   s->path);
}

int mount_see(const char *path, struct mount_seen *ret, struct error *err)
{
	struct mount_search s = { .path = path, .found = ret };
	int rc = mountinfo_each(mount_compare, &s, err);

	return rc < 0 ? rc : s.any;
}

int mount_find(const char *path, struct mount_line *ret, struct error *err)
{
	struct mount_seen seen;
	struct mount_line l;
	int rc = mount_see(path, &seen, err);

	if (rc <= 0)
		return rc;
	l = (struct mount_line){
		.major = seen.line.major,
		.minor = seen.line.minor,
		.root = strdup(seen.line.root),
		.path = strdup(seen.line.path),
		.fstype = strdup(seen.line.fstype),
		.source = strdup(seen.line.source),
	};
	if (!l.root || !l.path || !l.fstype || !l.source) {
		mount_line_fini(&l);
		return error_nomem(err);
	}
	*ret = l;
	return 1;
}

int mount_options_add(struct mount_options *o, struct error *err,
		      const char *fmt, ...)
{
	size_t at = o->len ? o->len + 1 : 0;
	va_list ap;
	int n;

	if (at < sizeof(o->text)) {
		va_start(ap, fmt);
		n = vsnprintf(o->text + at, sizeof(o->text) - at, fmt, ap);
		va_end(ap);
		if (n >= 0 && (size_t)n < sizeof(o->text) - at) {
			if (at)
				o->text[o->len] = ',';
			o->len = at + (size_t)n;
			return 0;
		}
	}
	o->text[o->len] = '\0';
	return error_set(err, E2BIG,
			 "mount options are longer than the kernel takes");
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
		return error_errno(err, errno, "folder of mount point '%s'",
				   path);
	*ret = fs_join(strcmp(dir, "/") == 0 ? "" : dir, base);
	return *ret ? 0 : error_nomem(err);
}

/* --------------------------------------------------------------- unmounting --- */

struct umount_job {
	const char *path;
	dev_t dev; /* the file system's device number; 0: any */
	bool lazily;
};

static int umount_job(void *arg, struct error *err)
{
	const struct umount_job *j = arg;
	struct mount_seen seen;
	int rc = mount_see(j->path, &seen, err);

	if (rc <= 0)
		return rc;
	if (j->dev && j->dev != makedev(seen.line.major, seen.line.minor))
		return 0;
	if (umount2(j->path, UMOUNT_NOFOLLOW | (j->lazily ? MNT_DETACH : 0)) ==
	    0)
		return 0;
	/* Without CAP_SYS_PTRACE bootseerd cannot find out which process uses it. */
	if (errno == EBUSY)
		return error_set(err, EBUSY,
				 "in use: 'fuser -vm %s' shows by whom, end "
				 "that first",
				 j->path);
	return error_errno(err, errno, "unmount '%s'", j->path);
}

int mount_take_down_alone(const char *path, bool lazily, struct error *err)
{
	struct umount_job job = { .path = path, .lazily = lazily };

	return umount_job(&job, err);
}

int mount_take_down(const char *run_dir, uint64_t lock, const char *path,
		    bool lazily, struct error *err)
{
	return mount_take_down_dev(run_dir, lock, path, 0, lazily, err);
}

int mount_take_down_dev(const char *run_dir, uint64_t lock, const char *path,
			dev_t dev, bool lazily, struct error *err)
{
	AUTO_FREE char *canonical = NULL;
	struct umount_job job = { .dev = dev, .lazily = lazily };
	int rc = mount_canonical(path, &canonical, err);

	if (rc < 0)
		return rc;
	job.path = canonical;
	return mount_isolated(run_dir, lock, umount_job, &job, err);
}

bool mount_context_is_valid(const char *context)
{
	size_t len = strlen(context), n_parts = 1;

	for (const char *c = context; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("_.,:-", *c))
			return false;
		n_parts += *c == ':';
	}
	return len < MOUNT_CONTEXT_MAX && n_parts >= 3;
}
