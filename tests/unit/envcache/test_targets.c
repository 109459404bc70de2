// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "env_fixture.h"

TestSuite(env_targets, .init = env_setup, .fini = env_teardown, .timeout = 60);

static int make_one(const char *path, struct env_targets *t)
{
	char *given[] = { (char *)(uintptr_t)path, NULL };

	return env_targets_make(given, t, NULL);
}

Test(env_targets, are_absolute_without_links_and_in_each_other)
{
	AUTO_FREE char *inner = env_path("b//c/");
	AUTO_FREE char *link = env_path("link");
	AUTO_FREE char *twice = env_path("link/../b");
	AUTO_FREE char *other = env_path("link/new/./x");
	AUTO_FREE char *good = env_path("link/new//x");
	AUTO_FREE char *want_b = env_path("b");
	AUTO_FREE char *want_a = env_path("a/new/x");
	char *given[] = { inner, twice, good, NULL };
	struct error err = ERROR_INIT;
	struct env_targets t;

	env_mkdir("a");
	env_mkdir("b");
	cr_assert_eq(symlink("a", link), 0);
	cr_expect_eq(make_one(other, &t), -EINVAL);
	cr_assert_eq(env_targets_make(given, &t, &err), 0, "%s", err.msg);
	cr_assert_eq(t.n, 2);
	cr_expect_str_eq(t.paths[0], want_a);
	cr_expect_str_eq(t.paths[1], want_b);
	env_targets_fini(&t);
}

Test(env_targets, are_not_the_root_and_not_files)
{
	AUTO_FREE char *file = env_path("file");
	char *none[] = { NULL };
	struct env_targets t;

	env_write("file", "");
	cr_expect_eq(make_one("/", &t), -EINVAL);
	cr_expect_eq(make_one(file, &t), -ENOTDIR);
	cr_expect_eq(env_targets_make(none, &t, NULL), -EINVAL);
	cr_expect_eq(env_targets_make(NULL, &t, NULL), -EINVAL);
}
