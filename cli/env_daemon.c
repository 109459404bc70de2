// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon has a log and a lock in a folder that is its user's alone.  It inherits the
 * lock, which is free again when it and all that it started have ended, whoever they are
 * the children of by then.
 */
#include "cli/env_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/env_smoke.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"

#define NAME_LEN_MAX 64
#define LOOK_MS 100 /* between two looks whether it is ready */

struct daemon_start {
	const char *command, *ready;
	char name[NAME_LEN_MAX + 1];
	char *log; /* its path */
	int log_fd, lock_fd;
	pid_t pid;
	int pidfd; /* -1: it has ended well, and left others behind */
	int64_t deadline_ns;
};

/* ------------------------------------------------------------------------- options --- */

static size_t name_len(const char *text)
{
	return strspn(text,
		      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		      "0123456789._-");
}

static const char *find(char *const *list, const char *name, size_t len)
{
	for (; list && *list; list++)
		if (strncmp(*list, name, len) == 0 && (*list)[len] == '=')
			return *list + len + 1;
	return NULL;
}

static int check_one(const char *text, const char *option, struct error *err)
{
	size_t len = name_len(text);

	if (len > 0 && len <= NAME_LEN_MAX && *text != '.' &&
	    text[len] == '=' && text[len + 1])
		return 0;
	return error_set(err, EINVAL,
			 "--%s '%.80s': want NAME=COMMAND, the name of up to "
			 "%d letters, digits, '.', '_' and '-'",
			 option, text, NAME_LEN_MAX);
}

int env_daemons_check(const struct env_daemons *d, struct error *err)
{
	int rc = 0;

	for (char **c = d->commands; rc == 0 && c && *c; c++) {
		rc = check_one(*c, "daemon", err);
		if (rc == 0 && find(c + 1, *c, name_len(*c)))
			rc = error_set(
				err, EINVAL,
				"--daemon '%.80s': there are two of this "
				"name",
				*c);
	}
	for (char **r = d->ready; rc == 0 && r && *r; r++) {
		rc = check_one(*r, "daemon-ready", err);
		if (rc == 0 && !find(d->commands, *r, name_len(*r)))
			rc = error_set(
				err, EINVAL,
				"--daemon-ready '%.80s': no --daemon has "
				"this name",
				*r);
	}
	return rc;
}

/* ------------------------------------------------------------------------- folder --- */

static char *usual_dir(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char *path;

	if (geteuid() == 0)
		return strdup("/run/bootseer-daemons");
	if (run && *run == '/')
		return fs_join(run, "bootseer-daemons");
	return asprintf(&path, "/tmp/bootseer-daemons-%u", geteuid()) < 0
		       ? NULL
		       : path;
}

/* Made when it is not there; else it has to be ours, and nobody else's to write to. */
static int open_dir(const char *path, int *ret, struct error *err)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno,
				 "make '%.200s': %s: name another folder with "
				 "--daemon-dir",
				 path, strerror(errno));
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0 || fstat(*ret, &st) < 0)
		return error_set(err, errno, "open '%.200s': %s", path,
				 strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return error_set(err, EPERM,
				 "'%.200s' is not a folder that only user %u "
				 "may write to: name another with --daemon-dir",
				 path, geteuid());
	return 0;
}

static int open_file(int dir, const char *name, const char *end, int flags)
{
	char file[NAME_LEN_MAX + 8];

	(void)snprintf(file, sizeof(file), "%s.%s", name, end);
	return openat(dir, file,
		      flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		      0600);
}

static int open_files(struct daemon_start *s, const char *dir,
		      struct error *err)
{
	AUTO_CLOSE int at = -1;
	int rc = open_dir(dir, &at, err);

	if (rc < 0)
		return rc;
	if (asprintf(&s->log, "%s/%s.log", dir, s->name) < 0) {
		s->log = NULL;
		return error_nomem(err);
	}
	s->lock_fd = open_file(at, s->name, "lock", O_RDWR);
	s->log_fd = open_file(at, s->name, "log", O_WRONLY | O_APPEND);
	if (s->lock_fd < 0 || s->log_fd < 0)
		return error_set(err, errno, "open '%.200s' and its lock: %s",
				 s->log, strerror(errno));
	return 0;
}

/* -------------------------------------------------------------------------- start --- */

/* Whoever reads a pipe of ours waits for its end: the daemon has none of our descriptors
 * but its lock. */
static void close_others(int lock_fd)
{
	unsigned int lock = (unsigned int)lock_fd;

	if (lock > 3)
		(void)close_range(3, lock - 1, 0);
	(void)close_range(lock + 1, ~0u, 0);
}

