// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

TestSuite(fs, .timeout = 120);

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
		const char *why; /* part of the message; NULL: the mode is
		                  * accepted */
	} all[] = {
		{ 0600, NULL },
		{ 0400, NULL },
		{ 0440, "its group, mode 0440" },
		{ 0644, "everybody, mode 0644" },
		{ 0604, "everybody, mode 0604" },
		{ 0622, "changed by everybody, mode 0622" },
		{ 0620, "changed by its group, mode 0620" },
	};
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *link = NULL;

	cr_assert_not_null(mkdtemp(dir));
	path = path_in(dir, "key");
	link = path_in(dir, "link");
	cr_expect_eq(fs_check_private(path, NULL), 0, "it is not there");
	cr_assert_eq(fs_replace_file(path, "k", 1, 0600, NULL), 0);
	/* Kubernetes mounts secrets as links. */
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

/* With Kubernetes' fsGroup, a secret belongs to root and a group. */
Test(fs, a_secret_of_root_may_be_lent_to_a_group)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	AUTO_FREE char *path = NULL;

	if (geteuid() != 0)
		return; /* only root has files that are root's */
	cr_assert_not_null(mkdtemp(dir));
	path = path_in(dir, "key");
	cr_assert_eq(chmod(dir, 0755), 0);
	cr_assert_eq(fs_replace_file(path, "k", 1, 0440, NULL), 0);
	cr_expect_eq(fs_check_private(path, NULL), -EPERM, "it is our own");
	cr_assert_eq(seteuid(65532), 0);
	cr_expect_eq(fs_check_private(path, NULL), 0);
	cr_assert_eq(seteuid(0), 0);
	for (int mode = 0444; mode <= 0460; mode += 014) {
		cr_assert_eq(chmod(path, (mode_t)mode), 0);
		cr_assert_eq(seteuid(65532), 0);
		cr_expect_eq(fs_check_private(path, NULL), -EPERM, "%o", mode);
		cr_assert_eq(seteuid(0), 0);
	}
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

/* Make `n` nested folders, with a file and a link in each. */
static void make_deep(const char *dir, int n, size_t name_len)
{
	char name[256];
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(name, 'd', name_len);
	name[name_len] = '\0';
	cr_assert(fd >= 0);
	for (int i = 0; i < n; i++) {
		int file = openat(fd, "file", O_WRONLY | O_CREAT, 0600), in;

		cr_assert(file >= 0);
		(void)close(file);
		cr_assert_eq(symlinkat("/etc", fd, "link"), 0);
		cr_assert_eq(mkdirat(fd, name, 0700), 0);
		in = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cr_assert(in >= 0);
		(void)close(fd);
		fd = in;
	}
	(void)close(fd);
}

Test(fs, remove_tree_reaches_what_no_path_leads_to)
{
	static const struct {
		int n;
		size_t name_len;
	} all[] = { { 100, 200 }, { 3000, 1 }, { 64, 1 }, { 65, 1 }, { 0, 0 } };
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	AUTO_FREE char *taken = NULL;
	struct error err = ERROR_INIT;

	cr_assert_not_null(mkdtemp(dir));
	taken = path_in(dir, ".removed-0");
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		cr_assert_eq(fs_mkdir_p(dir, 0700, &err), 0);
		/* Take a name that moved folders would get. */
		cr_assert_eq(fs_mkdir_p(taken, 0700, &err), 0);
		make_deep(dir, all[i].n, all[i].name_len);
		cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
		cr_expect_eq(access(dir, F_OK), -1);
	}
	cr_expect_eq(access("/etc/passwd", F_OK), 0);
}

Test(fs, remove_tree_removes_a_link_and_not_what_it_leads_to)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	AUTO_FREE char *link = NULL;
	AUTO_FREE char *kept = NULL;

	cr_assert_not_null(mkdtemp(dir));
	link = path_in(dir, "link");
	kept = path_in(dir, "kept");
	cr_assert_eq(mkdir(kept, 0700), 0);
	cr_assert_eq(symlink(kept, link), 0);
	cr_expect_eq(fs_remove_tree(link, NULL), 0);
	cr_expect_eq(access(kept, F_OK), 0);
	cr_expect_eq(fs_remove_tree(link, NULL), 0); /* it is gone */
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

