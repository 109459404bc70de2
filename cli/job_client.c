// SPDX-License-Identifier: Apache-2.0
#include "cli/job_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/env_child.h"
#include "cli/job_init.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/fs.h"

#define STATUS_CANNOT_RUN 126 /* exit status that shells use for this */
#define TAKEN_MS 10000 /* how long a container may take to read a signal */
#define LOOK_S 1

static const int ends[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

static bool ends_jobs(int sig)
{
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i] == sig)
			return true;
	return false;
}

/* Start the client such that it gets no signals from the terminal, as they reach the container
 * through us: in its own session or, if it needs the terminal, with signals blocked. */
static void client_main(const struct job_client *c, pid_t parent)
{
	sigset_t mask = *c->mask;
	struct error err = ERROR_INIT;
	int status;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(STATUS_CANNOT_RUN);
	if (!c->is_terminal)
		(void)setsid();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		(void)sigaddset(&mask, ends[i]);
	if (c->in >= 0)
		(void)dup2(c->in, STDIN_FILENO);
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
	status = env_become(c->argv, &err);
	(void)dprintf(2, "bootseer job run: %s\n", err.msg);
	_exit(status);
}

static bool has_client_ended(pid_t pid, int *ret)
{
	int status;
	pid_t n;

	/* Only wait for the client: the numbers of other children stay valid until their starters
	 * reap them. */
	while ((n = waitpid(pid, &status, WNOHANG | WUNTRACED)) > 0) {
		if (!WIFSTOPPED(status)) {
			*ret = status;
			return true;
		}
		(void)raise(SIGSTOP);
		(void)kill(pid, SIGCONT);
	}
	return n < 0 && errno == ECHILD;
}

/* `pid` is the client's, or 0 when it has ended. */
static void pass_signal(const struct job_client *c, pid_t pid, int sig,
			int *ret_told)
{
	unsigned char number = (unsigned char)sig;

	/* A signal that was ignored at our start (nohup, background jobs of a shell) would be
	 * ignored by a program without a container, too. */
	if (sig == SIGCHLD || env_signal_is_ignored(sig))
		return;
	if (sig == SIGWINCH) {
		if (c->is_terminal && pid > 0)
			(void)kill(pid, sig);
		return;
	}
	if (ends_jobs(sig))
		*ret_told = sig;
	(void)!write(c->signals, &number, 1);
}

static bool has_untaken_signal(const struct job_client *c)
{
	int n = 0;

	return ioctl(c->signals, FIONREAD, &n) == 0 && n > 0;
}

/* Wait for the client's end.  False: it was killed, as the container did not read a signal. */
static bool follow_client(const struct job_client *c, pid_t pid,
			  const sigset_t *set, int *ret_status, int *ret_told)
{
	const struct timespec tick = { .tv_sec = LOOK_S };
	int64_t until = 0;
	bool is_given_up = false;

	while (!has_client_ended(pid, ret_status)) {
		int sig = *ret_told ? sigtimedwait(set, NULL, &tick)
				    : sigwaitinfo(set, NULL);

		if (sig > 0)
			pass_signal(c, pid, sig, ret_told);
		if (!*ret_told)
			continue;
		if (!until)
			until = clock_now_ms() + TAKEN_MS;
		if (clock_now_ms() >= until && has_untaken_signal(c)) {
			is_given_up = true;
			(void)kill(pid, SIGKILL);
		}
	}
	return !is_given_up;
}

pid_t job_client_read_pid(const char *pid_file)
{
	AUTO_BUF text = BUF_INIT;

	if (fs_read_file(pid_file, 32, &text, NULL) < 0 || !text.len)
		return 0;
	return (pid_t)strtol(text.data, NULL, 10);
}

/* Is `pid` the container's first process?  The number may be another process's by now.  Only
 * job_init_main() has that name and this FIFO. A container that was created but never started has
 * another name, and ends with its client. */
static bool is_init(const struct job_client *c, pid_t pid)
{
	struct stat ours, its;
	AUTO_BUF name = BUF_INIT;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (fs_read_file(path, 64, &name, NULL) < 0 || !name.len ||
	    strcmp(name.data, JOB_INIT_COMM "\n") != 0)
		return false;
	(void)snprintf(path, sizeof(path),
		       "/proc/%d/root" JOB_CONTAINER_DIR "/" JOB_INIT_SIGNALS,
		       (int)pid);
	return stat(path, &its) == 0 && fstat(c->signals, &ours) == 0 &&
	       its.st_ino == ours.st_ino && its.st_dev == ours.st_dev;
}

/* A pidfd of the container's first process; -1: it has ended. */
static int open_init(const struct job_client *c)
{
	const pid_t pid = job_client_read_pid(c->pid_file);
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd >= 0 && !is_init(c, pid))
		(void)close(steal_fd(&fd));
	return fd;
}

/* Wait for the container's first process, without a client.  False: it did not read a signal. */
static bool follow_init(const struct job_client *c, int init,
			const sigset_t *set, int *ret_told)
{
	AUTO_CLOSE int signals = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	struct pollfd p[] = { { .fd = init, .events = POLLIN },
			      { .fd = signals, .events = POLLIN } };
	struct signalfd_siginfo info;
	int64_t until = 0;

	fprintf(stderr, "bootseer job run: ctr has ended, as it does when "
			"containerd is started again: the container goes on\n");
	while (poll(p, 2, *ret_told ? LOOK_S * 1000 : -1) < 0 ||
	       !p[0].revents) {
		while (read(signals, &info, sizeof(info)) == sizeof(info))
			pass_signal(c, 0, (int)info.ssi_signo, ret_told);
		if (*ret_told && !until)
			until = clock_now_ms() + TAKEN_MS;
		if (until && clock_now_ms() >= until && has_untaken_signal(c))
			return false;
	}
	return true;
}

/* Use the status that the container's first process wrote at its end, if any: it is right even if
 * the client failed. */
static void note_status(const struct job_client *c, int *ret_status)
{
	unsigned char said[64];
	ssize_t n = read(c->status, said, sizeof(said));

	if (n > 0)
		*ret_status = said[n - 1] << 8;
}

int job_client_run(const struct job_client *c, int *ret_status, int *ret_told,
		   struct error *err)
{
	AUTO_CLOSE int init = -1;
	pid_t parent = getpid(), pid;
	sigset_t set, old;
	int code;

	*ret_status = *ret_told = 0;
	env_child_signals(&set);
	(void)fflush(NULL);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	pid = fork();
	code = errno;
	if (pid == 0)
		client_main(c, parent);
	if (pid > 0 && follow_client(c, pid, &set, ret_status, ret_told) &&
	    !c->is_terminal)
		init = open_init(c);
	/* Assume SIGKILL: in every other case the first process writes a status. */
	if (init >= 0)
		*ret_status = follow_init(c, init, &set, ret_told)
				      ? (128 + SIGKILL) << 8
				      : SIGKILL;
	if (pid > 0)
		note_status(c, ret_status);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? error_errno(err, code, "fork") : 0;
}
