// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

TestSuite(fs, .timeout = 10);

static char *path_in(const char *dir, const char *name)
{
	struct buf b = BUF_INIT;

	cr_assert_eq(buf_printf(&b, "%s/%s", dir, name), 0);
	return buf_steal(&b);
}

Test(fs, replace_writes_whole_files_and_leaves_no_temporary)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	struct error err = ERROR_INIT;
	AUTO_BUF got = BUF_INIT;
	AUTO_FREE char *path = NULL;

	cr_assert_not_null(mkdtemp(dir));
	path = path_in(dir, "x");
	cr_assert_eq(fs_replace_file(path, "one", 3, 0600, &err), 0);
	cr_assert_eq(fs_replace_file(path, "second", 6, 0600, &err), 0);
	cr_assert_eq(fs_read_file(path, 100, &got, &err), 0, "%s", err.msg);
	cr_expect_str_eq(got.data, "second");
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(rmdir(dir), 0);
}

Test(fs, read_file_refuses_what_is_longer_than_allowed)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	struct error err = ERROR_INIT;
	AUTO_BUF got = BUF_INIT;
	AUTO_FREE char *path = NULL;

	cr_assert_not_null(mkdtemp(dir));
	path = path_in(dir, "x");
	cr_assert_eq(fs_replace_file(path, "12345", 5, 0600, &err), 0);
	cr_expect_eq(fs_read_file(path, 4, &got, &err), -EFBIG);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
	cr_expect_eq(access(dir, F_OK), -1);
}

Test(fs, mkdir_p_makes_parents_and_accepts_existing)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	struct error err = ERROR_INIT;
	AUTO_FREE char *path = NULL;
	struct stat st;

	cr_assert_not_null(mkdtemp(dir));
	path = path_in(dir, "a/b/c");
	cr_assert_eq(fs_mkdir_p(path, 0700, &err), 0, "%s", err.msg);
	cr_assert_eq(fs_mkdir_p(path, 0700, &err), 0, "%s", err.msg);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect(S_ISDIR(st.st_mode));
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

Test(fs, mkdir_makes_one_folder_and_names_the_parent_that_lacks)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	AUTO_FREE char *one = NULL;
	AUTO_FREE char *two = NULL;
	struct error err = ERROR_INIT;
	struct buf want = BUF_INIT;

	cr_assert_not_null(mkdtemp(dir));
	one = path_in(dir, "one");
	two = path_in(dir, "one/two");
	cr_expect_eq(fs_mkdir(two, 0700, &err), -ENOENT);
	cr_assert_eq(buf_printf(&want, "there is no '%s'", one), 0);
	cr_expect(strstr(err.msg, want.data), "%s", err.msg);
	cr_expect_neq(access(one, F_OK), 0);
	cr_expect_eq(fs_mkdir(one, 0700, &err), 0);
	cr_expect_eq(fs_mkdir(two, 0700, &err), 0);
	cr_expect_eq(fs_mkdir(two, 0700, &err), 0);
	cr_expect_eq(fs_remove_tree(dir, &err), 0);
	buf_fini(&want);
}

Test(fs, a_secret_is_private_when_its_owner_alone_may_read_it)
{
	static const struct {
		mode_t mode;
		const char *why; /* NULL: it is */
	} all[] = {
		{ 0600, NULL },
		{ 0400, NULL },
		{ 0440, "its group, mode 0440" },
		{ 0644, "everybody, mode 0644" },
		{ 0604, "everybody, mode 0604" },
	};
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *link = NULL;

	cr_assert_not_null(mkdtemp(dir));
	path = path_in(dir, "key");
	link = path_in(dir, "link");
	cr_expect_eq(fs_check_private(path, NULL), 0, "it is not there");
	cr_assert_eq(fs_replace_file(path, "k", 1, 0600, NULL), 0);
	/* As secrets are that are mounted. */
	cr_assert_eq(symlink("key", link), 0);
	for (size_t k = 0; k < ARRAY_SIZE(all); k++) {
		struct error err = ERROR_INIT;

		cr_assert_eq(chmod(path, all[k].mode), 0);
		cr_expect_eq(fs_check_private(link, &err),
			     all[k].why ? -EPERM : 0, "%04o", all[k].mode);
		if (all[k].why)
			cr_expect_not_null(strstr(err.msg, all[k].why), "%s",
					   err.msg);
	}
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}
