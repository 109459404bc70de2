// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "image/tree.h"

TestSuite(tree, .timeout = 120);

static struct inode *add(struct tree *t, struct inode *dir, const char *name,
			 uint32_t mode)
{
	struct inode *i = tree_inode_new(t, mode);

	cr_assert_not_null(i);
	cr_assert_eq(tree_link(t, dir, name, strlen(name), i), 0);
	return i;
}

static struct dentry *find(struct tree *t, struct inode *dir, const char *name)
{
	return tree_find(t, dir, name, strlen(name));
}

Test(tree, starts_with_a_root_folder)
{
	AUTO(tree) t = tree_new();

	cr_assert_not_null(t);
	cr_expect_eq(tree_root(t)->mode, S_IFDIR | 0755);
	cr_expect_eq(tree_root(t)->nlink, 2);
	cr_expect_eq(tree_n_inodes(t), 1);
	cr_expect_null(find(t, tree_root(t), "a"));
}

Test(tree, counts_the_links_of_files_and_folders)
{
	AUTO(tree) t = tree_new();
	struct inode *dir = add(t, tree_root(t), "d", S_IFDIR | 0700);
	struct inode *file = add(t, dir, "f", S_IFREG | 0644);

	cr_expect_eq(tree_root(t)->nlink, 3);
	cr_expect_eq(dir->nlink, 2);
	cr_expect_eq(tree_link(t, tree_root(t), "g", 1, file), 0);
	cr_expect_eq(file->nlink, 2);
	cr_expect_eq(tree_n_inodes(t), 3);
	cr_expect_eq(tree_link(t, tree_root(t), "e", 1, dir), -EPERM);
	cr_expect_eq(tree_link(t, tree_root(t), "g", 1, file), -EEXIST);

	tree_unlink(t, find(t, tree_root(t), "d"));
	cr_expect_eq(tree_root(t)->nlink, 2);
	cr_expect_eq(tree_root(t)->n_children, 1);
	cr_expect_eq(file->nlink, 1);
	cr_expect_eq(tree_n_inodes(t), 2);
	cr_expect_eq(dir->nlink, 0);
}

Test(tree, refuses_names_that_no_folder_can_hold)
{
	AUTO(tree) t = tree_new();
	struct inode *root = tree_root(t);
	struct inode *f = tree_inode_new(t, S_IFREG);
	char name[TREE_NAME_MAX + 1];

	memset(name, '\xff', sizeof(name));
	cr_expect_eq(tree_link(t, root, "", 0, f), -EINVAL);
	cr_expect_eq(tree_link(t, root, ".", 1, f), -EINVAL);
	cr_expect_eq(tree_link(t, root, "..", 2, f), -EINVAL);
	cr_expect_eq(tree_link(t, root, "a/b", 3, f), -EINVAL);
	cr_expect_eq(tree_link(t, root, "a\0b", 3, f), -EINVAL);
	cr_expect_eq(tree_link(t, root, name, sizeof(name), f), -ENAMETOOLONG);
	cr_expect_eq(tree_link(t, root, name, TREE_NAME_MAX, f), 0);
	cr_expect_eq(tree_link(t, root, "...", 3, f), 0);
	cr_expect_eq(tree_link(t, f, "x", 1, tree_inode_new(t, S_IFREG)),
		     -ENOTDIR);
	cr_expect_eq(f->nlink, 2);
}

Test(tree, never_puts_a_folder_into_itself)
{
	AUTO(tree) t = tree_new();
	struct inode *a = tree_inode_new(t, S_IFDIR);
	struct inode *b = add(t, a, "b", S_IFDIR);

	cr_expect_eq(tree_link(t, a, "a", 1, a), -EPERM);
	cr_expect_eq(tree_link(t, b, "a", 1, a), -EPERM);
	cr_expect_eq(tree_link(t, b, "r", 1, tree_root(t)), -EPERM);
	cr_expect_eq(tree_link(t, tree_root(t), "a", 1, a), 0);
}

