// SPDX-License-Identifier: Apache-2.0
/* Unpacking of ordinary layers, entry by entry; as root, as bootseerd runs. */
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
#include "snapshotter/node/layers/unpack.h"

static char base[40]; /* on a disk: overlayfs' xattrs need one */
static char dir[64];
static struct unpack *unpack;
/* Nobody knows what is below. */
static const struct unpack_options options = { .lower = NULL };

static void setup(void)
{
	strcpy(base, "/var/tmp/unpack.XXXXXX");
	cr_assert(mkdtemp(base));
	snprintf(dir, sizeof(dir), "%s/layer", base);
	cr_assert_eq(mkdir(dir, 0755), 0);
	cr_assert_eq(unpack_new(dir, &options, &unpack, NULL), 0);
}

static void teardown(void)
{
	unpack_free(unpack);
	cr_assert_eq(fs_remove_tree(base, NULL), 0);
}

TestSuite(images_unpack, .timeout = 120, .init = setup, .fini = teardown);

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
	cr_expect(strstr(err.msg, "leads out of the root"));
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
	/* Neither leads out: what it names is made here. */
	cr_expect_eq(add_file("abs/f", "x"), 0);
	cr_expect_eq(add_file("up/g", "x"), 0);
	cr_expect_eq(rmdir(outside), 0, "nothing was put outside");
	cr_expect(exists(outside));
	cr_expect(exists("outside/g"));

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

/* ---- what the kernel takes away, or adds ---- */

/* cap_net_bind_service=ep, as setcap(8) writes it. */
static const uint8_t capability[20] = { 1, 0, 0, 2, 0, 4 };
static const struct xattr with_capability = { .name = "security.capability",
					      .value = capability,
					      .size = sizeof(capability) };

static ssize_t xattr_of(const char *path, const char *name)
{
	uint8_t v[64];

	return lgetxattr(in(path), name, v, sizeof(v));
}

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

	cr_assert_eq(add(&e, "content", NULL), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	cr_expect_eq(xattr_of("ping", "security.capability"), 20);
	cr_assert_eq(lstat(in("ping"), &st), 0);
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

	cr_assert_eq(add(&file, "x", NULL), 0);
	cr_assert_eq(add(&link, NULL, NULL), 0);
	cr_assert_eq(lstat(in("a"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, S_ISUID | 0750);
	cr_expect(st.st_uid == 12 && st.st_gid == 34);
	cr_expect_eq(st.st_mtim.tv_sec, 9);
	cr_expect_eq(xattr_of("a", "security.capability"), 20);
	cr_expect_eq(xattr_of("a", "user.k"), 1, "they are added");
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

	cr_assert_eq(add_kind("s", S_IFLNK | 0777, "/nowhere", false), 0);
	cr_assert_eq(add(&link, NULL, NULL), 0);
	cr_assert_eq(lstat(in("s"), &st), 0);
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

	cr_assert_eq(add(&e, NULL, NULL), 0);
	cr_assert_eq(xattr_of("d", "system.posix_acl_default"), sizeof(acl));
	cr_assert_eq(add_file("d/f", "x"), 0);
	cr_assert_eq(add_folder("d/listed"), 0);
	cr_assert_eq(add_file("d/implied/f", "x"), 0);
	cr_expect_eq(xattr_of("d/f", "system.posix_acl_access"), -1);
	cr_expect_eq(xattr_of("d/listed", "system.posix_acl_default"), -1);
	cr_expect_eq(xattr_of("d/implied", "system.posix_acl_default"), -1);
}

/* ---- folders that no entry describes ---- */

/* A folder of a layer below with attributes that tell `id`. */
static void make_lower(const char *layer, const char *path, unsigned int id)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   { .tv_sec = id } };
	char name[200];

	snprintf(name, sizeof(name), "%s/%s/%s", base, layer, path);
	cr_assert(mkdir(name, 0700) == 0 || errno == EEXIST);
	cr_assert_eq(setxattr(name, "user.id", "x", 1, 0), 0);
	cr_assert_eq(setxattr(name, "trusted.overlay.origin", "x", 1, 0), 0);
	cr_assert_eq(chown(name, id, id), 0);
	cr_assert_eq(chmod(name, 02770), 0);
	cr_assert_eq(utimensat(AT_FDCWD, name, times, 0), 0);
}

