// SPDX-License-Identifier: Apache-2.0
/* Unpacking of ordinary layers, entry by entry; as root, as bootseerd runs. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/unpack.h"

static char base[40]; /* on a disk: overlayfs' xattrs need one */
static char dir[64];
static struct unpack *unpack;

static void setup(void)
{
	strcpy(base, "/var/tmp/unpack.XXXXXX");
	cr_assert(mkdtemp(base));
	snprintf(dir, sizeof(dir), "%s/layer", base);
	cr_assert_eq(mkdir(dir, 0755), 0);
	cr_assert_eq(unpack_new(dir, &unpack, NULL), 0);
}

static void teardown(void)
{
	unpack_free(unpack);
	cr_assert_eq(fs_remove_tree(base, NULL), 0);
}

TestSuite(images_unpack, .timeout = 20, .init = setup, .fini = teardown);

static int add(const struct layer_entry *e, const char *content,
	       struct error *err)
{
	struct tar_visitor *v = unpack_visitor(unpack);
	bool want = false;
	int rc = v->entry(v, e, &want, err);

	if (rc == 0 && want && content)
		rc = v->data(v, 0, content, strlen(content), err);
	if (rc == 0 && want)
		rc = v->end(v, err);
	return rc;
}

static int add_kind(const char *path, uint32_t mode, const char *link,
		    bool hard)
{
	const struct layer_entry e = { .path = path,
				       .mode = mode,
				       .link = link,
				       .hard = hard,
				       .mtime = 1000 };

	return add(&e, NULL, NULL);
}

static int add_file(const char *path, const char *content)
{
	const struct layer_entry e = { .path = path,
				       .mode = S_IFREG | 0644,
				       .size = strlen(content),
				       .mtime = 1000 };

	return add(&e, content, NULL);
}

static int add_folder(const char *path)
{
	return add_kind(path, S_IFDIR | 0755, NULL, false);
}

static char *in(const char *path)
{
	static char out[4200];

	snprintf(out, sizeof(out), "%s/%s", dir, path);
	return out;
}

static bool is_whiteout(const char *path)
{
	struct stat st;

	return lstat(in(path), &st) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(0, 0);
}

static bool is_opaque(const char *path)
{
	char v[4] = "";

	return getxattr(in(path), "trusted.overlay.opaque", v, sizeof(v)) ==
		       1 &&
	       v[0] == 'y';
}

static bool exists(const char *path)
{
	struct stat st;

	return lstat(in(path), &st) == 0;
}

