// SPDX-License-Identifier: Apache-2.0
/*
 * An ordinary daemon holds its lock itself.  A daemon that may be dumped must not, as criu hangs
 * when it restores a lock: a process outside its namespace holds the lock until the namespace
 * ends.
 */
#include "cli/env_daemon_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/env_daemon_init.h"
#include "cli/env_smoke.h"
#include "common/clock.h"
#include "common/fs.h"

#define LOOK_MS 100 /* pause between two checks for readiness */
#define SELF "/proc/self/exe"

/* ------------------------------------------------------------------------ processes --- */

/* Close all descriptors but these, which are in ascending order; a pipe left open would keep its
 * reader waiting for the end. */
static void close_others(const int *kept, size_t n)
{
	unsigned int from = 3;

	for (size_t i = 0; i < n; i++) {
		unsigned int fd = (unsigned int)kept[i];

		if (fd > from)
			(void)close_range(from, fd - 1, 0);
		from = fd + 1;
		(void)fcntl(kept[i], F_SETFD, 0);
	}
	(void)close_range(from, ~0u, 0);
}

static void reset_signals(void)
{
	sigset_t none;

	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Set stdin to /dev/null, and stdout and stderr to `fd`. */
static void set_files(int fd)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (dup2(null, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 ||
	    fcntl(1, F_SETFL, O_APPEND) < 0)
		_exit(126);
}

static void daemon_main(const struct daemon_start *s)
{
	(void)setsid();
	set_files(s->log_fd);
	close_others(&s->lock_fd, 1);
	reset_signals();
	(void)execl("/bin/sh", "sh", "-c", s->command, (char *)NULL);
	_exit(127);
}

static int open_pidfd(struct daemon_start *s, pid_t pid, struct error *err)
{
	s->pid = pid;
	s->pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	return s->pidfd < 0 ? error_errno(err, errno, "start it") : 0;
}

int daemon_spawn(struct daemon_start *s, struct error *err)
{
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		daemon_main(s);
	return open_pidfd(s, pid, err);
}

/* ------------------------------------------------------------------- in a namespace --- */

/* Reopen the log without O_NOFOLLOW: criu reopens it with the flags that it had, through a link in
 * /proc. */
static void set_log(const struct daemon_start *s)
{
	char path[40];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", s->log_fd);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		_exit(126);
	set_files(fd);
}

static void init_main(const struct daemon_start *s)
{
	set_log(s);
	close_others(NULL, 0);
	reset_signals();
	(void)execl(SELF, "bootseer", DAEMON_INIT, s->command, (char *)NULL);
	_exit(127);
}

static void watch_main(const struct daemon_start *s, const char *pidfile)
{
	int kept[] = { s->lock_fd < s->pidfd ? s->lock_fd : s->pidfd,
		       s->lock_fd < s->pidfd ? s->pidfd : s->lock_fd };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char fd[16];

	(void)snprintf(fd, sizeof(fd), "%d", s->pidfd);
	set_files(null);
	close_others(kept, ARRAY_SIZE(kept));
	reset_signals();
	(void)execl(SELF, "bootseer", DAEMON_WATCH, fd, pidfile, (char *)NULL);
	_exit(127);
}

/* Write the daemon's number to a file, and start the process that holds the lock while the daemon
 * lives. */
static int watch_daemon(struct daemon_start *s, struct error *err)
{
	char number[16];
	AUTO_FREE char *pidfile = NULL;
	pid_t pid;
	int rc;

	if (asprintf(&pidfile, "%s/%s.pid", s->dir, s->name) < 0) {
		pidfile = NULL;
		return error_nomem(err);
	}
	(void)snprintf(number, sizeof(number), "%d\n", (int)s->pid);
	rc = fs_replace_file(pidfile, number, strlen(number), 0600, err);
	if (rc < 0)
		return rc;
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		watch_main(s, pidfile);
	return pid < 0 ? error_errno(err, errno, "fork") : 0;
}

int daemon_adopt(struct daemon_start *s, pid_t pid, struct error *err)
{
	int rc = open_pidfd(s, pid, err);

	s->in_namespace = true;
	if (rc == 0)
		return watch_daemon(s, err);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return rc;
}

int daemon_spawn_alone(struct daemon_start *s, struct error *err)
{
	/* A time namespace lets the clocks go on from their values after a restore on a node that
	 * booted at another time; timers depend on that. */
	struct clone_args how = { .flags = CLONE_NEWPID | CLONE_NEWTIME,
				  .exit_signal = SIGCHLD };
	long pid;

	(void)fflush(NULL);
	pid = syscall(SYS_clone3, &how, sizeof(how));
	if (pid == 0)
		init_main(s);
	if (pid < 0)
		return error_errno(err, errno,
				   "make its PID and time namespaces");
	return daemon_adopt(s, (pid_t)pid, err);
}

/* ---------------------------------------------------------------------------- ready --- */

/* Wait a moment for the first process to end.  If it ends well, the daemon may be in the
 * background. */
static int wait_for_first_end(struct daemon_start *s, struct error *err)
{
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };
	siginfo_t ended = { .si_code = 0 };
	int status;

	/* poll() ignores a descriptor of -1, but still waits for the timeout. */
	if (poll(&p, 1, LOOK_MS) <= 0)
		return 0;
	if (waitid(P_PID, (id_t)s->pid, &ended, WEXITED | WNOWAIT) < 0)
		return error_errno(err, errno, "wait for it");
	(void)close(s->pidfd);
	s->pidfd = -1;
	/* Do not reap it: its number is that of its process group, which may have to be killed. */
	s->is_behind = ended.si_code == CLD_EXITED && ended.si_status == 0;
	if (s->is_behind)
		return 0;
	(void)waitpid(s->pid, &status, 0);
	return ended.si_code == CLD_EXITED
		       ? error_set(err, ECHILD, "it ended with %d",
				   ended.si_status)
		       : error_set(err, ECHILD, "it died of signal %d",
				   ended.si_status);
}

int daemon_wait_ready(struct daemon_start *s, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc;

	do {
		rc = wait_for_first_end(s, err);
		if (rc < 0 || !s->ready)
			return rc;
		rc = env_smoke_run(s->ready, s->deadline_ns, &why);
		if (rc == 0)
			return 0;
	} while (rc == -ECANCELED && clock_now_ns() < s->deadline_ns);
	if (rc != -ECANCELED)
		return error_errno(err, -rc,
				   "its --daemon-ready command cannot be run");
	return error_set(err, ETIMEDOUT,
			 "it is not ready within %s, by its --daemon-ready "
			 "command",
			 s->limit);
}

/* Kill a daemon that is not ready in time, with its process group or its namespace. */
void daemon_kill(struct daemon_start *s)
{
	if (s->pidfd < 0 && !s->is_behind)
		return;
	if (!s->in_namespace)
		(void)kill(-s->pid, SIGKILL);
	(void)kill(s->pid, SIGKILL);
	(void)waitpid(s->pid, NULL, 0);
	s->is_behind = false;
	if (s->pidfd >= 0)
		(void)close(steal_fd(&s->pidfd));
}