/* Two layers below, "low1" on top of "low0". */
static struct pace *pace;
static uint64_t steps_max;
static void unpack_over_two(void)
{
	static char low[2][80];
	const char *const lower[] = { low[1], low[0] };
	const struct unpack_options over = { .lower = lower,
					     .n_lower = 2,
					     .pace = pace,
					     .steps_max = steps_max };

	unpack_free(unpack);
	for (int i = 0; i < 2; i++)
		snprintf(low[i], sizeof(low[i]), "%s/low%d", base, i);
	make_lower("low1", "", 11);
	cr_assert_eq(unpack_new(dir, &over, &unpack, NULL), 0);
}

static void expect_as_below(const char *path, unsigned int id)
{
	struct stat st;

	cr_assert_eq(lstat(in(path), &st), 0);
	cr_expect(st.st_uid == id && st.st_gid == id, "%s: %u", path,
		  st.st_uid);
	cr_expect_eq(st.st_mode & 07777, 02770);
	cr_expect_eq(st.st_mtim.tv_sec, id, "%s: %ld", path,
		     (long)st.st_mtim.tv_sec);
	cr_expect_eq(xattr_of(path, "user.id"), 1);
	cr_expect_eq(xattr_of(path, "trusted.overlay.origin"), -1);
}

static void expect_plain(const char *path)
{
	struct stat st;

	cr_assert_eq(lstat(in(path), &st), 0);
	cr_expect(st.st_uid == 0 && st.st_gid == 0, "%s", path);
	cr_expect_eq(st.st_mode & 07777, 0755, "%s", path);
	cr_expect_eq(st.st_mtim.tv_sec, 1000, "%s: that of the entry", path);
	cr_expect_eq(xattr_of(path, "user.id"), -1, "%s", path);
}

static void make_two_below(void)
{
	char low[80];

	for (int i = 0; i < 2; i++) {
		snprintf(low, sizeof(low), "%s/low%d", base, i);
		cr_assert_eq(mkdir(low, 0755), 0);
	}
}

