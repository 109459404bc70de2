// SPDX-License-Identifier: Apache-2.0
#include "cli/child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(child, .timeout = 120);

static char *sh[] = { (char[]){ "sh" }, (char[]){ "-c" }, NULL, NULL };

Test(child, gives_both_outputs_and_the_exit_status)
{
	AUTO_BUF out = BUF_INIT;
	struct error err = ERROR_INIT;
	int status;

	sh[2] = (char[]){ "echo one; echo two >&2; exit 3" };
	cr_assert_eq(child_capture(sh, 20000, &out, &status, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(status, 3);
	cr_expect_str_eq(out.data, "one\ntwo\n");
}

Test(child, may_have_files_for_its_input_and_output)
{
	int in = memfd_create("in", 0), to = memfd_create("out", 0);
	AUTO_BUF said = BUF_INIT;
	struct error err = ERROR_INIT;
	char got[8] = "";
	int status;

	cr_assert(in >= 0 && to >= 0);
	cr_assert_eq(pwrite(in, "abc", 3, 0), 3);
	sh[2] = (char[]){ "cat; echo two >&2" };
	cr_assert_eq(child_capture_with(sh, in, to, 20000, &said, &status,
					&err),
		     0, "%s", err.msg);
	cr_expect_eq(status, 0);
	cr_expect_str_eq(said.data, "two\n");
	cr_expect_eq(pread(to, got, sizeof(got) - 1, 0), 3);
	cr_expect_str_eq(got, "abc");
	close(in);
	close(to);
}

Test(child, says_that_there_is_no_such_program)
{
	char *argv[] = { (char[]){ "no-such-program-here" }, NULL };
	AUTO_BUF out = BUF_INIT;
	struct error err = ERROR_INIT;
	int status;

	cr_expect_eq(child_capture(argv, 20000, &out, &status, &err), -ENOENT);
}

Test(child, kills_what_does_not_end)
{
	AUTO_BUF out = BUF_INIT;
	struct error err = ERROR_INIT;
	int status;

	sh[2] = (char[]){ "exec tail -f /dev/null" };
	cr_expect_eq(child_capture(sh, 100, &out, &status, &err), -ETIMEDOUT);
}

Test(child, drops_what_is_over_the_limit)
{
	AUTO_BUF out = { .limit = 10000 };
	struct error err = ERROR_INIT;
	int status;

	sh[2] = (char[]){ "head -c 3000000 /dev/zero; kill -9 $$" };
	cr_assert_eq(child_capture(sh, 20000, &out, &status, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(status, 128 + 9);
	cr_expect_leq(out.len, 10000);
}

Test(child, is_not_held_up_by_what_the_program_leaves_behind)
{
	AUTO_BUF out = BUF_INIT;
	struct error err = ERROR_INIT;
	int status;

	int left = 0;

	sh[2] = (char[]){ "tail -f /dev/null & echo $!" };
	cr_assert_eq(child_capture(sh, 20000, &out, &status, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(sscanf(out.data, "%d", &left), 1);
	cr_assert_gt(left, 1);
	cr_expect_eq(kill(left, SIGKILL), 0);
}

Test(child, has_variables_of_its_own)
{
	char *env[] = { (char[]){ "CHILD_A=1" }, (char[]){ "CHILD_B=1" },
			(char[]){ "CHILD_A=2" }, NULL };
	AUTO_BUF out = BUF_INIT, said = BUF_INIT;
	struct error err = ERROR_INIT;
	int status;

	cr_assert_eq(setenv("CHILD_B", "ours", 1), 0);
	cr_assert_eq(setenv("CHILD_BC", "ours", 1), 0);
	sh[2] = (char[]){ "echo $CHILD_A $CHILD_B $CHILD_BC" };
	cr_assert_eq(child_read_output(sh, env, -1, 100, 20000, &out, &said,
				       &status, &err),
		     0, "%s", err.msg);
	cr_expect_str_eq(out.data, "2 1 ours\n");
	cr_expect_str_eq(getenv("CHILD_B"), "ours");
	cr_expect_null(getenv("CHILD_A"));
}

/* ------------------------------------------------------------------- tied programs --- */

static int tied_status(char *const argv[], struct buf *ret)
{
	struct error err = ERROR_INIT;
	int fd = memfd_create("said", 0), status = 0;
	pid_t pid;

	cr_assert(fd >= 0);
	cr_assert_eq(child_start_tied(argv, fd, fd, &pid, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(getpgid(pid), pid);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	buf_reset(ret);
	cr_assert_eq(buf_reserve(ret, 4096), 0);
	ret->len = (size_t)pread(fd, ret->data, 4096, 0);
	ret->data[ret->len] = '\0';
	close(fd);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

Test(child, that_is_tied_ends_as_its_program)
{
	char *none[] = { (char[]){ "no-such-program-here" }, NULL };
	AUTO_BUF said = BUF_INIT;

	sh[2] = (char[]){ "echo one; echo two >&2; exit 3" };
	cr_expect_eq(tied_status(sh, &said), 3);
	cr_expect_str_eq(said.data, "one\ntwo\n");
	sh[2] = (char[]){ "kill -9 $$" };
	cr_expect_eq(tied_status(sh, &said), 128 + 9);
	cr_expect_eq(tied_status(none, &said), 127);
	cr_expect_str_eq(said.data,
			 "run no-such-program-here: No such file or directory: "
			 "install it, or mend PATH\n");
}

/* Read `fd` until nobody has its other end open. */
static void read_to_end(int fd, char *ret, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, ret + len, size - 1 - len)) > 0)
		len += (size_t)n;
	ret[len] = '\0';
}

Test(child, that_is_tied_ends_with_its_children_when_we_are_killed)
{
	char first[8] = "", rest[64];
	int ends[2];
	pid_t killed;

	cr_assert_eq(pipe(ends), 0);
	killed = fork();
	if (killed == 0) {
		pid_t pid;

		(void)close(ends[0]);
		sh[2] = (char[]){ "tail -f /dev/null & trap 'echo told; exit' "
				  "TERM; echo ready; wait" };
		if (child_start_tied(sh, ends[1], ends[1], &pid, NULL) < 0)
			_exit(1);
		for (;;)
			(void)pause();
	}
	cr_assert(killed > 0);
	(void)close(ends[1]);
	cr_assert_eq(read(ends[0], first, sizeof(first)), 6);
	cr_expect_eq(kill(killed, SIGKILL), 0);
	cr_assert_eq(waitpid(killed, NULL, 0), killed);
	read_to_end(ends[0], rest, sizeof(rest));
	cr_expect_str_eq(rest, "told\n");
	(void)close(ends[0]);
}
