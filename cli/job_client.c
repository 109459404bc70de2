// SPDX-License-Identifier: Apache-2.0
#include "cli/job_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/env_child.h"
#include "common/array.h"
#include "common/clock.h"

#define STATUS_CANNOT_RUN 126 /* as shells have it */
#define TAKEN_MS 10000 /* how long a container may take to take a signal */
#define LOOK_S 1

/* All but those that are of what this process does itself. */
static void passed_signals(sigset_t *ret)
{
	static const int own[] = { SIGSEGV, SIGBUS,  SIGFPE,  SIGILL, SIGTRAP,
				   SIGSYS,  SIGPIPE, SIGTTIN, SIGTTOU };

	(void)sigfillset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		(void)sigdelset(ret, own[i]);
}

static const int ends[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

static bool ends_jobs(int sig)
{
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i] == sig)
			return true;
	return false;
}

/* A terminal's signals reach our whole group, and the container has them from us: the client takes
 * none, in a session of its own, or, where it has to have the terminal, blocked. */
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

	/* Other children keep their numbers until whoever began them takes them in. */
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

static void pass_signal(const struct job_client *c, pid_t pid, int sig,
			int *ret_told)
{
	unsigned char number = (unsigned char)sig;

	/* A program without a container would have inherited that, as of nohup, or of a shell
	 * that has begun it in the background. */
	if (sig == SIGCHLD || env_signal_is_ignored(sig))
		return;
	if (sig == SIGWINCH) {
		if (c->is_terminal)
			(void)kill(pid, sig);
		return;
	}
	if (ends_jobs(sig))
		*ret_told = sig;
	(void)!write(c->signals, &number, 1);
}

static bool is_untaken(const struct job_client *c)
{
	int n = 0;

	return ioctl(c->signals, FIONREAD, &n) == 0 && n > 0;
}

static void follow_client(const struct job_client *c, pid_t pid,
			  const sigset_t *set, int *ret_status, int *ret_told)
{
	const struct timespec tick = { .tv_sec = LOOK_S };
	int64_t until = 0;

	while (!has_client_ended(pid, ret_status)) {
		int sig = *ret_told ? sigtimedwait(set, NULL, &tick)
				    : sigwaitinfo(set, NULL);

		if (sig > 0)
			pass_signal(c, pid, sig, ret_told);
		if (!*ret_told)
			continue;
		if (!until)
			until = clock_now_ms() + TAKEN_MS;
		if (clock_now_ms() >= until && is_untaken(c))
			(void)kill(pid, SIGKILL);
	}
}

int job_client_run(const struct job_client *c, int *ret_status, int *ret_told,
		   struct error *err)
{
	pid_t parent = getpid(), pid;
	sigset_t set, old;
	int code;

	*ret_status = *ret_told = 0;
	passed_signals(&set);
	(void)fflush(NULL);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	pid = fork();
	code = errno;
	if (pid == 0)
		client_main(c, parent);
	if (pid > 0)
		follow_client(c, pid, &set, ret_status, ret_told);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? error_set(err, code, "fork: %s", strerror(code)) : 0;
}