Test(images_unpack, an_implied_folder_looks_as_the_layers_below_show_it)
{
	make_two_below();
	make_lower("low0", "a", 20);
	make_lower("low0", "a/b", 21);
	make_lower("low1", "a", 22);
	unpack_over_two();
	cr_assert_eq(add_file("a/b/new/f", "x"), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	expect_as_below("", 11);
	expect_as_below("a", 22);
	expect_as_below("a/b", 21);
	expect_plain("a/b/new");
}

Test(images_unpack, an_entry_for_a_folder_replaces_all_that_is_below)
{
	const struct layer_entry root = { .path = "./",
					  .mode = S_IFDIR | 0755,
					  .mtime = 1000 };

	make_two_below();
	make_lower("low1", "a", 20);
	unpack_over_two();
	cr_assert_eq(add_file("a/f", "x"), 0);
	cr_assert_eq(add_folder("a"), 0);
	cr_assert_eq(add(&root, NULL, NULL), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	expect_plain("a");
	expect_plain("");
}

Test(images_unpack, an_implied_folder_has_nothing_of_what_a_layer_hides)
{
	char name[120];

	make_two_below();
	make_lower("low0", "gone", 20);
	make_lower("low0", "file", 20);
	make_lower("low0", "opq", 20);
	make_lower("low0", "opq/in", 21);
	make_lower("low0", "here", 20);
	make_lower("low0", "here/in", 21);
	make_lower("low0", "here", 20); /* its time again */
	snprintf(name, sizeof(name), "%s/low1/gone", base);
	cr_assert_eq(mknod(name, S_IFCHR, makedev(0, 0)), 0);
	snprintf(name, sizeof(name), "%s/low1/file", base);
	cr_assert_eq(fs_replace_file(name, "v", 1, 0600, NULL), 0);
	make_lower("low1", "opq", 30);
	snprintf(name, sizeof(name), "%s/low1/opq", base);
	cr_assert_eq(setxattr(name, "trusted.overlay.opaque", "y", 1, 0), 0);
	unpack_over_two();
	cr_assert_eq(add_file("gone/f", "x"), 0);
	cr_assert_eq(add_file("file/f", "x"), 0);
	cr_assert_eq(add_file("opq/in/f", "x"), 0);
	cr_assert_eq(add_file("here/.wh..wh..opq", ""), 0);
	cr_assert_eq(add_file("here/in/f", "x"), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	expect_plain("gone");
	expect_plain("file");
	expect_as_below("opq", 30);
	expect_plain("opq/in");
	expect_as_below("here", 20);
	expect_plain("here/in");
}

Test(images_unpack, takes_files_below_a_folder_that_the_layer_took_away)
{
	make_two_below();
	make_lower("low0", "d", 20);
	unpack_over_two();
	cr_assert_eq(add_file(".wh.d", ""), 0);
	cr_assert_eq(add_file("d/sub/f", "x"), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	cr_expect(is_opaque("d"));
	cr_expect(exists("d/sub/f"));
	expect_plain("d");
	/* But not below what is there and no folder. */
	cr_assert_eq(add_file("file", "x"), 0);
	cr_expect_eq(add_file("file/f", "x"), -ENOTDIR);
	cr_expect_eq(add_file("file/sub/f", "x"), -ENOTDIR);
}

/* ---- paths ---- */

static void expect_time(const char *path, long want)
{
	struct stat st;

	cr_assert_eq(lstat(in(path), &st), 0, "%s", path);
	cr_expect_eq(st.st_mtim.tv_sec, want, "%s: %ld", path,
		     (long)st.st_mtim.tv_sec);
}

Test(images_unpack, takes_dots_out_of_names_as_they_are_written)
{
	cr_assert_eq(add_folder("a/../e"), 0);
	cr_assert_eq(add_file("/../e/./f", "x"), 0);
	cr_assert_eq(add_kind("x/../l", S_IFREG | 0644, "q/../e/f", true), 0);
	cr_expect(exists("e/f"));
	cr_expect(exists("l"));
	cr_expect_not(exists("a"), "nothing is looked up for a/..");
}

Test(images_unpack, makes_what_a_symlink_on_the_way_names)
{
	cr_assert_eq(add_kind("b", S_IFLNK | 0777, "e/b", false), 0);
	cr_assert_eq(add_file("b/c/f", "x"), 0);
	cr_expect(exists("e/b/c/f"));
	cr_assert_eq(add_kind("up", S_IFLNK | 0777, "../../e/../new/.", false),
		     0);
	cr_assert_eq(add_file("up/f", "x"), 0);
	cr_expect(exists("new/f"));
	/* Also where the layer itself hides what it names. */
	cr_assert_eq(add_kind("d", S_IFLNK | 0777, "/a", false), 0);
	cr_assert_eq(add_file(".wh.a", ""), 0);
	cr_assert_eq(add_file("d/d", "x"), 0);
	cr_expect(exists("a/d"));
	cr_expect(is_opaque("a"));
	/* But a circle is none. */
	cr_assert_eq(add_kind("o", S_IFLNK | 0777, "o", false), 0);
	cr_expect_eq(add_file("o/f", "x"), -ELOOP);
}

Test(images_unpack, keeps_times_of_folders_reached_through_a_symlink_that_goes)
{
	cr_assert_eq(add_kind("e", S_IFLNK | 0777, "../b", false), 0);
	cr_assert_eq(add_folder("b/b/e"), 0);
	cr_assert_eq(add_folder("e/a/"), 0);
	cr_assert_eq(add_folder("b/a/a/"), 0);
	cr_assert_eq(add_folder("e/"), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	expect_time("b/a", 1000);
	expect_time("b", 1000);
	expect_time("e", 1000);
}

Test(images_unpack, goes_another_way_when_a_symlink_was_replaced)
{
	cr_assert_eq(add_kind("l", S_IFLNK | 0777, "one", false), 0);
	cr_assert_eq(add_file("l/f", "x"), 0);
	cr_assert_eq(add_kind("l", S_IFLNK | 0777, "two", false), 0);
	cr_assert_eq(add_file("l/g", "x"), 0);
	cr_expect(exists("one/f"));
	cr_expect(exists("two/g"));
	/* By an entry of the folder that it was on the way to. */
	cr_assert_eq(add_kind("one/s", S_IFLNK | 0777, "../two", false), 0);
	cr_assert_eq(add_kind("w", S_IFLNK | 0777, "one/s/../one", false), 0);
	cr_assert_eq(add_file("w/h", "x"), 0);
	cr_assert_eq(add_file("w/s", "x"), 0);
	cr_expect_eq(add_file("w/i", "x"), -ENOTDIR);
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

	cr_assert_eq(add(&e, NULL, NULL), 0);
	cr_assert_eq(lstat(in("f"), &st), 0);
	cr_expect_eq(st.st_mode & 07777, S_ISUID | 0755, "%o", st.st_mode);
}

/* ---- what the layers below show ---- */

Test(images_unpack, makes_whiteouts_only_of_what_the_layers_below_show)
{
	static const char *const shown[] = { "d/low", "d", "opq/top" };
	static const char *const others[] = { "d/none", "none/x", "d/gone",
					      "opq/low", "here/low" };
	char name[120];

	make_two_below();
	make_lower("low0", "d", 20);
	make_lower("low0", "d/low", 20);
	make_lower("low0", "d/gone", 20);
	make_lower("low1", "d", 20);
	snprintf(name, sizeof(name), "%s/low1/d/gone", base);
	cr_assert_eq(mknod(name, S_IFCHR, makedev(0, 0)), 0);
	make_lower("low0", "opq", 20);
	make_lower("low0", "opq/low", 20);
	make_lower("low1", "opq", 20);
	make_lower("low1", "opq/top", 20);
	snprintf(name, sizeof(name), "%s/low1/opq", base);
	cr_assert_eq(setxattr(name, "trusted.overlay.opaque", "y", 1, 0), 0);
	make_lower("low0", "here", 20);
	make_lower("low0", "here/low", 20);
	unpack_over_two();
	cr_assert_eq(add_file("d/.wh.low", ""), 0);
	cr_assert_eq(add_file("d/.wh.none", ""), 0);
	cr_assert_eq(add_file("d/.wh.gone", ""), 0);
	cr_assert_eq(add_file("opq/.wh.top", ""), 0);
	cr_assert_eq(add_file("opq/.wh.low", ""), 0);
	cr_assert_eq(add_file("here/.wh..wh..opq", ""), 0);
	cr_assert_eq(add_file("here/.wh.low", ""), 0);
	cr_assert_eq(add_file("none/.wh.x", ""), 0);
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		cr_expect(i == 1 || is_whiteout(shown[i]), "%s", shown[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_expect_not(exists(others[i]), "%s", others[i]);
	cr_assert_eq(add_file(".wh.d", ""), 0);
	cr_expect(is_opaque("d"), "what it has already stays");
}

Test(images_unpack, leaves_no_whiteouts_below_a_folder_that_becomes_opaque)
{
	make_two_below();
	make_lower("low0", "d", 20);
	make_lower("low0", "d/x", 20);
	make_lower("low0", "d/sub", 20);
	make_lower("low0", "d/sub/y", 20);
	make_lower("low0", "d/sub", 20);
	make_lower("low0", "d", 20);
	unpack_over_two();
	cr_assert_eq(add_file("d/.wh.x", ""), 0);
	cr_assert_eq(add_file("d/sub/.wh.y", ""), 0);
	cr_assert_eq(add_file("d/sub/kept", "x"), 0);
	cr_expect(is_whiteout("d/x") && is_whiteout("d/sub/y"));
	cr_assert_eq(add_file("d/.wh..wh..opq", ""), 0);
	cr_expect(is_opaque("d"));
	cr_expect_not(exists("d/x") || exists("d/sub/y"));
	cr_expect(exists("d/sub/kept"));
	expect_as_below("d", 20);
	expect_as_below("d/sub", 20);
	/* But overlayfs has no opaque root. */
	make_lower("low0", "e", 20);
	cr_assert_eq(add_file(".wh.e", ""), 0);
	cr_assert_eq(add_file(".wh..wh..opq", ""), 0);
	cr_expect(is_whiteout("e"));
}

static long peak_kib(void)
{
	struct rusage r;

	cr_assert_eq(getrusage(RUSAGE_SELF, &r), 0);
	return r.ru_maxrss;
}

/* Names cost a layer nothing, and bootseerd is the last that the kernel would end. */
Test(images_unpack, many_names_in_a_folder_that_becomes_opaque_take_no_memory)
{
	char first[40], name[40];
	long before;
	int fd;

	cr_assert_eq(add_folder("d"), 0);
	fd = open(in("d"), O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 150000; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		/* More than a file of ext4 can have. */
		if (i % 50000 == 0) {
			strcpy(first, name);
			cr_assert_eq(mknodat(fd, name, S_IFREG | 0600, 0), 0);
		} else {
			cr_assert_eq(linkat(fd, first, fd, name, 0), 0);
		}
	}
	close(fd);
	cr_assert_eq(add_file("d/.wh.gone", ""), 0);
	cr_assert(is_whiteout("d/gone"));
	before = peak_kib();
	cr_assert_eq(add_file("d/.wh..wh..opq", ""), 0);
	cr_expect_lt(peak_kib() - before, 8 << 10);
	cr_expect(!exists("d/gone"));
	cr_expect(is_opaque("d"));
	cr_expect(exists("d/name-0"));
}

/* Deeper than folders are open, and than a path can be. */
Test(images_unpack, finds_whiteouts_at_any_depth_beside_other_folders)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY), next;
	int depth = 0, n_found = 0;
	struct stat st;

	cr_assert_eq(add_folder("top"), 0);
	/* From here on by hand: its last part is "top/d/d/d/d...". */
	next = openat(fd, "top", O_RDONLY | O_DIRECTORY);
	for (; depth < 3000; depth++) {
		close(fd);
		fd = next;
		cr_assert_eq(mkdirat(fd, "d", 0755), 0);
		if (depth % 10 == 0) {
			cr_assert_eq(mkdirat(fd, "beside", 0755), 0);
			cr_assert_eq(mknodat(fd, "beside/gone", S_IFCHR,
					     makedev(0, 0)),
				     0);
		}
		cr_assert_eq(mknodat(fd, "gone", S_IFCHR, makedev(0, 0)), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
	}
	cr_assert_eq(add_file("top/.wh.other", ""), 0);
	cr_assert(is_whiteout("top/other"));
	cr_assert_eq(add_file("top/.wh..wh..opq", ""), 0);
	/* Back up again. */
	for (; depth > 0; depth--) {
		n_found += fstatat(fd, "gone", &st, 0) == 0;
		n_found += fstatat(fd, "beside/gone", &st, 0) == 0;
		close(next);
		next = fd;
		fd = openat(next, "..", O_RDONLY | O_DIRECTORY);
	}
	close(next);
	close(fd);
	cr_expect_eq(n_found, 0);
}

Test(images_unpack, makes_no_whiteouts_in_the_bottom_layer)
{
	const struct unpack_options bottom = { .lower = (const char *const[]){
						       NULL } };

	unpack_free(unpack);
	cr_assert_eq(unpack_new(dir, &bottom, &unpack, NULL), 0);
	cr_assert_eq(add_file("d/.wh.x", ""), 0);
	cr_assert_eq(add_file(".wh.y", ""), 0);
	cr_assert_eq(unpack_finish(unpack, NULL), 0);
	cr_expect(exists("d"));
	cr_expect_not(exists("d/x"));
	cr_expect_not(exists("y"));
}

Test(images_unpack, a_folder_in_place_of_a_file_of_its_layer_is_opaque)
{
	cr_assert_eq(add_folder("d"), 0);
	cr_assert_eq(add_file("d", "x"), 0);
	cr_assert_eq(add_folder("d"), 0);
	cr_expect(is_opaque("d"));
	cr_assert_eq(add_folder("again"), 0);
	cr_assert_eq(add_folder("again"), 0);
	cr_expect_not(is_opaque("again"));
}

/* ---- failures ---- */

/* Only so many descriptors more than are open now. */
static void allow_descriptors(unsigned int more)
{
	struct rlimit r;
	int fd = dup(0);

	cr_assert(fd >= 0 && close(fd) == 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = more ? (rlim_t)fd + more : r.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
}

/* What an entry made of the folder, which the layers below have, and their file. */
static int implied_with(unsigned int descriptors, struct error *err)
{
	const struct layer_entry gone = { .path = "a/b/.wh.low",
					  .mode = S_IFREG | 0644 };
	const struct layer_entry e = { .path = "a/b/c",
				       .mode = S_IFIFO | 0600,
				       .mtime = 1000 };
	int rc;

	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
	cr_assert_eq(mkdir(dir, 0755), 0);
	unpack_over_two();
	allow_descriptors(descriptors);
	rc = add(&e, NULL, err);
	if (rc == 0)
		rc = add(&gone, NULL, err);
	if (rc == 0)
		rc = unpack_finish(unpack, err);
	allow_descriptors(0);
	return rc;
}

Test(images_unpack, takes_no_failure_to_look_for_there_being_nothing)
{
	struct error err = ERROR_INIT;
	unsigned int n = 1;
	int rc;

	make_two_below();
	make_lower("low0", "a", 20);
	make_lower("low0", "a/b", 21);
	make_lower("low0", "a/b/low", 22);
	make_lower("low0", "a/b", 21);
	make_lower("low0", "a", 20);
	for (; (rc = implied_with(n, &err)) < 0; n++) {
		cr_assert_eq(rc, -EMFILE, "%u: %d %s", n, rc, err.msg);
		cr_assert_lt(n, 100);
	}
	cr_expect_gt(n, 3);
	expect_as_below("a", 20);
	expect_as_below("a/b", 21);
	cr_expect(is_whiteout("a/b/low"));
}

/* ---- bounds ---- */

#define DEEP 1900

static char *deep_name(char out[2 * DEEP + 2], const char *last)
{
	for (int i = 0; i < DEEP; i++)
		memcpy(out + 2 * (size_t)i, "d/", 2);
	strcpy(out + (size_t)2 * DEEP, last);
	return out;
}

Test(images_unpack, looks_up_each_part_of_a_deep_name_a_few_times)
{
	char name[2 * DEEP + 8];

	make_two_below();
	make_lower("low0", "d", 20);
	/* The folder itself, in the layer and in the two below. */
	steps_max = 20 * DEEP;
	unpack_over_two();
	cr_assert_eq(add_file(deep_name(name, "f"), "x"), 0);
	expect_as_below("d", 20);
	for (char g[] = "g0"; g[1] <= '9'; g[1]++)
		cr_assert_eq(add_file(deep_name(name, g), "x"), 0,
			     "the folder of the entry before");
	cr_assert_eq(add_file(name, "x"), 0, "a file in place of a file");
}

Test(images_unpack, refuses_names_that_take_for_ever)
{
	const struct layer_entry e = { .path = "l/l/l/l/f",
				       .mode = S_IFREG | 0644 };
	struct error err = ERROR_INIT;
	int rc = 0;

	make_two_below();
	steps_max = 2000;
	unpack_over_two();
	cr_assert_eq(add_folder("a"), 0);
	cr_assert_eq(add_kind("l", S_IFLNK | 0777, "a/../a/../a/../a/..",
			      false),
		     0);
	for (int i = 0; i < 1000 && rc == 0; i++) {
		rc = add(&e, NULL, &err);
		if (rc == 0)
			rc = add_file("a/x", "x");
	}
	cr_expect_eq(rc, -E2BIG);
}

static enum pace_level unpack_test_level(struct pace *p)
{
	(void)p;
	return PACE_STOP;
}

Test(images_unpack, ends_soon_when_nobody_waits_any_more)
{
	struct pace gone = { .level = unpack_test_level };
	struct error err = ERROR_INIT;
	const struct layer_entry e = { .path = "f", .mode = S_IFREG | 0644 };

	make_two_below();
	pace = &gone;
	unpack_over_two();
	cr_expect_eq(add(&e, "x", &err), -ECANCELED);
	cr_expect(strstr(err.msg, "nobody waits"));
	cr_expect_eq(unpack_finish(unpack, NULL), -ECANCELED);
}