static void daemon_main(const struct daemon_start *s)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)setsid();
	if (dup2(null, 0) < 0 || dup2(s->log_fd, 1) < 0 ||
	    dup2(s->log_fd, 2) < 0 || fcntl(s->lock_fd, F_SETFD, 0) < 0 ||
	    fcntl(1, F_SETFL, O_APPEND) < 0)
		_exit(126);
	close_others(s->lock_fd);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execl("/bin/sh", "sh", "-c", s->command, (char *)NULL);
	_exit(127);
}

static int spawn_daemon(struct daemon_start *s, struct error *err)
{
	(void)fflush(NULL);
	s->pid = fork();
	if (s->pid == 0)
		daemon_main(s);
	if (s->pid > 0)
		s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
	return s->pid < 0 || s->pidfd < 0
		       ? error_set(err, errno, "start it: %s", strerror(errno))
		       : 0;
}

/* Wait a moment for its end.  One that ends well may have gone to the background. */
static int look_for_end(struct daemon_start *s, struct error *err)
{
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };
	int status;

	/* poll() passes over a descriptor of -1, and waits all the same. */
	if (poll(&p, 1, LOOK_MS) <= 0)
		return 0;
	if (waitpid(s->pid, &status, 0) != s->pid)
		return error_set(err, errno, "wait for it: %s",
				 strerror(errno));
	(void)close(s->pidfd);
	s->pidfd = -1;
	if (WIFSIGNALED(status))
		return error_set(err, ECHILD, "it died of signal %d",
				 WTERMSIG(status));
	return WEXITSTATUS(status) == 0
		       ? 0
		       : error_set(err, ECHILD, "it ended with %d",
				   WEXITSTATUS(status));
}

static int wait_until_ready(struct daemon_start *s, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc;

	do {
		rc = look_for_end(s, err);
		if (rc < 0 || !s->ready)
			return rc;
		rc = env_smoke_run(s->ready, s->deadline_ns, &why);
		if (rc == 0)
			return 0;
	} while (rc == -ECANCELED && clock_now_ns() < s->deadline_ns);
	if (rc != -ECANCELED)
		return error_set(err, -rc,
				 "its --daemon-ready command cannot be run: %s",
				 strerror(-rc));
	return error_set(err, ETIMEDOUT,
			 "it is not ready within --daemon-timeout, by its "
			 "--daemon-ready command");
}

static int start_one(struct daemon_start *s, const char *dir, struct error *err)
{
	int rc = open_files(s, dir, err);

	if (rc < 0)
		return rc;
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return error_set(err, errno, "lock it: %s",
					 strerror(errno));
		s->pid = -1; /* it runs already */
		return wait_until_ready(s, err);
	}
	rc = spawn_daemon(s, err);
	return rc < 0 ? rc : wait_until_ready(s, err);
}

/* One that is not ready in time is not wanted: it ends with all of its session's group. */
static void end_start(struct daemon_start *s, bool is_wanted)
{
	if (!is_wanted && s->pidfd >= 0) {
		(void)kill(-s->pid, SIGKILL);
		(void)kill(s->pid, SIGKILL);
		(void)waitpid(s->pid, NULL, 0);
	}
	if (s->pidfd >= 0)
		(void)close(s->pidfd);
	if (s->lock_fd >= 0)
		(void)close(s->lock_fd);
	if (s->log_fd >= 0)
		(void)close(s->log_fd);
	free(s->log);
}

int env_daemons_start(const struct env_daemons *d, struct error *err)
{
	AUTO_FREE char *usual = d->dir ? NULL : usual_dir();
	const char *dir = d->dir ? d->dir : usual;
	int rc = 0;

	if (!dir)
		return error_nomem(err);
	for (char **c = d->commands; rc == 0 && c && *c; c++) {
		size_t len = name_len(*c);
		struct daemon_start s = {
			.command = *c + len + 1,
			.ready = find(d->ready, *c, len),
			.log_fd = -1,
			.lock_fd = -1,
			.pidfd = -1,
			.deadline_ns = clock_now_ns() + d->timeout,
		};

		(void)snprintf(s.name, sizeof(s.name), "%.*s", (int)len, *c);
		rc = start_one(&s, dir, err);
		if (rc < 0)
			rc = error_wrap(err, rc, "daemon '%s' (%s)", s.name,
					s.log ? s.log : dir);
		end_start(&s, rc == 0);
	}
	return rc;
}
