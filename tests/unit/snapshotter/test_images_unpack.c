// SPDX-License-Identifier: Apache-2.0
/* Unpacking an ordinary layer, entry by entry. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/pace.h"
#include "tests/unit/snapshotter/layer_fixture.h"

TestSuite(images_unpack, .timeout = 120, .init = layer_setup,
	  .fini = layer_teardown);

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

	cr_assert_eq(layer_add_folder("etc/"), 0);
	cr_assert_eq(layer_add(&e, "content", NULL), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	cr_assert_eq(lstat(layer_path("etc/tool"), &st), 0);
	cr_expect_eq(st.st_mode, S_IFREG | S_ISUID | 0755);
	cr_expect(st.st_uid == 12 && st.st_gid == 34);
	cr_expect(st.st_mtim.tv_sec == 5 && st.st_mtim.tv_nsec == 7);
	cr_expect_eq(st.st_size, 10000, "what was left out is a hole");
	cr_expect_eq(getxattr(layer_path("etc/tool"), "user.k", v, sizeof(v)),
		     1);
	cr_assert_eq(lstat(layer_path("etc"), &st), 0);
	cr_expect_eq(st.st_mtim.tv_sec, 1000, "although a file came later");
}

Test(images_unpack, makes_nodes_and_links)
{
	struct stat st, other;

	cr_assert_eq(layer_add_file("a", "x"), 0);
	cr_assert_eq(layer_add_kind("b", S_IFREG | 0644, "./a", true), 0);
	cr_assert_eq(layer_add_kind("s", S_IFLNK | 0777, "/nowhere", false), 0);
	cr_assert_eq(layer_add_kind("p", S_IFIFO | 0600, NULL, false), 0);
	cr_assert_eq(lstat(layer_path("a"), &st), 0);
	cr_assert_eq(lstat(layer_path("b"), &other), 0);
	cr_expect_eq(st.st_ino, other.st_ino);
	cr_assert_eq(lstat(layer_path("p"), &st), 0);
	cr_expect(S_ISFIFO(st.st_mode));
	cr_assert_eq(lstat(layer_path("s"), &st), 0);
	cr_expect(S_ISLNK(st.st_mode));
}

Test(images_unpack, turns_whiteouts_into_overlayfs_form)
{
	cr_assert_eq(layer_add_folder("d"), 0);
	cr_assert_eq(layer_add_file("d/.wh.gone", ""), 0);
	cr_assert_eq(layer_add_file("e/.wh..wh..opq", ""), 0);
	cr_assert_eq(layer_add_file(".wh..wh.plnk", ""), 0);
	cr_expect(layer_is_whiteout("d/gone"));
	cr_expect(layer_is_opaque("e"));
	cr_expect_not(layer_is_opaque("d"));
	cr_expect_not(layer_has(".wh..wh.plnk"));
}

Test(images_unpack, makes_a_folder_opaque_that_replaces_what_a_whiteout_hid)
{
	cr_assert_eq(layer_add_file(".wh.first", ""), 0);
	cr_assert_eq(layer_add_folder("first"), 0);
	cr_expect(layer_is_opaque("first"));
	cr_assert_eq(layer_add_folder("last"), 0);
	cr_assert_eq(layer_add_file("last/kept", "x"), 0);
	cr_assert_eq(layer_add_file(".wh.last", ""), 0);
	cr_expect(layer_is_opaque("last"));
	cr_expect(layer_has("last/kept"));
	cr_assert_eq(layer_add_file("file", "x"), 0);
	cr_assert_eq(layer_add_file(".wh.file", ""), 0);
	cr_expect_not(layer_is_whiteout("file"), "it hides lower layers only");
}

Test(images_unpack, lets_the_last_entry_of_a_name_win)
{
	struct stat st;

	cr_assert_eq(layer_add_folder("x"), 0);
	cr_assert_eq(layer_add_file("x/in", "1"), 0);
	cr_assert_eq(layer_add_file("x", "2"), 0);
	cr_assert_eq(lstat(layer_path("x"), &st), 0);
	cr_expect(S_ISREG(st.st_mode));
	cr_assert_eq(layer_add_folder("x"), 0);
	cr_assert_eq(layer_add_file("x/a", "3"), 0);
	cr_assert_eq(layer_add_folder("x"), 0);
	cr_expect(layer_has("x/a"), "a folder again keeps what is in it");
}

Test(images_unpack, refuses_names_that_leave_the_folder)
{
	struct error err = ERROR_INIT;
	const struct layer_entry e = { .path = "a/../../out",
				       .mode = S_IFREG | 0644 };

	cr_expect_eq(layer_add(&e, NULL, &err), -EINVAL);
	cr_expect(strstr(err.msg, "leads out of the root"));
	cr_expect_eq(layer_add_file("..", "x"), -EINVAL);
	cr_expect_eq(layer_add_kind("l", S_IFREG | 0644, "../../etc/passwd",
				    true),
		     -EINVAL);
	cr_expect_eq(layer_add_file(".wh.", ""), -EINVAL);
	cr_expect_eq(layer_add_file(".wh...", ""), -EINVAL);
}

Test(images_unpack, resolves_links_of_the_layer_within_the_folder)
{
	char outside[80];

	snprintf(outside, sizeof(outside), "%s/outside", layer_base);
	cr_assert_eq(mkdir(outside, 0755), 0);
	cr_assert_eq(layer_add_kind("abs", S_IFLNK | 0777, outside, false), 0);
	cr_assert_eq(layer_add_kind("up", S_IFLNK | 0777, "../outside", false),
		     0);
	/* Neither symlink leads out of the layer: the folders that they name are made in it. */
	cr_expect_eq(layer_add_file("abs/f", "x"), 0);
	cr_expect_eq(layer_add_file("up/g", "x"), 0);
	cr_expect_eq(rmdir(outside), 0, "nothing was put outside");
	cr_expect(layer_has(outside));
	cr_expect(layer_has("outside/g"));

	cr_assert_eq(layer_add_folder("real"), 0);
	cr_assert_eq(layer_add_kind("in", S_IFLNK | 0777, "/real", false), 0);
	cr_expect_eq(layer_add_file("in/f", "x"), 0);
	cr_expect(layer_has("real/f"));
}

