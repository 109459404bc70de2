// SPDX-License-Identifier: Apache-2.0
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"

#define READ_SIZE 4096u
/* The output file is this much larger than the limit: more than a program writes at once, so that
 * output that is too long gets past the limit and can be detected by its length. */
#define OUTPUT_SLACK (1u << 20)
#define STATUS_CANNOT_RUN 126 /* as shells have it */
#define STATUS_NOT_FOUND 127
#define TIED_END_MS \
	10000 /* a tied program that was told to end is killed then */

static int set_attributes(posix_spawnattr_t *a)
{
	sigset_t none, pipe;
	int rc;

	(void)sigemptyset(&none);
	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	rc = posix_spawnattr_setsigmask(a, &none);
	if (rc == 0)
		rc = posix_spawnattr_setsigdefault(a, &pipe);
	if (rc == 0)
		rc = posix_spawnattr_setpgroup(a, 0);
	if (rc == 0)
		rc = posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK |
							 POSIX_SPAWN_SETSIGDEF |
							 POSIX_SPAWN_SETPGROUP);
	return rc;
}

static int set_files(posix_spawn_file_actions_t *f, int in, int out, int errors)
{
	int rc = in < 0 ? posix_spawn_file_actions_addopen(f, 0, "/dev/null",
							   O_RDONLY, 0)
			: posix_spawn_file_actions_adddup2(f, in, 0);

	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(f, out, 1);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(f, errors, 2);
	return rc;
}

static bool has_variable(char *const *env, const char *variable)
{
	size_t n = strcspn(variable, "=");

	for (; env && *env; env++)
		if (strncmp(*env, variable, n) == 0 && (*env)[n] == '=')
			return true;
	return false;
}

static size_t count_variables(char *const *env)
{
	size_t n = 0;

	while (env && env[n])
		n++;
	return n;
}

/* Merge this process's variables with `env`, which wins for equal names.  The caller owns the list
 * but not its texts; NULL: no memory. */
static char **merge_variables(char *const *env)
{
	extern char **environ;
	char **all = calloc(count_variables(environ) + count_variables(env) + 1,
			    sizeof(*all));
	size_t n = 0;

	for (char **v = environ; all && v && *v; v++)
		if (!has_variable(env, *v))
			all[n++] = *v;
	for (; all && env && *env; env++)
		if (!has_variable(env + 1, *env))
			all[n++] = *env;
	return all;
}

static int start_program(char *const argv[], char *const env[], int in, int out,
			 int errors, pid_t *ret, struct error *err)
{
	AUTO_FREE char **all = merge_variables(env);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int rc;

	if (!all || posix_spawn_file_actions_init(&files) != 0)
		return error_nomem(err);
	if (posix_spawnattr_init(&attributes) != 0) {
		(void)posix_spawn_file_actions_destroy(&files);
		return error_nomem(err);
	}
	rc = set_files(&files, in, out, errors);
	if (rc == 0)
		rc = set_attributes(&attributes);
	if (rc == 0)
		rc = posix_spawnp(ret, argv[0], &files, &attributes, argv, all);
	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&files);
	return rc ? error_set(err, rc, "run %s: %s%s", argv[0], strerror(rc),
			      rc == ENOENT ? ": install it, or mend PATH" : "")
		  : 0;
}

int child_start_with(char *const argv[], int in, int out, int errors,
		     pid_t *ret, struct error *err)
{
	return start_program(argv, NULL, in, out, errors, ret, err);
}

int child_start(char *const argv[], int out, int errors, pid_t *ret,
		struct error *err)
{
	return child_start_with(argv, -1, out, errors, ret, err);
}

/* ------------------------------------------------------------------- tied programs --- */

static void become_program(char *const argv[], int out, int errors,
			   pid_t parent)
{
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC), code;
	sigset_t none;

	/* Where the parent is killed, too. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || in < 0 || dup2(in, STDIN_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0)
		_exit(STATUS_CANNOT_RUN);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execvp(argv[0], argv);
	code = errno;
	(void)dprintf(STDERR_FILENO, "run %s: %s%s\n", argv[0], strerror(code),
		      code == ENOENT ? ": install it, or mend PATH" : "");
	_exit(code == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN);
}

/* Pass on signals that the group got before the program was in it. */
static void pass_pending_signals(pid_t pid)
{
	sigset_t pending;

	(void)sigpending(&pending);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&pending, sig) == 1)
			(void)kill(pid, sig);
}

/* This process leads the group until the program has ended, so that no other group gets the
 * number. */
static void run_tied_program(char *const argv[], int out, int errors,
			     pid_t parent)
{
	struct pollfd p[] = { { .events = POLLIN }, { .events = POLLIN } };
	int status = 0;
	sigset_t all;
	pid_t own = getpid(), pid;

	(void)setpgid(0, 0);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	p[0].fd = (int)syscall(SYS_pidfd_open, parent, 0);
	if (p[0].fd < 0 || getppid() != parent)
		_exit(STATUS_CANNOT_RUN);
	pid = fork();
	if (pid == 0)
		become_program(argv, out, errors, own);
	if (pid < 0)
		_exit(STATUS_CANNOT_RUN);
	pass_pending_signals(pid);
	p[1].fd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Without a deadline: the program may run as long as the parent. */
	while (p[1].fd >= 0 && poll(p, ARRAY_SIZE(p), -1) < 0)
		;
	if (p[0].revents || p[1].fd < 0) {
		(void)kill(0, SIGTERM);
		(void)poll(&p[1], 1, TIED_END_MS);
		(void)kill(0, SIGKILL);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status)
				  : WEXITSTATUS(status));
}

