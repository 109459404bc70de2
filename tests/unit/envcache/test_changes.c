// SPDX-License-Identifier: Apache-2.0
#include "envcache/changes.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "env_fixture.h"

TestSuite(env_changes, .init = env_setup, .fini = env_teardown, .timeout = 60);

/* The changes between the scans `before` and `after`. */
static struct changes find_test_changes(const struct env_scan *before,
					const struct env_scan *after)
{
	struct error err = ERROR_INIT;
	struct changes c;

	cr_assert_eq(changes_find(before, after, &env_dir_targets, &c, &err), 0,
		     "%s", err.msg);
	return c;
}

/* The inode in the tree for a path below the target, or NULL. */
static struct inode *find_tree_inode(const struct changes *c, const char *path)
{
	AUTO_FREE char *whole = env_path(path);
	struct inode *i = tree_root(c->tree);

	for (char *p = whole; i && *p == '/';) {
		size_t len = strcspn(++p, "/");
		const struct dentry *d = tree_find(c->tree, i, p, len);

		i = d ? d->inode : NULL;
		p += len;
	}
	return i;
}

Test(env_changes, are_nothing_when_nothing_changed)
{
	AUTO(env_scan) before = NULL;
	AUTO(env_scan) after = NULL;
	struct changes c;

	env_write("a", "1");
	env_mkdir("d");
	before = env_look();
	after = env_look();
	cr_expect(env_scan_is_same(before, after));
	c = find_test_changes(before, after);
	cr_expect_eq(c.n_changed, 0);
	cr_expect_eq(c.n_deleted, 0);
	cr_expect_eq(tree_n_inodes(c.tree), 1);
	changes_fini(&c);
}

Test(env_changes, are_what_is_new_differs_or_went)
{
	AUTO_FREE char *gone = env_path("gone");
	AUTO_FREE char *deep = env_path("d/below");
	AUTO_FREE char *folder = env_path("d");
	AUTO_FREE char *kind = env_path("kind");
	AUTO_FREE char *in_kind = env_path("kind/x");
	AUTO_FREE char *a = env_path("a");
	AUTO_FREE char *b = env_path("b");
	AUTO(env_scan) before = NULL;
	AUTO(env_scan) after = NULL;
	struct changes c;

	env_write("gone", "1");
	env_write("kept", "1");
	env_mkdir("d");
	env_write("d/below", "1");
	env_mkdir("kind");
	env_write("kind/x", "1");
	before = env_look();
	cr_assert_eq(unlink(gone), 0);
	cr_assert_eq(unlink(deep), 0);
	cr_assert_eq(rmdir(folder), 0);
	cr_assert_eq(unlink(in_kind), 0);
	cr_assert_eq(rmdir(kind), 0);
	env_write("kind", "a file now");
	env_write("a", "new");
	cr_assert_eq(link(a, b), 0);
	after = env_look();
	c = find_test_changes(before, after);
	cr_expect(change_is_whiteout(find_tree_inode(&c, "gone")));
	cr_expect(change_is_whiteout(find_tree_inode(&c, "d")));
	cr_expect_null(find_tree_inode(&c, "d/below"));
	cr_expect(S_ISREG(find_tree_inode(&c, "kind")->mode));
	cr_expect_null(find_tree_inode(&c, "kept"));
	cr_assert_not_null(find_tree_inode(&c, "a"));
	cr_expect_eq(find_tree_inode(&c, "a"), find_tree_inode(&c, "b"));
	cr_expect_eq(find_tree_inode(&c, "a")->nlink, 2);
	cr_expect_eq(c.n_files, 2, "a file of two names is read once");
	cr_expect_eq(c.n_deleted, 2);
	changes_fini(&c);
}

Test(env_changes, see_another_content_behind_the_same_times)
{
	AUTO(env_scan) before = NULL;
	AUTO(env_scan) after = NULL;
	struct changes c;

	env_write("a", "1");
	env_write("b", "1");
	before = env_look();
	cr_assert_eq(env_scan_hash_recent(before, NULL), 0);
	env_write("a", "2");
	after = env_look();
	/* Copy the times, as if the clock had not advanced between the changes. */
	for (size_t i = 0; i < after->n; i++) {
		struct env_entry *e = &before->entries[i];

		e->mtime_ns = after->entries[i].mtime_ns;
		e->ctime_ns = after->entries[i].ctime_ns;
		cr_expect(e->has_content == S_ISREG(e->mode));
	}
	c = find_test_changes(before, after);
	cr_expect_not_null(find_tree_inode(&c, "a"));
	cr_expect_null(find_tree_inode(&c, "b"));
	changes_fini(&c);
}

Test(env_changes, leave_sockets_and_staging_folders_out)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO(env_scan) before = env_look();
	AUTO(env_scan) after = NULL;

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", env_dir);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	env_mkdir(ENV_STAGING "0123");
	env_write(ENV_STAGING "0123/x", "");
	after = env_look();
	cr_expect_eq(after->n, before->n);
}

/* For regular files, the later reading of contents notices the replacement. */
Test(env_changes, refuse_what_is_another_by_now)
{
	AUTO(env_scan) before = env_look();
	AUTO(env_scan) after = NULL;
	AUTO_FREE char *pipe_path = env_path("a");
	struct changes c;

	cr_assert_eq(mkfifo(pipe_path, 0600), 0);
	after = env_look();
	cr_assert_eq(chmod(pipe_path, 0640), 0);
	cr_expect_eq(changes_find(before, after, &env_dir_targets, &c, NULL),
		     -ESTALE);
}

Test(env_changes, order_paths_as_a_walk_does)
{
	static const char *const order[] = { "/a",     "/a/b", "/a/b/c", "/a/c",
					     "/a\x01", "/a-b", "/a.b",   "/ab",
					     "/b",     "/\xff" };

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (size_t k = 0; k < ARRAY_SIZE(order); k++) {
			int n = env_path_compare(order[i], order[k]);

			cr_expect_eq(n < 0 ? -1 : n > 0, i < k ? -1 : i > k,
				     "'%s' and '%s'", order[i], order[k]);
		}
}