static atomic_bool storm_over;

static void *rename_on(void *arg)
{
	int dir = *(int *)arg;

	while (!atomic_load(&storm_over)) {
		(void)!renameat(dir, "x", dir, "y");
		(void)!renameat(dir, "y", dir, "x");
	}
	return NULL;
}

Test(fs, openat2_is_not_kept_from_an_answer_by_renames)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	pthread_t thread;
	int root, fd;

	cr_assert_not_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(mkdirat(root, "a", 0700), 0);
	cr_assert_eq(mkdirat(root, "x", 0700), 0);
	cr_assert_eq(pthread_create(&thread, NULL, rename_on, &root), 0);
	for (int i = 0; i < 20000; i++) {
		fd = fs_openat2(root, "a/../a/../a", O_PATH, RESOLVE_IN_ROOT);
		cr_assert_geq(fd, 0, "%d: %s", i, strerror(errno));
		(void)close(fd);
	}
	atomic_store(&storm_over, true);
	cr_expect_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(fs_openat2(root, "../../b", O_PATH, RESOLVE_IN_ROOT), -1);
	cr_expect_eq(errno, ENOENT);
	(void)unlinkat(root, "a", AT_REMOVEDIR);
	(void)unlinkat(root, "x", AT_REMOVEDIR);
	(void)unlinkat(root, "y", AT_REMOVEDIR);
	(void)close(root);
	cr_expect_eq(rmdir(dir), 0);
}

static int read_in(const char *dir, const char *path, struct buf *ret)
{
	AUTO_CLOSE int root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	buf_reset(ret);
	return fs_read_file_in(root, path, 100, ret, NULL);
}

Test(fs, read_file_in_is_led_nowhere_else_and_opens_no_device)
{
	char dir[] = "/tmp/bootseer-fs.XXXXXX";
	AUTO_BUF got = BUF_INIT;
	AUTO_FREE char *file = NULL, *link = NULL, *up = NULL, *pipe = NULL,
		       *device = NULL;

	cr_assert_not_null(mkdtemp(dir));
	file = path_in(dir, "passwd");
	link = path_in(dir, "link");
	up = path_in(dir, "up");
	pipe = path_in(dir, "pipe");
	device = path_in(dir, "device");
	cr_assert_eq(fs_replace_file(file, "own", 3, 0600, NULL), 0);
	/* Absolute links are resolved in the given root, not in this machine's. */
	cr_assert_eq(symlink("/passwd", link), 0);
	cr_assert_eq(symlink("../../../../etc/passwd", up), 0);
	cr_assert_eq(mkfifo(pipe, 0600), 0);
	cr_assert_eq(symlink("/dev/zero", device), 0);
	cr_assert_eq(read_in(dir, "/link", &got), 0);
	cr_expect_str_eq(got.data, "own");
	cr_expect_eq(read_in(dir, "up", &got), -ENOENT);
	cr_expect_eq(read_in(dir, "device", &got), -ENOENT);
	cr_expect_eq(read_in(dir, "pipe", &got), -EINVAL);
	cr_expect_eq(read_in("/", "/dev/zero", &got), -EINVAL);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(fs, knows_an_empty_folder_by_a_descriptor_that_only_names_it)
{
	char dir[] = "/tmp/bootseer-empty.XXXXXX", path[64];
	int fd;

	cr_assert(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/.a", dir);
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_expect(fs_is_empty(fd));
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_expect_not(fs_is_empty(fd));
	cr_assert_eq(rmdir(path), 0);
	cr_expect(fs_is_empty(fd));
	cr_expect_not(fs_is_empty(-1));
	(void)close(fd);
	cr_assert_eq(rmdir(dir), 0);
}
