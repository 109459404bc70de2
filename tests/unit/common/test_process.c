// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/process.h"

TestSuite(process_reap, .timeout = 60);

static pid_t run_child(void (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		fn();
		_exit(7);
	}
	cr_assert_gt(pid, 0);
	return pid;
}

static void end_at_once(void)
{
}

static void wait_for_ever(void)
{
	for (;;)
		(void)pause();
}

Test(process_reap, says_how_a_program_ended)
{
	struct error err = ERROR_INIT;
	int status = 0;

	cr_assert_eq(process_reap(run_child(end_at_once), 30000, 0, &status,
				  &err),
		     0, "%s", err.msg);
	cr_expect(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), 7);
}

Test(process_reap, kills_what_does_not_end_in_time)
{
	struct error err = ERROR_INIT;
	int status = 0;

	cr_assert_eq(process_reap(run_child(wait_for_ever), 50, 0, &status,
				  &err),
		     -ETIMEDOUT);
	cr_expect(WIFSIGNALED(status));
	cr_expect_eq(WTERMSIG(status), SIGKILL);
}

Test(process_reap, kills_at_once_after_a_failure_which_stays)
{
	struct error err = ERROR_INIT;
	int status = 0;

	cr_assert_eq(process_reap(run_child(wait_for_ever), 30000, -EIO,
				  &status, &err),
		     -EIO);
	cr_expect(WIFSIGNALED(status));
}
