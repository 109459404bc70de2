// SPDX-License-Identifier: Apache-2.0
#include "cli/env_criu.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(env_criu, .timeout = 60);

static const struct criu_job job = { .images = "/d/x.dump",
				     .log = "/d/x.criu.log",
				     .output = "file[1b:f00d]",
				     .timeout_ms = 1000 };

static void expect_words(const struct criu_args *a, const char *want)
{
	char all[512] = "";

	for (size_t i = 0; i < a->n; i++) {
		strcat(all, i ? " " : "");
		strcat(all, a->argv[i]);
	}
	cr_assert_str_eq(all, want);
	cr_assert(!a->argv[a->n]);
}

Test(env_criu, dumps_a_tree_that_goes_on_and_whose_log_is_not_its_own)
{
	AUTO_CRIU_ARGS a = { .n = 0 };

	cr_assert_eq(criu_dump_args(&job, 4321, &a, NULL), 0);
	expect_words(&a,
		     "criu dump --tree 4321 --images-dir /d/x.dump --log-file "
		     "/d/x.criu.log --leave-running --manage-cgroups=ignore "
		     "--external file[1b:f00d]");
}

Test(env_criu, restores_in_the_background_with_another_log)
{
	AUTO_CRIU_ARGS a = { .n = 0 };

	cr_assert_eq(criu_restore_args(&job, "/d/x.pid", 100, &a, NULL), 0);
	expect_words(&a,
		     "criu restore --restore-detached --images-dir /d/x.dump "
		     "--log-file /d/x.criu.log --pidfile /d/x.pid "
		     "--manage-cgroups=ignore --inherit-fd "
		     "fd[100]:file[1b:f00d]");
}

static void expect_reason(const char *text, const char *want)
{
	char why[64];

	criu_reason(text, why, sizeof(why));
	cr_assert_str_eq(why, want);
}

Test(env_criu, the_reason_is_the_first_error_that_is_not_of_a_limit)
{
	expect_reason("", "");
	expect_reason("(00.1) Dumping\n(00.2) Warn  (criu/x.c:1): odd\n", "");
	expect_reason("(00.1) Error (criu/util.c:1534): rlimit: Can't\n"
		      "(00.2) Error (criu/files-ext.c:99): Can't dump file 10 "
		      "of that type [20600]\n"
		      "(00.3) Error (criu/cr-dump.c:1): Dumping FAILED.\n",
		      "Can't dump file 10 of that type [20600]");
	/* Lines without an end, without a place, with control characters, too long. */
	expect_reason("Error (criu/x.c:1): last", "last");
	expect_reason("Error (nothing", "Error (nothing");
	expect_reason("Error (c.c:1): a\x1b[31mb\n", "a?[31mb");
	expect_reason("Error (c.c:1): 0123456789012345678901234567890123456789"
		      "0123456789012345678901234567890123456789\n",
		      "012345678901234567890123456789012345678901234567890123"
		      "456789012");
	/* The place must be in the error's own line. */
	expect_reason("Error (a\nError (b.c:1): two\n", "Error (a");
}

Test(env_criu, the_name_of_a_file_is_its_mount_and_inode)
{
	char path[] = "/tmp/bootseer-criu-XXXXXX";
	AUTO_CLOSE int fd = mkstemp(path);
	char name[CRIU_FILE_MAX], want[32];
	struct stat st;

	cr_assert(fd >= 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(criu_name_file(fd, name, NULL), 0);
	(void)snprintf(want, sizeof(want), ":%lx]", (unsigned long)st.st_ino);
	cr_assert(strstr(name, want) != NULL);
	cr_assert_eq(criu_check_file(name, NULL), 0);
}

Test(env_criu, a_name_of_a_file_that_the_store_gives_is_checked)
{
	static const char *const bad[] = {
		"",
		"file",
		"file[]",
		"file[1b]",
		"file[1b:]",
		"file[:f00d]",
		"file[1b:f00d",
		"file[1b:f00d]x",
		"file[1b:f00d],fd[3]:x",
		"file[1B:f00d]",
		"tty[1b:f00d]",
		"file[1b:f00d]\n",
		"file[00000000000000000000000000000000000000000000000000:1]",
	};

	cr_assert_eq(criu_check_file("file[1b:f00d]", NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad) - 1; i++)
		cr_assert_eq(criu_check_file(bad[i], NULL), -EBADMSG);
}
