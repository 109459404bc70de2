// SPDX-License-Identifier: Apache-2.0
/*
 * criu dumps the namespace's first process with the daemon.  So that process is small, has no
 * descriptor but the daemon's log, and waits in an interruptible system call.
 */
#include "cli/env_daemon_init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

#define STATUS_CANNOT_RUN 126 /* exit status that shells use, as is 127 */
#define STATUS_NOT_FOUND 127

static void begin_daemon(const char *command)
{
	sigset_t none;

	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(STATUS_NOT_FOUND);
}

/* The signals to wait for.  They must be blocked: the kernel drops signals to a namespace's first
 * process that it neither handles nor blocks. */
static void watched_signals(sigset_t *ret)
{
	static const int watched[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
				       SIGUSR1, SIGUSR2, SIGCHLD };

	(void)sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		(void)sigaddset(ret, watched[i]);
}

/* Reap all children that have ended.  True: no child is left, or the daemon failed. */
static bool reap_children(pid_t *daemon, int *ret_status)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != *daemon)
			continue;
		*daemon = 0;
		*ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						  : WEXITSTATUS(status);
		if (*ret_status)
			return true;
	}
	return pid < 0 && errno == ECHILD;
}

int daemon_init_main(const char *command)
{
	int status = 0;
	pid_t daemon;
	sigset_t set;

	/* The session must be one of this namespace, or criu cannot dump it. */
	if (getpid() != 1 || setsid() < 0)
		return STATUS_CANNOT_RUN;
	(void)prctl(PR_SET_NAME, "bootseer-init");
	watched_signals(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	daemon = fork();
	if (daemon == 0)
		begin_daemon(command);
	if (daemon < 0)
		return STATUS_CANNOT_RUN;
	while (!reap_children(&daemon, &status)) {
		int sig = sigwaitinfo(&set, NULL);

		/* If the daemon went to the background, its first process has ended, and all
		 * remaining processes get the signal. */
		if (sig > 0 && sig != SIGCHLD)
			(void)kill(daemon ? daemon : -1, sig);
	}
	return status;
}

int daemon_watch_main(const char *pidfd, const char *pidfile)
{
	struct pollfd p = { .fd = atoi(pidfd), .events = POLLIN };
	int n;

	(void)setsid();
	(void)prctl(PR_SET_NAME, "bootseer-watch");
	/* Wait without a deadline, as long as the daemon lives. */
	do
		n = poll(&p, 1, -1);
	while (n < 0 && errno == EINTR);
	(void)unlink(pidfile);
	return n > 0 && (p.revents & POLLIN) ? EXIT_SUCCESS : EXIT_FAILURE;
}