Test(images_unpack, never_follows_the_last_part)
{
	char outside[80];
	struct stat st;

	snprintf(outside, sizeof(outside), "%s/victim", layer_base);
	cr_assert_eq(fs_replace_file(outside, "v", 1, 0600, NULL), 0);
	cr_assert_eq(layer_add_kind("f", S_IFLNK | 0777, outside, false), 0);
	cr_assert_eq(layer_add_file("f", "overwritten"), 0);
	cr_assert_eq(lstat(outside, &st), 0);
	cr_expect_eq(st.st_size, 1);
	cr_expect_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(lstat(layer_path("f"), &st), 0);
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

	cr_assert_eq(layer_add(&e, NULL, NULL), 0);
	cr_expect_eq(getxattr(layer_path("d"), x.name, v, sizeof(v)), -1);
}

/* ---- attributes that the kernel removes or adds */

/* The capability cap_net_bind_service=ep, as setcap(8) writes it. */
static const uint8_t capability[20] = { 1, 0, 0, 2, 0, 4 };
static const struct xattr with_capability = { .name = "security.capability",
					      .value = capability,
					      .size = sizeof(capability) };

Test(images_unpack, keeps_capabilities_and_set_id_bits_of_files_with_content)
{
	const struct layer_entry e = {
		.path = "ping",
		.mode = S_IFREG | S_ISUID | S_ISGID | 0755,
		.uid = 12,
		.gid = 34,
		.mtime = 5,
		.size = 7,
		.xattrs = &with_capability,
	};
	struct stat st;

	cr_assert_eq(layer_add(&e, "content", NULL), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	cr_expect_eq(layer_xattr("ping", "security.capability"), 20);
	cr_assert_eq(lstat(layer_path("ping"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, S_ISUID | S_ISGID | 0755);
	cr_expect_eq(st.st_mtim.tv_sec, 5);
}

Test(images_unpack, gives_a_file_what_the_header_of_its_hard_link_says)
{
	const struct xattr user = { .name = "user.k", .value = "v", .size = 1 };
	const struct layer_entry file = { .path = "a",
					  .mode = S_IFREG | 0644,
					  .size = 1,
					  .mtime = 5,
					  .xattrs = &user };
	const struct layer_entry link = { .path = "b",
					  .link = "a",
					  .hard = true,
					  .mode = S_IFREG | S_ISUID | 0750,
					  .uid = 12,
					  .gid = 34,
					  .mtime = 9,
					  .xattrs = &with_capability };
	struct stat st;

	cr_assert_eq(layer_add(&file, "x", NULL), 0);
	cr_assert_eq(layer_add(&link, NULL, NULL), 0);
	cr_assert_eq(lstat(layer_path("a"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, S_ISUID | 0750);
	cr_expect(st.st_uid == 12 && st.st_gid == 34);
	cr_expect_eq(st.st_mtim.tv_sec, 9);
	cr_expect_eq(layer_xattr("a", "security.capability"), 20);
	cr_expect_eq(layer_xattr("a", "user.k"), 1, "they are added");
}

Test(images_unpack, links_symlinks_and_gives_them_owner_and_time)
{
	const struct xattr user = { .name = "user.k", .value = "v", .size = 1 };
	const struct layer_entry link = { .path = "t",
					  .link = "s",
					  .hard = true,
					  .mode = S_IFREG | 0644,
					  .uid = 12,
					  .mtime = -9,
					  .mtime_nsec = 500000000,
					  .xattrs = &user };
	struct stat st;

	cr_assert_eq(layer_add_kind("s", S_IFLNK | 0777, "/nowhere", false), 0);
	cr_assert_eq(layer_add(&link, NULL, NULL), 0);
	cr_assert_eq(lstat(layer_path("s"), &st), 0);
	cr_expect_eq(st.st_uid, 12);
	cr_expect_eq(st.st_nlink, 2);
	cr_expect(st.st_mtim.tv_sec == -9 && st.st_mtim.tv_nsec == 500000000);
}

Test(images_unpack, gives_no_file_the_default_acl_of_its_folder)
{
	static const uint8_t acl[] = { 2,    0,    0,    0,    1,    0, 7, 0,
				       0xff, 0xff, 0xff, 0xff, 2,    0, 7, 0,
				       12,   0,    0,    0,    4,    0, 5, 0,
				       0xff, 0xff, 0xff, 0xff, 0x10, 0, 7, 0,
				       0xff, 0xff, 0xff, 0xff, 0x20, 0, 5, 0,
				       0xff, 0xff, 0xff, 0xff };
	const struct xattr x = { .name = "system.posix_acl_default",
				 .value = acl,
				 .size = sizeof(acl) };
	const struct layer_entry e = { .path = "d",
				       .mode = S_IFDIR | 0755,
				       .xattrs = &x };

	cr_assert_eq(layer_add(&e, NULL, NULL), 0);
	cr_assert_eq(layer_xattr("d", "system.posix_acl_default"), sizeof(acl));
	cr_assert_eq(layer_add_file("d/f", "x"), 0);
	cr_assert_eq(layer_add_folder("d/listed"), 0);
	cr_assert_eq(layer_add_file("d/implied/f", "x"), 0);
	cr_expect_eq(layer_xattr("d/f", "system.posix_acl_access"), -1);
	cr_expect_eq(layer_xattr("d/listed", "system.posix_acl_default"), -1);
	cr_expect_eq(layer_xattr("d/implied", "system.posix_acl_default"), -1);
}

/* ---- paths ---- */

static void expect_time(const char *path, long want)
{
	struct stat st;

	cr_assert_eq(lstat(layer_path(path), &st), 0, "%s", path);
	cr_expect_eq(st.st_mtim.tv_sec, want, "%s: %ld", path,
		     (long)st.st_mtim.tv_sec);
}

Test(images_unpack, takes_dots_out_of_names_as_they_are_written)
{
	cr_assert_eq(layer_add_folder("a/../e"), 0);
	cr_assert_eq(layer_add_file("/../e/./f", "x"), 0);
	cr_assert_eq(layer_add_kind("x/../l", S_IFREG | 0644, "q/../e/f", true),
		     0);
	cr_expect(layer_has("e/f"));
	cr_expect(layer_has("l"));
	cr_expect_not(layer_has("a"), "nothing is looked up for a/..");
}

Test(images_unpack, makes_what_a_symlink_on_the_way_names)
{
	cr_assert_eq(layer_add_kind("b", S_IFLNK | 0777, "e/b", false), 0);
	cr_assert_eq(layer_add_file("b/c/f", "x"), 0);
	cr_expect(layer_has("e/b/c/f"));
	cr_assert_eq(layer_add_kind("up", S_IFLNK | 0777, "../../e/../new/.",
				    false),
		     0);
	cr_assert_eq(layer_add_file("up/f", "x"), 0);
	cr_expect(layer_has("new/f"));
	/* A symlink works even if the layer has a whiteout of its target. */
	cr_assert_eq(layer_add_kind("d", S_IFLNK | 0777, "/a", false), 0);
	cr_assert_eq(layer_add_file(".wh.a", ""), 0);
	cr_assert_eq(layer_add_file("d/d", "x"), 0);
	cr_expect(layer_has("a/d"));
	cr_expect(layer_is_opaque("a"));
	/* A circle of symlinks is an error. */
	cr_assert_eq(layer_add_kind("o", S_IFLNK | 0777, "o", false), 0);
	cr_expect_eq(layer_add_file("o/f", "x"), -ELOOP);
}

Test(images_unpack, keeps_times_of_folders_reached_through_a_symlink_that_goes)
{
	cr_assert_eq(layer_add_kind("e", S_IFLNK | 0777, "../b", false), 0);
	cr_assert_eq(layer_add_folder("b/b/e"), 0);
	cr_assert_eq(layer_add_folder("e/a/"), 0);
	cr_assert_eq(layer_add_folder("b/a/a/"), 0);
	cr_assert_eq(layer_add_folder("e/"), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	expect_time("b/a", 1000);
	expect_time("b", 1000);
	expect_time("e", 1000);
}

Test(images_unpack, goes_another_way_when_a_symlink_was_replaced)
{
	cr_assert_eq(layer_add_kind("l", S_IFLNK | 0777, "one", false), 0);
	cr_assert_eq(layer_add_file("l/f", "x"), 0);
	cr_assert_eq(layer_add_kind("l", S_IFLNK | 0777, "two", false), 0);
	cr_assert_eq(layer_add_file("l/g", "x"), 0);
	cr_expect(layer_has("one/f"));
	cr_expect(layer_has("two/g"));
	/* An entry of the folder `one` replaces a symlink on the path by which `w` leads there. */
	cr_assert_eq(layer_add_kind("one/s", S_IFLNK | 0777, "../two", false),
		     0);
	cr_assert_eq(layer_add_kind("w", S_IFLNK | 0777, "one/s/../one", false),
		     0);
	cr_assert_eq(layer_add_file("w/h", "x"), 0);
	cr_assert_eq(layer_add_file("w/s", "x"), 0);
	cr_expect_eq(layer_add_file("w/i", "x"), -ENOTDIR);
}

Test(images_unpack, a_mode_goes_before_what_an_acl_says)
{
	static const uint8_t acl[] = { 2, 0,    0,    0,    1,    0,    6,
				       0, 0xff, 0xff, 0xff, 0xff, 4,    0,
				       4, 0,    0xff, 0xff, 0xff, 0xff, 0x20,
				       0, 4,    0,    0xff, 0xff, 0xff, 0xff };
	const struct xattr x = { .name = "system.posix_acl_access",
				 .value = acl,
				 .size = sizeof(acl) };
	const struct layer_entry e = { .path = "f",
				       .mode = S_IFREG | S_ISUID | 0755,
				       .xattrs = &x };
	struct stat st;

	cr_assert_eq(layer_add(&e, NULL, NULL), 0);
	cr_assert_eq(lstat(layer_path("f"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, S_ISUID | 0755, "%o", st.st_mode);
}
