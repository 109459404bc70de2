// SPDX-License-Identifier: Apache-2.0
#include "cli/job_init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fs.h"

#define STATUS_CANNOT_RUN 126 /* exit status that shells use, as is 127 */
#define STATUS_NOT_FOUND 127

static void become_command(char *const *command, const sigset_t *mask)
{
	const char *preload = getenv(JOB_INIT_PRELOAD);
	int code;

	if (preload)
		(void)setenv("LD_PRELOAD", preload, 1);
	(void)unsetenv(JOB_INIT_PRELOAD);
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	(void)execvp(command[0], command);
	code = errno;
	(void)dprintf(2, "bootseer job run: run '%.200s': %s\n", command[0],
		      strerror(code));
	_exit(code == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN);
}

/* Reap all children that have ended.  True: the command is among them. */
static bool reap_children(pid_t command, int *ret_status)
{
	bool has_ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != command)
			continue;
		has_ended = true;
		*ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						  : WEXITSTATUS(status);
	}
	return has_ended;
}

/* Has the signal to be passed on?  Signals of a terminal reach the command directly, except a
 * hangup, which only a session's first process gets. */
static bool is_signal_for_command(const struct signalfd_siginfo *info,
				  pid_t command)
{
	if (info->ssi_signo == SIGCHLD || (pid_t)info->ssi_pid == command)
		return false;
	return info->ssi_code <= 0 || info->ssi_signo == SIGHUP;
}

static void pass_own_signals(int own, pid_t command)
{
	struct signalfd_siginfo info;

	while (read(own, &info, sizeof(info)) == sizeof(info))
		if (is_signal_for_command(&info, command))
			(void)kill(command, (int)info.ssi_signo);
}

/* Pass on the signals that the FIFO brought.  False: no writer is left. */
static bool pass_told_signals(int told, pid_t command)
{
	unsigned char numbers[64];
	ssize_t n = read(told, numbers, sizeof(numbers));

	for (ssize_t i = 0; i < n; i++)
		(void)kill(command, numbers[i]);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static int follow_command(pid_t command, int own, int told)
{
	struct pollfd p[] = { { .fd = own, .events = POLLIN },
			      { .fd = told, .events = POLLIN } };
	/* Try one read first: poll() does not report a writer that closed before this FIFO was
	 * opened. */
	bool is_told = true;
	int status = 0;

	while (!reap_children(command, &status)) {
		if (is_told && !pass_told_signals(told, command)) {
			(void)kill(command, SIGKILL);
			p[1].fd = -1;
		}
		/* Wait without a deadline, as long as the command lives. */
		if (poll(p, 2, -1) < 0)
			p[0].revents = p[1].revents = 0;
		pass_own_signals(own, command);
		is_told = p[1].revents;
	}
	return status;
}

static int open_fifo(const char *dir, const char *name, int flags)
{
	AUTO_FREE char *path = fs_join(dir, name);

	return path ? open(path, flags | O_NONBLOCK | O_CLOEXEC) : -1;
}

int job_init_main(const char *dir, char *const *command)
{
	AUTO_CLOSE int told = open_fifo(dir, JOB_INIT_SIGNALS, O_RDONLY);
	AUTO_CLOSE int ended = open_fifo(dir, JOB_INIT_STATUS, O_WRONLY);
	AUTO_CLOSE int own = -1;
	unsigned char status;
	sigset_t all, old;
	pid_t pid;

	/* Block all: then even the first process's signals are kept for the signalfd. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	own = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (told < 0 || own < 0) {
		fprintf(stderr,
			"bootseer job run: signals of a container: %s\n",
			strerror(errno));
		return STATUS_CANNOT_RUN;
	}
	(void)prctl(PR_SET_NAME, JOB_INIT_COMM);
	pid = fork();
	if (pid == 0)
		become_command(command, &old);
	if (pid < 0) {
		fprintf(stderr, "bootseer job run: fork: %s\n",
			strerror(errno));
		return STATUS_CANNOT_RUN;
	}
	status = (unsigned char)follow_command(pid, own, told);
	if (ended >= 0)
		(void)!write(ended, &status, 1);
	return status;
}
