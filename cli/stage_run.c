// SPDX-License-Identifier: Apache-2.0
/*
 * bootseer stage run: run a command as a stage.  The caller sees what it would see of the command
 * itself: its exit status or signal; and signals are passed on.  May be process 1 of a container,
 * and then reaps orphans.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/stage.h"

#define STATUS_NO_PROGRAM 127
#define STATUS_NO_EXEC 126

struct config {
	struct stage_owner owner;
};

static const struct option_spec options[] = {
	STAGE_OWNER_OPTIONS(struct config),
	STAGE_RANK_OPTION(struct config),
	{ .key = NULL },
};

/* The command, which follows the stage's name and "--". */
static char **command_of(char **args)
{
	return args + (strcmp(args[1], "--") == 0 ? 2 : 1);
}

static int check_stage_run(const void *config, char **args, struct error *err)
{
	const struct config *c = config;
	int rc = stage_owner_check(&c->owner, err);

	if (rc == 0)
		rc = stage_name_check(args[0], err);
	if (rc == 0 && !*command_of(args))
		rc = error_set(err, EINVAL, "name the command to run");
	return rc;
}

/* Print an event on stderr, as a program may read stdout.  Failures are ignored: the command's
 * status counts. */
static void print_stage_event(const struct config *c, const char *name,
			      enum stage_ev ev, int64_t status)
{
	AUTO_BUF line = BUF_INIT;
	struct stage_event e;

	stage_say(&c->owner, name, ev, &e);
	e.status = status;
	if (stage_event_format(&e, &line) == 0)
		(void)!write(STDERR_FILENO, line.data, line.len);
}

/* The signals to wait for: SIGCHLD and all that can be passed on.  Not those of faults of this
 * process; not those that stop it, which the terminal sends to the command as well. */
static void choose_signals(sigset_t *ret)
{
	static const int own[] = { SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
				   SIGFPE,  SIGSEGV, SIGSYS,  SIGTSTP,
				   SIGTTIN, SIGTTOU, SIGCONT };

	(void)sigfillset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		(void)sigdelset(ret, own[i]);
}

static void become_command(char **argv, const sigset_t *mask)
{
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	(void)execvp(argv[0], argv);
	fprintf(stderr, "bootseer stage run: %s: %s\n", argv[0],
		strerror(errno));
	_exit(errno == ENOENT ? STATUS_NO_PROGRAM : STATUS_NO_EXEC);
}

/* Reap all children that have ended; is `pid` one of them? */
static bool reap_children(pid_t pid, int *ret_status)
{
	bool is_over = false;
	int status;
	pid_t one;

	while ((one = waitpid(-1, &status, WNOHANG)) > 0) {
		if (one == pid) {
			*ret_status = status;
			is_over = true;
		}
	}
	return is_over;
}

static int follow_command(pid_t pid, const sigset_t *signals)
{
	siginfo_t info;
	int status = 0;

	while (!reap_children(pid, &status)) {
		int sig = sigwaitinfo(signals, &info);

		/* The kernel sent signals of the terminal to the command, too. */
		if (sig > 0 && sig != SIGCHLD && info.si_code != SI_KERNEL)
			(void)kill(pid, sig);
	}
	return status;
}

/* End by the signal that ended the command, without writing a second core. */
static void die_by_signal(int sig)
{
	const struct rlimit none = { 0, 0 };
	sigset_t one;

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)signal(sig, SIG_DFL);
	(void)sigemptyset(&one);
	(void)sigaddset(&one, sig);
	(void)raise(sig);
	(void)sigprocmask(SIG_UNBLOCK, &one, NULL);
}

static int run_stage_run(const void *config, char **args, struct error *err)
{
	const struct config *c = config;
	sigset_t signals, before;
	int status;
	pid_t pid;

	choose_signals(&signals);
	(void)sigprocmask(SIG_BLOCK, &signals, &before);
	print_stage_event(c, args[0], STAGE_BEGIN, STAGE_NONE);
	/* If SIGCHLD were ignored, children could not be waited for. */
	(void)signal(SIGCHLD, SIG_DFL);
	pid = fork();
	if (pid < 0)
		return error_errno(err, errno, "fork");
	if (pid == 0)
		become_command(command_of(args), &before);
	status = follow_command(pid, &signals);
	if (WIFSIGNALED(status)) {
		print_stage_event(c, args[0], STAGE_END,
				  128 + WTERMSIG(status));
		die_by_signal(WTERMSIG(status));
		/* Reached as process 1, which its own signals do not kill. */
		return 128 + WTERMSIG(status);
	}
	print_stage_event(c, args[0], STAGE_END, WEXITSTATUS(status));
	return WEXITSTATUS(status);
}

const struct command stage_run_command = {
	.brief = "Run a command as a stage of a job's start",
	.program = {
		.name = "bootseer stage run",
		.usage = "[OPTIONS] NAME -- COMMAND [ARGUMENT...]",
		.summary = "Run COMMAND, and print on standard error when the "
			   "stage NAME begins and ends with it. Signals are "
			   "passed on to it, and it ends as COMMAND does: "
			   "with its exit status, or by its signal. 127: "
			   "there is no such program; 126: it cannot be run.",
		.options = options,
		.examples = "bootseer stage run env.install -- pip install -r "
			    "requirements.txt\n",
		.min_args = 2,
		.max_args = -1,
	},
	.config_size = sizeof(struct config),
	.is_status = true,
	.check = check_stage_run,
	.run = run_stage_run,
};
