// SPDX-License-Identifier: Apache-2.0
#include "cli/env_child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "envcache/lock.h"

#define STATUS_CANNOT_RUN 126 /* exit status that shells use, as is 127 */
#define STATUS_NOT_FOUND 127

/* Dispositions of the signals before main() changed them; written once, before threads start. */
static struct sigaction old_pipe, old_child;

void env_signals_take(void)
{
	struct sigaction a = { .sa_handler = SIG_IGN };

	(void)sigaction(SIGPIPE, &a, &old_pipe);
	a.sa_handler = SIG_DFL;
	(void)sigaction(SIGCHLD, &a, &old_child);
}

bool env_signal_is_ignored(int sig)
{
	struct sigaction a;

	return sigaction(sig, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

static void restore_signal_actions(void)
{
	(void)sigaction(SIGPIPE, &old_pipe, NULL);
	(void)sigaction(SIGCHLD, &old_child, NULL);
}

int env_become(char *const *argv, struct error *err)
{
	int code;

	(void)fflush(NULL);
	restore_signal_actions();
	(void)execvp(argv[0], argv);
	code = errno;
	(void)error_set(err, code, "run '%.200s': %s", argv[0], strerror(code));
	return code == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

/* ---------------------------------------------------------------------- the child --- */

static void child_main(char *const *argv, int lock, pid_t parent,
		       const sigset_t *mask)
{
	struct error err = ERROR_INIT;
	int status;

	/* If this process is killed by a signal that cannot be passed on, kill the command too. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(STATUS_CANNOT_RUN);
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	env_lock_pass(lock, parent);
	status = env_become(argv, &err);
	(void)dprintf(2, "bootseer env run: %s\n", err.msg);
	_exit(status);
}

void env_child_signals(sigset_t *ret)
{
	static const int own[] = { SIGSEGV, SIGBUS,  SIGFPE,  SIGILL, SIGTRAP,
				   SIGSYS,  SIGPIPE, SIGTTIN, SIGTTOU };

	(void)sigfillset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		(void)sigdelset(ret, own[i]);
}

/* Has the signal to be passed on to the command?  Signals from a terminal go to the whole process
 * group, so the command has them already, except a hangup, which only the session's leader gets.
 * An ignored hangup (nohup) is not passed on: container runtimes would end their containers. */
static bool is_signal_to_pass(const siginfo_t *info)
{
	if (info->si_signo == SIGHUP && env_signal_is_ignored(SIGHUP))
		return false;
	return info->si_code <= 0 ||
	       (info->si_signo == SIGHUP && getsid(0) == getpid());
}

/* Has the command ended?  If it was stopped, this process stops too, for job control.  `which` -1
 * also reaps processes that the command left to us, which would fill the process table; children
 * of other threads are not reaped. */
static bool has_command_ended(pid_t pid, pid_t which, int *ret)
{
	int status;
	pid_t n;

	while ((n = waitpid(which, &status,
			    WNOHANG | WUNTRACED | __WNOTHREAD)) > 0) {
		if (n != pid)
			continue;
		if (!WIFSTOPPED(status)) {
			*ret = status;
			return true;
		}
		(void)raise(SIGSTOP);
		(void)kill(pid, SIGCONT);
	}
	return n < 0 && errno == ECHILD;
}

static bool ends_commands(int sig)
{
	return sig == SIGHUP || sig == SIGINT || sig == SIGQUIT ||
	       sig == SIGTERM;
}

static void follow_child(pid_t pid, pid_t which, const sigset_t *set, int *ret,
			 int *ret_told)
{
	siginfo_t info;

	while (!has_command_ended(pid, which, ret)) {
		int sig = sigwaitinfo(set, &info);

		if (ends_commands(sig) && ret_told)
			*ret_told = sig;

		if (sig > 0 && sig != SIGCHLD && is_signal_to_pass(&info) &&
		    info.si_pid != pid)
			(void)kill(pid, sig);
	}
}

int env_child_run(char *const *argv, int lock, const sigset_t *mask, int *ret,
		  int *ret_told, struct error *err)
{
	pid_t parent = getpid(), pid;
	sigset_t set, old;

	env_child_signals(&set);
	(void)fflush(NULL);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	pid = fork();
	if (pid == 0)
		child_main(argv, lock, parent, mask ? mask : &old);
	if (pid < 0) {
		int code = errno;

		(void)sigprocmask(SIG_SETMASK, &old, NULL);
		return error_set(err, code, "fork: %s", strerror(code));
	}
	*ret = 0;
	if (ret_told)
		*ret_told = 0;
	follow_child(pid, mask ? pid : -1, &set, ret, ret_told);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return 0;
}

void env_end_as(int status)
{
	const struct rlimit no_core = { 0, 0 };
	struct sigaction dies = { .sa_handler = SIG_DFL };
	sigset_t set;

	(void)fflush(NULL);
	if (!WIFSIGNALED(status))
		exit(WEXITSTATUS(status));
	/* The command has written its core already; do not overwrite it. */
	(void)setrlimit(RLIMIT_CORE, &no_core);
	(void)sigaction(WTERMSIG(status), &dies, NULL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, WTERMSIG(status));
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	(void)raise(WTERMSIG(status));
	exit(128 + WTERMSIG(status));
}