Test(tree, keeps_the_children_in_the_order_of_insertion)
{
	AUTO(tree) t = tree_new();
	struct inode *root = tree_root(t);
	AUTO_FREE struct dentry **sorted = NULL;
	const char *order = "cab";
	size_t n = 0;

	add(t, root, "c", S_IFREG);
	add(t, root, "x", S_IFREG);
	add(t, root, "a", S_IFREG);
	add(t, root, "y", S_IFREG);
	tree_unlink(t, find(t, root, "x"));
	tree_unlink(t, find(t, root, "y"));
	add(t, root, "b", S_IFREG);
	for (struct dentry *d = root->children; d; d = d->next)
		cr_expect_eq(d->name[0], order[n++]);
	cr_expect_eq(n, 3);
	cr_assert_eq(tree_sorted(root, &sorted, &n), 0);
	cr_assert_eq(n, 3);
	cr_expect_str_eq(sorted[0]->name, "a");
	cr_expect_str_eq(sorted[2]->name, "c");
}

Test(tree, sorts_names_as_unsigned_bytes_with_prefixes_first)
{
	AUTO(tree) t = tree_new();
	const char *const names[] = { "\xff", "ab", "a", "\x01", "a\xc3" };
	const char *const want[] = { "\x01", "a", "ab", "a\xc3", "\xff" };
	AUTO_FREE struct dentry **sorted = NULL;
	size_t n;

	for (size_t i = 0; i < 5; i++)
		add(t, tree_root(t), names[i], S_IFREG);
	cr_assert_eq(tree_sorted(tree_root(t), &sorted, &n), 0);
	for (size_t i = 0; i < 5; i++)
		cr_expect_str_eq(sorted[i]->name, want[i]);
}

/* A folder against a plain array: every find after every kind of change. */
Test(tree, finds_names_in_a_folder_that_grows_and_shrinks)
{
	enum { N = 3000 };
	AUTO(tree) t = tree_new();
	struct inode *root = tree_root(t);
	bool there[N] = { false };
	uint32_t rnd = 1;
	char name[16];
	uint32_t n = 0;

	for (int step = 0; step < 40000; step++) {
		uint32_t i;
		struct dentry *d;

		rnd = rnd * 1664525 + 1013904223;
		i = (rnd >> 8) % N;
		snprintf(name, sizeof(name), "n%u", i);
		d = find(t, root, name);
		cr_assert_eq(d != NULL, there[i]);
		if (d) {
			tree_unlink(t, d);
			n--;
		} else {
			add(t, root, name, S_IFREG);
			n++;
		}
		there[i] = !there[i];
		cr_assert_eq(root->n_children, n);
	}
	for (struct dentry *d = root->children; d; d = d->next) {
		unsigned int i = (unsigned int)atoi(d->name + 1);

		cr_assert(there[i]);
		there[i] = false;
		n--;
	}
	cr_expect_eq(n, 0);
}

Test(tree, removes_a_branch_of_any_depth)
{
	AUTO(tree) t = tree_new();
	struct inode *dir = tree_root(t);

	for (int i = 0; i < 300000; i++) {
		add(t, dir, "f", S_IFREG);
		dir = add(t, dir, "d", S_IFDIR);
	}
	cr_expect_eq(tree_n_inodes(t), 600001);
	tree_unlink(t, find(t, tree_root(t), "d"));
	cr_expect_eq(tree_n_inodes(t), 2);
}

Test(tree, takes_under_160_bytes_and_constant_time_for_a_name_and_inode)
{
	enum { N = 1000000 };
	AUTO(tree) t = tree_new();
	struct inode *huge = add(t, tree_root(t), "huge", S_IFDIR);
	char name[16];
	size_t names = 0;

	for (int i = 0; i < N; i++) {
		names += (size_t)snprintf(name, sizeof(name), "file-%d", i);
		add(t, huge, name, S_IFREG);
	}
	for (int i = 0; i < N; i += 7) {
		snprintf(name, sizeof(name), "file-%d", i);
		cr_assert_not_null(find(t, huge, name));
	}
	cr_expect_lt((tree_memory(t) - names) / N, 160);
	tree_unlink(t, find(t, tree_root(t), "huge"));
	cr_expect_eq(tree_n_inodes(t), 1);
}

