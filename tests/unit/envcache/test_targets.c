// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "env_fixture.h"
#include "envcache/make_target.h"

TestSuite(env_targets, .init = env_setup, .fini = env_teardown, .timeout = 60);

static int make_single_target(const char *path, struct env_targets *t)
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
	cr_expect_eq(make_single_target(other, &t), -EINVAL);
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
	cr_expect_eq(make_single_target("/", &t), -EINVAL);
	cr_expect_eq(make_single_target(file, &t), -ENOTDIR);
	cr_expect_eq(env_targets_make(none, &t, NULL), -EINVAL);
	cr_expect_eq(env_targets_make(NULL, &t, NULL), -EINVAL);
}

/* List the default targets below env_dir, one per line. */
static char *usual_targets_text(const char *path, const char *home)
{
	const struct env_usual from = { .root = env_dir,
					.path = path,
					.home = home };
	struct error err = ERROR_INIT;
	struct env_targets t;
	AUTO_BUF all = BUF_INIT;

	cr_assert_eq(env_targets_usual(&from, &t, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < t.n; i++)
		if (strncmp(t.paths[i], env_dir, strlen(env_dir)) == 0)
			cr_assert_eq(buf_printf(&all, "%s\n",
						t.paths[i] + strlen(env_dir)),
				     0);
	env_targets_fini(&t);
	return buf_steal(&all);
}

static void make_program(const char *path)
{
	AUTO_FREE char *at = env_path(path);

	env_write(path, "#!/bin/sh\n");
	cr_assert_eq(chmod(at, 0755), 0);
}

Test(env_targets, are_where_programs_are_installed_when_none_is_named)
{
	static const char *const folders[] = {
		"/usr",
		"/usr/bin",
		"/etc",
		"/etc/ld.so.conf.d",
		"/var",
		"/var/lib",
		"/var/lib/dpkg",
		"/other",
		"/lib",
		"/venv",
		"/venv/bin",
		"/venv/lib",
		"/venv/lib/python3.11",
		"/venv/lib/python3.11/site-packages",
		"/tmp",
		"/tmp/build",
		"/tools",
		"/home",
		"/home/.local",
		"/home/.local/bin",
		"/home/.local/lib",
		"/cuda",
	};
	AUTO_FREE char *bin = env_path("usr/bin");
	AUTO_FREE char *link = env_path("bin");
	AUTO_FREE char *home = env_path("home");
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF libraries = BUF_INIT;
	AUTO_FREE char *got = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		env_mkdir(folders[i] + 1);
	cr_assert_eq(symlink(bin, link), 0);
	make_program("venv/bin/python3");
	cr_assert_eq(buf_printf(&libraries, "# of a toolkit\n%s/cuda # it\n",
				env_dir),
		     0);
	env_write("etc/ld.so.conf.d/cuda.conf", libraries.data);
	cr_assert_eq(buf_printf(&path,
				"%s/venv/bin/:%s/usr/bin:%s/tools:%s/none:"
				"other:%s/tmp/build",
				env_dir, env_dir, env_dir, env_dir, env_dir),
		     0);
	got = usual_targets_text(path.data, home);
	cr_expect_str_eq(got, "/cuda\n"
			      "/etc\n"
			      "/home/.local/bin\n"
			      "/home/.local/lib\n"
			      "/lib\n"
			      "/tools\n"
			      "/usr\n"
			      "/var/lib/dpkg\n"
			      "/venv/bin\n"
			      "/venv/lib/python3.11/site-packages\n");
}

Test(env_targets, are_asked_for_where_there_is_no_usual_one)
{
	const struct env_usual from = { .root = env_dir };
	struct error err = ERROR_INIT;
	struct env_targets t;

	cr_expect_eq(env_targets_usual(&from, &t, &err), -EACCES);
	cr_expect_not_null(strstr(err.msg, "--target DIR"), "%s", err.msg);
}

static unsigned int n_told;

/* Replace the folder by a link, as a user with rights on the parent folder could. */
static int swap_first(void *arg, int fd, const char *path, struct error *err)
{
	AUTO_FREE char *was = env_path("was");

	if (n_told++ == 0) {
		cr_assert_eq(rename(path, was), 0);
		cr_assert_eq(symlink("elsewhere", path), 0);
	}
	return fchmod(fd, 0750);
}

static mode_t mode_of(const char *name)
{
	AUTO_FREE char *path = env_path(name);
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

Test(env_targets, are_made_where_no_link_leads)
{
	AUTO_FREE char *path = env_path("a/b");
	AUTO_FREE char *again = env_path("a/c");
	struct error err = ERROR_INIT;

	env_mkdir("elsewhere");
	cr_assert_eq(make_target(path, swap_first, NULL, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(n_told, 2);
	cr_expect_eq(mode_of("elsewhere"), 0755);
	cr_expect_eq(mode_of("elsewhere/b"), 0);
	cr_expect_eq(mode_of("was"), 0750);
	cr_expect_eq(mode_of("was/b"), 0750);
	cr_expect_lt(make_target(again, swap_first, NULL, &err), 0);
	cr_expect_eq(mode_of("elsewhere/c"), 0);
}

/* Files installed on a volume would be missing on other nodes. */
Test(env_targets, that_nobody_names_are_on_no_volume)
{
	const struct env_usual from = { .root = env_dir, .path = "/dev/shm" };
	struct error err = ERROR_INIT;
	struct env_targets t;

	env_mkdir("usr");
	cr_expect_eq(env_targets_usual(&from, &t, &err), -ENOTSUP);
	cr_expect_not_null(strstr(err.msg, "/dev/shm"), "%s", err.msg);
}