Test(images_unpack, keeps_every_attribute)
{
	struct xattr x = { .name = "user.k", .value = "v", .size = 1 };
	const struct layer_entry e = {
		.path = "./etc/tool",
		.mode = S_IFREG | S_ISUID | 0755,
		.uid = 12,
		.gid = 34,
		.mtime = 5,
		.mtime_nsec = 7,
		.size = 10000,
		.xattrs = &x,
	};
	struct stat st;
	char v[4];

	cr_assert_eq(add_folder("etc/"), 0);
	cr_assert_eq(add(&e, "content", NULL), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	cr_assert_eq(lstat(in("etc/tool"), &st), 0);
	cr_expect_eq(st.st_mode, S_IFREG | S_ISUID | 0755);
	cr_expect(st.st_uid == 12 && st.st_gid == 34);
	cr_expect(st.st_mtim.tv_sec == 5 && st.st_mtim.tv_nsec == 7);
	cr_expect_eq(st.st_size, 10000, "what was left out is a hole");
	cr_expect_eq(getxattr(in("etc/tool"), "user.k", v, sizeof(v)), 1);
	cr_assert_eq(lstat(in("etc"), &st), 0);
	cr_expect_eq(st.st_mtim.tv_sec, 1000, "although a file came later");
}

Test(images_unpack, makes_nodes_and_links)
{
	struct stat st, other;

	cr_assert_eq(add_file("a", "x"), 0);
	cr_assert_eq(add_kind("b", S_IFREG | 0644, "./a", true), 0);
	cr_assert_eq(add_kind("s", S_IFLNK | 0777, "/nowhere", false), 0);
	cr_assert_eq(add_kind("p", S_IFIFO | 0600, NULL, false), 0);
	cr_assert_eq(lstat(in("a"), &st), 0);
	cr_assert_eq(lstat(in("b"), &other), 0);
	cr_expect_eq(st.st_ino, other.st_ino);
	cr_assert_eq(lstat(in("p"), &st), 0);
	cr_expect(S_ISFIFO(st.st_mode));
	cr_assert_eq(lstat(in("s"), &st), 0);
	cr_expect(S_ISLNK(st.st_mode));
}

Test(images_unpack, turns_whiteouts_into_overlayfs_form)
{
	cr_assert_eq(add_folder("d"), 0);
	cr_assert_eq(add_file("d/.wh.gone", ""), 0);
	cr_assert_eq(add_file("e/.wh..wh..opq", ""), 0);
	cr_assert_eq(add_file(".wh..wh.plnk", ""), 0);
	cr_expect(is_whiteout("d/gone"));
	cr_expect(is_opaque("e"));
	cr_expect_not(is_opaque("d"));
	cr_expect_not(exists(".wh..wh.plnk"));
}

Test(images_unpack, makes_a_folder_opaque_that_replaces_what_a_whiteout_hid)
{
	cr_assert_eq(add_file(".wh.first", ""), 0);
	cr_assert_eq(add_folder("first"), 0);
	cr_expect(is_opaque("first"));
	cr_assert_eq(add_folder("last"), 0);
	cr_assert_eq(add_file("last/kept", "x"), 0);
	cr_assert_eq(add_file(".wh.last", ""), 0);
	cr_expect(is_opaque("last"));
	cr_expect(exists("last/kept"));
	cr_assert_eq(add_file("file", "x"), 0);
	cr_assert_eq(add_file(".wh.file", ""), 0);
	cr_expect_not(is_whiteout("file"), "it hides lower layers only");
}

Test(images_unpack, lets_the_last_entry_of_a_name_win)
{
	struct stat st;

	cr_assert_eq(add_folder("x"), 0);
	cr_assert_eq(add_file("x/in", "1"), 0);
	cr_assert_eq(add_file("x", "2"), 0);
	cr_assert_eq(lstat(in("x"), &st), 0);
	cr_expect(S_ISREG(st.st_mode));
	cr_assert_eq(add_folder("x"), 0);
	cr_assert_eq(add_file("x/a", "3"), 0);
	cr_assert_eq(add_folder("x"), 0);
	cr_expect(exists("x/a"), "a folder again keeps what is in it");
}

Test(images_unpack, refuses_names_that_leave_the_folder)
{
	struct error err = ERROR_INIT;
	const struct layer_entry e = { .path = "a/../../out",
				       .mode = S_IFREG | 0644 };

	cr_expect_eq(add(&e, NULL, &err), -EINVAL);
	cr_expect(strstr(err.msg, ".."));
	cr_expect_eq(add_file("..", "x"), -EINVAL);
	cr_expect_eq(add_kind("l", S_IFREG | 0644, "../../etc/passwd", true),
		     -EINVAL);
	cr_expect_eq(add_file(".wh.", ""), -EINVAL);
	cr_expect_eq(add_file(".wh...", ""), -EINVAL);
}

Test(images_unpack, resolves_links_of_the_layer_within_the_folder)
{
	char outside[80];

	snprintf(outside, sizeof(outside), "%s/outside", base);
	cr_assert_eq(mkdir(outside, 0755), 0);
	cr_assert_eq(add_kind("abs", S_IFLNK | 0777, outside, false), 0);
	cr_assert_eq(add_kind("up", S_IFLNK | 0777, "../outside", false), 0);
	/* Neither leads out: the one names nothing here, nor does the other. */
	cr_expect_lt(add_file("abs/f", "x"), 0);
	cr_expect_lt(add_file("up/f", "x"), 0);
	cr_expect_eq(rmdir(outside), 0, "nothing was put outside");

	cr_assert_eq(add_folder("real"), 0);
	cr_assert_eq(add_kind("in", S_IFLNK | 0777, "/real", false), 0);
	cr_expect_eq(add_file("in/f", "x"), 0);
	cr_expect(exists("real/f"));
}

Test(images_unpack, never_follows_the_last_part)
{
	char outside[80];
	struct stat st;

	snprintf(outside, sizeof(outside), "%s/victim", base);
	cr_assert_eq(fs_replace_file(outside, "v", 1, 0600, NULL), 0);
	cr_assert_eq(add_kind("f", S_IFLNK | 0777, outside, false), 0);
	cr_assert_eq(add_file("f", "overwritten"), 0);
	cr_assert_eq(lstat(outside, &st), 0);
	cr_expect_eq(st.st_size, 1);
	cr_expect_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(lstat(in("f"), &st), 0);
	cr_expect(S_ISREG(st.st_mode));
}

Test(images_unpack, leaves_overlayfs_own_xattrs_out)
{
	struct xattr x = { .name = "trusted.overlay.redirect",
			   .value = "/etc",
			   .size = 4 };
	const struct layer_entry e = { .path = "d",
				       .mode = S_IFDIR | 0755,
				       .xattrs = &x };
	char v[8];

	cr_assert_eq(add(&e, NULL, NULL), 0);
	cr_expect_eq(getxattr(in("d"), x.name, v, sizeof(v)), -1);
}