Test(tree, replaces_an_xattr_of_the_same_name)
{
	AUTO(tree) t = tree_new();
	struct inode *r = tree_root(t);

	cr_assert_eq(tree_set_xattr(t, r, "user.a", "1", 1), 0);
	cr_assert_eq(tree_set_xattr(t, r, "user.b", "", 0), 0);
	cr_assert_eq(tree_set_xattr(t, r, "user.a", "22", 2), 0);
	cr_expect_str_eq(r->xattrs->name, "user.b");
	cr_expect_eq(r->xattrs->size, 0);
	cr_expect_str_eq(r->xattrs->next->name, "user.a");
	cr_expect_eq(r->xattrs->next->size, 2);
	cr_expect_eq(memcmp(r->xattrs->next->value, "22", 2), 0);
	cr_expect_null(r->xattrs->next->next);
}

Test(tree, stores_equal_xattrs_once)
{
	AUTO(tree) t = tree_new();
	struct inode *a = add(t, tree_root(t), "a", S_IFREG);
	struct inode *b = add(t, tree_root(t), "b", S_IFREG);

	cr_assert_eq(tree_set_xattr(t, a, "user.a", "value", 5), 0);
	cr_assert_eq(tree_set_xattr(t, b, "user.a", "value", 5), 0);
	cr_expect_eq(a->xattrs->name, b->xattrs->name);
	cr_expect_eq(a->xattrs->value, b->xattrs->value);
}

Test(tree, bounds_the_xattrs_of_an_inode)
{
	AUTO(tree) t = tree_new();
	struct inode *r = tree_root(t);
	static char big[TREE_XATTR_VALUE_MAX + 1];
	char name[300];
	int rc = 0;

	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	cr_expect_eq(tree_set_xattr(t, r, name, "", 0), -E2BIG);
	cr_expect_eq(tree_set_xattr(t, r, "", "", 0), -EINVAL);
	cr_expect_eq(tree_set_xattr(t, r, "user.a", big, sizeof(big)), -E2BIG);
	cr_expect_eq(tree_set_xattr(t, r, "user.a", big, sizeof(big) - 1), 0);
	for (int i = 0; i < 10000 && rc == 0; i++) {
		snprintf(name, sizeof(name), "user.%05d", i);
		rc = tree_set_xattr(t, r, name, "", 0);
	}
	cr_expect_eq(rc, -E2BIG);
}

Test(tree, writes_paths_that_a_terminal_can_show)
{
	AUTO(tree) t = tree_new();
	struct inode *a = add(t, tree_root(t), "a b", S_IFDIR);
	struct inode *b = add(t, a, "\x1b[1m\\\xff", S_IFDIR);
	AUTO_FREE char *top = NULL;
	AUTO_FREE char *path = NULL;

	add(t, b, "f", S_IFREG);
	top = tree_path(find(t, tree_root(t), "a b"));
	path = tree_path(find(t, b, "f"));
	cr_expect_str_eq(top, "/a b");
	cr_expect_str_eq(path, "/a b/\\x1b[1m\\x5c\\xff/f");
}

Test(tree, gives_aligned_memory_of_any_size)
{
	AUTO(tree) t = tree_new();
	uint64_t before = tree_memory(t);

	for (size_t size = 1; size < 3000000; size = size * 3 + 1) {
		uint8_t *p = tree_alloc(t, size);

		cr_assert_not_null(p);
		cr_expect_eq((uintptr_t)p % 8, 0);
		memset(p, 1, size);
	}
	cr_expect_gt(tree_memory(t), before);
	cr_expect_null(tree_alloc(t, SIZE_MAX));
}
