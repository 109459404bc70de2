// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "env_fixture.h"
#include "envcache/scan.h"
#include "tests/unit/failures.h"

TestSuite(env_scan, .init = env_setup, .fini = env_teardown, .timeout = 60);

/* Names whose order as path bytes differs from the order of a walk. */
static const char *const folders[] = { "z", "a.b", "a", "~", "aa", "a-b" };

#define N_FOLDERS ARRAY_SIZE(folders)
/* The target, two levels of folders, and a file and a link in each folder of the second level. */
#define N_ENTRIES (1 + N_FOLDERS + N_FOLDERS * N_FOLDERS * 3)

static void make_folders(void)
{
	char path[64];

	for (size_t i = 0; i < N_FOLDERS; i++) {
		env_mkdir(folders[i]);
		for (size_t k = 0; k < N_FOLDERS; k++) {
			AUTO_FREE char *link = NULL;

			(void)snprintf(path, sizeof(path), "%s/%s", folders[i],
				       folders[k]);
			env_mkdir(path);
			(void)snprintf(path, sizeof(path), "%s/%s/file",
				       folders[i], folders[k]);
			env_write(path, path);
			(void)snprintf(path, sizeof(path), "%s/%s/link",
				       folders[i], folders[k]);
			link = env_path(path);
			cr_assert_eq(symlink(path, link), 0);
		}
	}
}

static void expect_whole(const struct env_scan *s)
{
	cr_assert_eq(s->n, N_ENTRIES, "%zu", s->n);
	for (size_t i = 0; i < s->n; i++) {
		const struct env_entry *e = &s->entries[i];
		bool is_mount;
		struct env_entry now = { .path = e->path };

		cr_assert_eq(env_entry_look(AT_FDCWD, e->path, &now, &is_mount),
			     0, "%s", e->path);
		cr_expect(env_entry_is_same(e, &now), "%s", e->path);
		cr_expect(i == 0 || env_path_compare(s->entries[i - 1].path,
						     e->path) < 0,
			  "%s", e->path);
		cr_expect_eq(!e->link, !S_ISLNK(e->mode));
		if (e->link) /* the link's target is its own path in the
		              * target folder */
			cr_expect_str_eq(e->link,
					 e->path + strlen(env_dir) + 1);
	}
}

Test(env_scan, has_names_in_the_order_of_a_walk_whoever_looked_at_them)
{
	make_folders();
	for (int i = 0; i < 20; i++) {
		AUTO(env_scan) s = env_look();

		expect_whole(s);
	}
}

Test(env_scan, is_the_same_where_fewer_threads_can_be_started)
{
	struct failures f = { .kind = FAIL_THREAD };

	make_folders();
	while (failures_next(&f)) {
		AUTO(env_scan) s = NULL;
		int rc = env_scan_new(&env_dir_targets, &s, NULL);

		(void)failures_hit(&f);
		cr_assert_eq(rc, 0);
		expect_whole(s);
	}
}

/* With several threads, which call fails differs between runs. */
Test(env_scan, is_whole_or_fails_where_memory_is_short)
{
	struct failures f = { .kind = FAIL_MEMORY };

	make_folders();
	while (failures_next(&f)) {
		AUTO(env_scan) s = NULL;
		int rc = env_scan_new(&env_dir_targets, &s, NULL);

		if (failures_hit(&f) && rc < 0)
			cr_expect_eq(rc, -ENOMEM);
		else
			cr_expect_eq(rc, 0);
		if (rc == 0)
			expect_whole(s);
	}
}

/* Make `depth` nested folders of this name; returns the innermost, open. */
static int make_deep(const char *name, unsigned int depth)
{
	int at = open(env_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned int i = 0; i < depth; i++) {
		int in;

		cr_assert_eq(mkdirat(at, name, 0755), 0);
		in = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cr_assert_geq(in, 0);
		cr_assert_eq(close(at), 0);
		at = in;
	}
	return at;
}

Test(env_scan, sees_what_lies_below_a_path_that_no_call_takes)
{
	char name[200];
	AUTO(env_scan) s = NULL;
	const struct env_entry *last;
	int at, fd;

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	at = make_deep(name, 50);
	fd = openat(at, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	cr_assert_geq(fd, 0);
	cr_assert_eq(close(fd), 0);
	cr_assert_eq(close(at), 0);
	s = env_look();
	cr_assert_eq(s->n, 52);
	last = &s->entries[51];
	cr_expect(strlen(last->path) > 2 * PATH_MAX);
	cr_expect_str_eq(strrchr(last->path, '/'), "/file");
}

Test(env_scan, says_what_lies_too_deep)
{
	struct error err = ERROR_INIT;
	struct env_scan *s = NULL;

	cr_assert_eq(close(make_deep("d", ENV_DEPTH_MAX)), 0);
	s = env_look();
	cr_expect_eq(s->n, ENV_DEPTH_MAX + 1);
	env_scan_free(s);
	cr_assert_eq(fs_remove_tree(env_dir, NULL), 0);
	cr_assert_eq(mkdir(env_dir, 0755), 0);
	cr_assert_eq(close(make_deep("d", ENV_DEPTH_MAX + 1)), 0);
	cr_expect_eq(env_scan_new(&env_dir_targets, &s, &err), -ELOOP);
	cr_expect(strstr(err.msg, "lies in more than"), "%s", err.msg);
}

/* On an overlay with layers on several file systems, folders' inode numbers change by
 * themselves. */
Test(env_scan, numbers_of_folders_do_not_count)
{
	struct env_entry folder = { .path = NULL };
	struct env_entry file = { .path = NULL };
	AUTO_FREE char *folder_path = env_path("folder");
	AUTO_FREE char *file_path = env_path("folder/file");
	bool is_mount;

	env_mkdir("folder");
	env_write("folder/file", "text");
	cr_assert_eq(env_entry_look(AT_FDCWD, folder_path, &folder, &is_mount),
		     0);
	cr_assert_eq(env_entry_look(AT_FDCWD, file_path, &file, &is_mount), 0);
	cr_expect_eq(folder.ino, 0);
	cr_expect_neq(file.ino, 0);
}

Test(env_scan, has_a_digest_of_signs_and_lengths)
{
	static const struct env_entry entries[] = {
		{ .path = "/t", .mode = S_IFDIR | 0755, .mtime_ns = 5 },
		{ .path = "/t/f",
		  .mode = S_IFREG | 0644,
		  .size = 10,
		  .uid = 1000,
		  .gid = 4294967295u,
		  .mtime_ns = -1 },
		{ .path = "/t/l",
		  .link = "to",
		  .mode = S_IFLNK | 0777,
		  .size = 2,
		  .rdev = UINT64_MAX },
		{ .path = "/t/m", .mode = S_IFREG, .mtime_ns = INT64_MIN },
		{ .path = "/etc/ld.so.cache", .mode = S_IFREG },
	};
	static const char text[] =
		"40755 0 0 0 0 0 2 0\n/t"
		"100644 1000 4294967295 10 0 -1 4 0\n/t/f"
		"120777 0 0 2 18446744073709551615 0 4 2\n/t/lto"
		"100000 0 0 0 0 -9223372036854775808 4 0\n/t/m";
	struct env_scan s = { .entries = (struct env_entry *)(uintptr_t)entries,
			      .n = ARRAY_SIZE(entries) };
	const struct env_targets none = { .n = 0 };
	struct digest want, got;

	cr_assert_eq(digest_of(text, sizeof(text) - 1, &want), 0);
	cr_assert_eq(env_scan_digest(&s, &none, &got, NULL), 0);
	cr_expect(digest_equal(&got, &want));
}