int child_start_tied(char *const argv[], int out, int errors, pid_t *ret,
		     struct error *err)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return error_errno(err, errno, "fork");
	if (pid == 0)
		run_tied_program(argv, out, errors, parent);
	/* The child does so, too: no signal to the group may come before there is one. */
	(void)setpgid(pid, pid);
	*ret = pid;
	return 0;
}

/* ------------------------------------------------------------------ what is printed --- */

/* Append what the pipe holds now. */
static void drain_pipe(int fd, struct buf *ret)
{
	char some[READ_SIZE];
	ssize_t n;

	while ((n = read(fd, some, sizeof(some))) > 0)
		(void)!buf_append(ret, some, (size_t)n);
}

/* Read the child's output until the process of `pidfd` has ended; -ETIMEDOUT. */
static int follow_child(int pidfd, int in, int64_t deadline, struct buf *ret)
{
	struct pollfd p[] = { { .fd = pidfd, .events = POLLIN },
			      { .fd = in, .events = POLLIN } };

	for (;;) {
		int64_t left = deadline - clock_now_ms();
		int n = left > 0 ? poll(p, 2, (int)left) : 0;

		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue; /* interrupted by a signal */
		drain_pipe(in, ret);
		if (p[1].revents & POLLHUP)
			p[1].fd = -1; /* it closed its output, but runs */
		if (p[0].revents)
			return 0;
	}
}

static int capture_program(char *const argv[], char *const env[], int stdin_fd,
			   int stdout_fd, int64_t timeout_ms, struct buf *ret,
			   int *ret_status, struct error *err)
{
	int64_t deadline = clock_now_ms() + timeout_ms;
	AUTO_CLOSE int in = -1;
	AUTO_CLOSE int out = -1;
	AUTO_CLOSE int pidfd = -1;
	int ends[2], status = 0, rc;
	pid_t pid = -1;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	in = ends[0];
	out = ends[1];
	if (fcntl(in, F_SETFL, O_NONBLOCK) < 0)
		return error_errno(err, errno, "pipe");
	rc = start_program(argv, env, stdin_fd, stdout_fd < 0 ? out : stdout_fd,
			   out, &pid, err);
	if (rc < 0)
		return rc;
	(void)close(steal_fd(&out));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	rc = pidfd < 0 ? -errno : follow_child(pidfd, in, deadline, ret);
	if (rc < 0) /* kill the child and all that it started */
		(void)kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	drain_pipe(in, ret);
	if (rc < 0)
		return error_set(err, -rc, "%s: %s", argv[0],
				 rc == -ETIMEDOUT ? "did not end in time"
						  : strerror(-rc));
	*ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
					  : WEXITSTATUS(status);
	return 0;
}

int child_capture_with(char *const argv[], int stdin_fd, int stdout_fd,
		       int64_t timeout_ms, struct buf *ret, int *ret_status,
		       struct error *err)
{
	return capture_program(argv, NULL, stdin_fd, stdout_fd, timeout_ms, ret,
			       ret_status, err);
}

int child_capture(char *const argv[], int64_t timeout_ms, struct buf *ret,
		  int *ret_status, struct error *err)
{
	return child_capture_with(argv, -1, -1, timeout_ms, ret, ret_status,
				  err);
}

const char *child_last_line(struct buf *said)
{
	char *line;

	while (said->len && said->data[said->len - 1] == '\n')
		said->data[--said->len] = '\0';
	if (!said->len)
		return "it failed";
	line = memrchr(said->data, '\n', said->len);
	line = line ? line + 1 : said->data;
	text_make_printable(line);
	return line;
}

/* Make a file that holds `limit` bytes and OUTPUT_SLACK more.  It is bounded as the output may
 * have any size: names from strangers are in it. */
static int open_output(size_t limit, struct error *err)
{
	AUTO_CLOSE int fd =
		memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)limit + OUTPUT_SLACK) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
		return error_errno(err, errno, "memfd");
	return steal_fd(&fd);
}

/* Append the first `len` bytes of the file as a text. */
static int read_output(int fd, size_t len, struct buf *ret, struct error *err)
{
	int rc;

	if (len == 0)
		return 0;
	if (buf_reserve(ret, len) < 0)
		return error_nomem(err);
	rc = fs_pread_full(fd, ret->data, len, 0);
	if (rc < 0)
		return error_errno(err, -rc, "what was printed");
	ret->len = len;
	ret->data[len] = '\0';
	return 0;
}

int child_read_output(char *const argv[], char *const env[], int in,
		      size_t limit, int64_t timeout_ms, struct buf *ret,
		      struct buf *said, int *ret_status, struct error *err)
{
	AUTO_CLOSE int out = open_output(limit, err);
	off_t len;
	int rc;

	if (out < 0)
		return out;
	rc = capture_program(argv, env, in, out, timeout_ms, said, ret_status,
			     err);
	if (rc < 0)
		return rc;
	/* The child shares our open file, so its position is the number of bytes printed. */
	len = lseek(out, 0, SEEK_CUR);
	if (len < 0 || (size_t)len > limit)
		return error_set(err, EFBIG, "%s prints more than %zu bytes",
				 argv[0], limit);
	return ret ? read_output(out, (size_t)len, ret, err) : 0;
}
