// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

#define PROGRAM "bootseer-ckpt"
#define READY "ready"
#define END_TIMEOUT_MS 10000
#define SAID_MAX 4096u

/* Output of the mount's process that has not been printed yet. */
struct ckpt_said {
	char text[SAID_MAX];
	size_t len;
};

struct ckpt_starting {
	pid_t pid;
	int out;     /* read end of the pipe with its output */
	int signals; /* signalfd of the signals that end the wait */
	const char *log;
	struct ckpt_said said;
};

int ckpt_start_find(char **ret, struct error *err)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *const places[] = { "", "../sbin/" };
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		slash[1] = '\0';
	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
		if (asprintf(ret, "%s%s" PROGRAM, self, places[i]) < 0)
			return error_nomem(err);
		if (access(*ret, X_OK) == 0)
			return 0;
		free(*ret);
	}
	*ret = strdup(PROGRAM);
	return *ret ? 0 : error_nomem(err);
}

static void last_line(const char *path, char *ret, size_t size)
{
	AUTO_BUF text = BUF_INIT;
	char *line;

	(void)snprintf(ret, size, "see '%s'", path);
	if (fs_read_file(path, 1 << 20, &text, NULL) < 0 || !text.len)
		return;
	while (text.len && text.data[text.len - 1] == '\n')
		text.data[--text.len] = '\0';
	line = strrchr(text.data, '\n');
	(void)snprintf(ret, size, "%s", line ? line + 1 : text.data);
}

/* End the process and its holder, which share a process group.  Nothing was served yet, so no data
 * can be lost. */
static void end_mount_process(pid_t pid)
{
	AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	(void)kill(pid, SIGTERM);
	if (pidfd < 0 || poll(&p, 1, END_TIMEOUT_MS) <= 0)
		(void)kill(-pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* ---------------------------------------------------------------------- wait --- */

/* Print complete lines.  Returns true when a line says that the mount is served. */
static bool print_said_lines(struct ckpt_said *s)
{
	char *line = s->text, *end;

	while ((end = memchr(line, '\n', s->len - (size_t)(line - s->text)))) {
		*end = '\0';
		if (strcmp(line, READY) == 0)
			return true;
		text_make_printable(line);
		fprintf(stderr, "bootseer: %s\n", line);
		line = end + 1;
	}
	s->len -= (size_t)(line - s->text);
	memmove(s->text, line, s->len);
	return false;
}

/* Read output: 1 when the mount is served, 0 to go on waiting. */
static int read_process_output(struct ckpt_starting *s, struct error *err)
{
	char why[300];
	ssize_t n;

	if (s->said.len == sizeof(s->said.text))
		s->said.len = 0;
	n = read(s->out, s->said.text + s->said.len,
		 sizeof(s->said.text) - s->said.len);
	if (n > 0) {
		s->said.len += (size_t)n;
		return print_said_lines(&s->said);
	}
	(void)waitpid(s->pid, NULL, 0);
	last_line(s->log, why, sizeof(why));
	return error_set(err, EIO, "it did not start: %s", why);
}

static int end_interrupted(struct ckpt_starting *s, int *ret_signal,
			   struct error *err)
{
	struct signalfd_siginfo si;

	if (read(s->signals, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return 0;
	end_mount_process(s->pid);
	*ret_signal = (int)si.ssi_signo;
	return error_set(err, EINTR, "interrupted: nothing is mounted");
}

static int wait_ready(struct ckpt_starting *s, int64_t timeout_ms,
		      int *ret_signal, struct error *err)
{
	int64_t deadline = clock_now_ms() + timeout_ms, left;
	struct pollfd p[] = { { .fd = s->out, .events = POLLIN },
			      { .fd = s->signals, .events = POLLIN } };
	int rc = 0;

	while (rc == 0 && (left = deadline - clock_now_ms()) > 0) {
		if (poll(p, ARRAY_SIZE(p), (int)left) <= 0)
			continue;
		if (p[1].revents)
			rc = end_interrupted(s, ret_signal, err);
		else
			rc = read_process_output(s, err);
	}
	if (rc)
		return rc < 0 ? rc : 0;
	(void)kill(s->pid, SIGTERM);
	return error_set(err, ETIMEDOUT,
			 "it is not ready after %lld s: see '%s'",
			 (long long)(timeout_ms / 1000), s->log);
}

/* ---------------------------------------------------------------------- start --- */

/* Open a new log; the previous one is kept beside it, as it may name files that were lost. */
static int open_log(const char *dir, const char *log, struct error *err)
{
	AUTO_FREE char *before = fs_join(dir, "log.before");
	int fd;

	if (before)
		(void)!rename(log, before);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
		  0600);

	return fd < 0 ? error_set(err, errno, "open '%s': %s%s", log,
				  strerror(errno), error_root_hint(errno))
		      : fd;
}

/* Add a signal to the set, unless it is ignored (nohup, a shell's "&"). */
static void add_signal(sigset_t *set, int signal_number)
{
	struct sigaction a;

	if (sigaction(signal_number, NULL, &a) == 0 && a.sa_handler != SIG_IGN)
		(void)sigaddset(set, signal_number);
}

/* Catch the signals by a signalfd.  `*ret_old` is the previous mask, for the child. */
static int catch_signals(sigset_t *ret_old, struct error *err)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	add_signal(&set, SIGINT);
	add_signal(&set, SIGTERM);
	add_signal(&set, SIGHUP);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return error_errno(err, errno, "signalfd");
	(void)sigprocmask(SIG_BLOCK, &set, ret_old);
	return fd;
}

int ckpt_start(char *const argv[], const char *dir, int64_t timeout_ms,
	       int *ret_signal, struct error *err)
{
	AUTO_FREE char *log = fs_join(dir, "log");
	AUTO_CLOSE int log_fd =
		log ? open_log(dir, log, err) : error_nomem(err);
	AUTO_CLOSE int out = -1;
	AUTO_CLOSE int signals = -1;
	struct ckpt_starting s = { .log = log };
	sigset_t old;
	int fds[2], rc;

	if (log_fd < 0)
		return log_fd;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	out = s.out = fds[0];
	signals = s.signals = catch_signals(&old, err);
	rc = signals < 0 ? signals
			 : child_start(argv, fds[1], log_fd, &s.pid, err);
	(void)close(fds[1]);
	if (rc == 0)
		rc = wait_ready(&s, timeout_ms, ret_signal, err);
	if (signals >= 0)
		(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return rc;
}
