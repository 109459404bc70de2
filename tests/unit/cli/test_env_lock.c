// SPDX-License-Identifier: Apache-2.0
/* Locks of targets: which process waits for which. */
#include "envcache/lock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/env_child.h"
#include "common/fs.h"

TestSuite(env_lock, .timeout = 120);

/* user id of another user; XDG_RUNTIME_DIR sets where users other than root lock */
#define OTHER 65534

static char dir[] = "/tmp/bootseer-env-system.XXXXXX";
static pid_t holder;
static int n_waits;

static void note_wait(void *arg)
{
	n_waits++;
}

static char *site_paths[] = { (char[]){ "/opt/none/site" } };
static const struct env_targets site = { .paths = site_paths, .n = 1 };

static int take_lock_now(const struct env_targets *t, int *fd)
{
	return env_lock_take(t, 0, note_wait, NULL, fd, NULL);
}

/* Take the lock in a process that is not our ancestor, and send what it passes to its commands. */
static void hold_target_lock(int out)
{
	const char *passed;
	int fd;

	if (take_lock_now(&site, &fd) != 0 || fd < 0)
		_exit(EXIT_FAILURE);
	env_lock_pass(fd, getpid());
	passed = getenv(ENV_LOCK_VARIABLE);
	if (!passed || write(out, passed, strlen(passed) + 1) < 0)
		_exit(EXIT_FAILURE);
	for (;;)
		(void)pause();
}

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chmod(dir, 0777), 0);
	cr_assert_eq(setenv("XDG_RUNTIME_DIR", dir, 1), 0);
	cr_assert_eq(unsetenv(ENV_LOCK_VARIABLE), 0);
}

static void start_holder(char passed[80])
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	holder = fork();
	if (holder == 0)
		hold_target_lock(fds[1]);
	(void)close(fds[1]);
	cr_assert_gt(read(fds[0], passed, 80), 0);
	(void)close(fds[0]);
}

static void tear_down(void)
{
	if (holder > 0) {
		(void)kill(holder, SIGKILL);
		(void)waitpid(holder, NULL, 0);
	}
	if (getuid() == 0)
		cr_expect_eq(seteuid(0), 0);
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

static void become_other_user(void)
{
	if (geteuid() == 0)
		cr_assert_eq(seteuid(OTHER), 0);
}

Test(env_lock, who_is_run_by_the_one_that_has_it_does_not_wait, .init = set_up,
     .fini = tear_down)
{
	char passed[80];
	int fd = 0;

	become_other_user();
	start_holder(passed);
	cr_expect_eq(take_lock_now(&site, &fd), -EBUSY);
	cr_expect_eq(n_waits, 1);
	/* A variable left over from a process that has ended does not count. */
	cr_assert_eq(setenv(ENV_LOCK_VARIABLE, "1:1:1", 1), 0);
	cr_expect_eq(take_lock_now(&site, &fd), -EBUSY);
	cr_expect_eq(n_waits, 2);
	cr_assert_eq(setenv(ENV_LOCK_VARIABLE, passed, 1), 0);
	cr_expect_eq(take_lock_now(&site, &fd), 0);
	cr_expect_eq(fd, -1);
	cr_expect_eq(n_waits, 2);
}

Test(env_lock, the_command_is_told_of_it, .init = set_up, .fini = tear_down)
{
	char *sh[] = { (char[]){ "sh" }, (char[]){ "-c" },
		       (char[]){ "case $" ENV_LOCK_VARIABLE " in "
				 "*:$PPID) exit 3; esac" },
		       NULL };
	int fd = -1, status;

	become_other_user();
	cr_assert_eq(take_lock_now(&site, &fd), 0);
	cr_assert_geq(fd, 0);
	cr_assert_eq(env_child_run(sh, fd, NULL, &status, NULL, NULL), 0);
	cr_expect_eq(WEXITSTATUS(status), 3);
	cr_expect_null(getenv(ENV_LOCK_VARIABLE));
	(void)close(fd);
}

/* In its own process, as LeakSanitizer has to see that process's threads at its end. */
static void take_in_other_namespace(void)
{
	int fd = 0, rc = unshare(CLONE_NEWPID), status = 1;
	pid_t pid = rc == 0 ? fork() : -1;

	if (pid == 0) {
		rc = seteuid(OTHER);
		if (rc == 0)
			rc = take_lock_now(&site, &fd);
		_exit(rc == 0 && fd == -1 && n_waits == 0 ? 0 : 1);
	}
	_exit(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0
									: 1);
}

/* In another PID namespace the kernel does not name the lock's holder. */
Test(env_lock, in_another_pid_namespace_nobody_waits, .init = set_up,
     .fini = tear_down)
{
	char passed[80];
	int status;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip("it takes root");
	cr_assert_eq(seteuid(OTHER), 0);
	start_holder(passed);
	cr_assert_eq(seteuid(0), 0);
	pid = fork();
	if (pid == 0)
		take_in_other_namespace();
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

/* For each pair of related folders, existing or not; unrelated targets are independent. */
Test(env_lock, a_target_is_not_had_with_one_that_lies_in_it_or_around_it,
     .init = set_up, .fini = tear_down)
{
	static const struct {
		const char *path;
		bool is_free;
	} rows[] = {
		{ "/opt/none/site", false },
		{ "/opt/none/site/in/it", false },
		{ "/opt", false },
		{ "/opt/none", false },
		{ "/opt/none/sitepackages", true },
		{ "/opt/other", true },
		{ "/usr", true },
	};
	char passed[80];

	become_other_user();
	start_holder(passed);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *paths[] = { (char *)(uintptr_t)rows[i].path };
		const struct env_targets t = { .paths = paths, .n = 1 };
		int fd = -1, rc = take_lock_now(&t, &fd);

		cr_expect_eq(rc, rows[i].is_free ? 0 : -EBUSY, "%s: %d",
			     rows[i].path, rc);
		cr_expect_eq(fd >= 0, rows[i].is_free);
		if (fd >= 0)
			(void)close(fd);
		cr_expect_eq(env_lock_try(&t, &fd), rows[i].is_free);
		if (fd >= 0)
			(void)close(fd);
	}
}
