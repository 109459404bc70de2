// SPDX-License-Identifier: Apache-2.0
/* Unpacking ordinary layers on top of others, and limits of the work. */
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

TestSuite(images_unpack_lower, .timeout = 120, .init = layer_setup,
	  .fini = layer_teardown);

/* ---- folders without an entry of their own */

/* Make a folder in a lower layer, with attributes from which expect_as_below() knows `id`. */
static void make_lower(const char *layer, const char *path, unsigned int id)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   { .tv_sec = id } };
	char name[200];

	snprintf(name, sizeof(name), "%s/%s/%s", layer_base, layer, path);
	cr_assert(mkdir(name, 0700) == 0 || errno == EEXIST);
	cr_assert_eq(setxattr(name, "user.id", "x", 1, 0), 0);
	cr_assert_eq(setxattr(name, "trusted.overlay.origin", "x", 1, 0), 0);
	cr_assert_eq(chown(name, id, id), 0);
	cr_assert_eq(chmod(name, 02770), 0);
	cr_assert_eq(utimensat(AT_FDCWD, name, times, 0), 0);
}

/* Unpack on top of two layers, "low1" above "low0". */
static struct pace *pace;
static uint64_t steps_max;
static bool keeps_root;
static void unpack_over_two(void)
{
	static char low[2][80];
	const char *const lower[] = { low[1], low[0] };
	const struct unpack_options over = { .lower = lower,
					     .n_lower = 2,
					     .keeps_root = keeps_root,
					     .pace = pace,
					     .steps_max = steps_max };

	unpack_free(layer_unpack);
	for (int i = 0; i < 2; i++)
		snprintf(low[i], sizeof(low[i]), "%s/low%d", layer_base, i);
	make_lower("low1", "", 11);
	cr_assert_eq(unpack_new(layer_dir, &over, &layer_unpack, NULL), 0);
}

static void expect_as_below(const char *path, unsigned int id)
{
	struct stat st;

	cr_assert_eq(lstat(layer_path(path), &st), 0);
	cr_expect(st.st_uid == id && st.st_gid == id, "%s: %u", path,
		  st.st_uid);
	cr_expect_eq(st.st_mode & 07777, 02770);
	cr_expect_eq(st.st_mtim.tv_sec, id, "%s: %ld", path,
		     (long)st.st_mtim.tv_sec);
	cr_expect_eq(layer_xattr(path, "user.id"), 1);
	cr_expect_eq(layer_xattr(path, "trusted.overlay.origin"), -1);
}

static void expect_plain(const char *path)
{
	struct stat st;

	cr_assert_eq(lstat(layer_path(path), &st), 0);
	cr_expect(st.st_uid == 0 && st.st_gid == 0, "%s", path);
	cr_expect_eq(st.st_mode & 07777, 0755, "%s", path);
	cr_expect_eq(st.st_mtim.tv_sec, 1000, "%s: that of the entry", path);
	cr_expect_eq(layer_xattr(path, "user.id"), -1, "%s", path);
}

static void make_two_below(void)
{
	char low[80];

	for (int i = 0; i < 2; i++) {
		snprintf(low, sizeof(low), "%s/low%d", layer_base, i);
		cr_assert_eq(mkdir(low, 0755), 0);
	}
}

Test(images_unpack_lower, an_implied_folder_looks_as_the_layers_below_show_it)
{
	make_two_below();
	make_lower("low0", "a", 20);
	make_lower("low0", "a/b", 21);
	make_lower("low1", "a", 22);
	unpack_over_two();
	cr_assert_eq(layer_add_file("a/b/new/f", "x"), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	expect_as_below("", 11);
	expect_as_below("a", 22);
	expect_as_below("a/b", 21);
	expect_plain("a/b/new");
}

Test(images_unpack_lower, an_entry_for_a_folder_replaces_all_that_is_below)
{
	const struct layer_entry root = { .path = "./",
					  .mode = S_IFDIR | 0755,
					  .mtime = 1000 };

	make_two_below();
	make_lower("low1", "a", 20);
	unpack_over_two();
	cr_assert_eq(layer_add_file("a/f", "x"), 0);
	cr_assert_eq(layer_add_folder("a"), 0);
	cr_assert_eq(layer_add(&root, NULL, NULL), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	expect_plain("a");
	expect_plain("");
}

Test(images_unpack_lower, an_implied_folder_has_nothing_of_what_a_layer_hides)
{
	char name[120];

	make_two_below();
	make_lower("low0", "gone", 20);
	make_lower("low0", "file", 20);
	make_lower("low0", "opq", 20);
	make_lower("low0", "opq/in", 21);
	make_lower("low0", "here", 20);
	make_lower("low0", "here/in", 21);
	/* set its time again after the change */
	make_lower("low0", "here", 20);
	snprintf(name, sizeof(name), "%s/low1/gone", layer_base);
	cr_assert_eq(mknod(name, S_IFCHR, makedev(0, 0)), 0);
	snprintf(name, sizeof(name), "%s/low1/file", layer_base);
	cr_assert_eq(fs_replace_file(name, "v", 1, 0600, NULL), 0);
	make_lower("low1", "opq", 30);
	snprintf(name, sizeof(name), "%s/low1/opq", layer_base);
	cr_assert_eq(setxattr(name, "trusted.overlay.opaque", "y", 1, 0), 0);
	unpack_over_two();
	cr_assert_eq(layer_add_file("gone/f", "x"), 0);
	cr_assert_eq(layer_add_file("file/f", "x"), 0);
	cr_assert_eq(layer_add_file("opq/in/f", "x"), 0);
	cr_assert_eq(layer_add_file("here/.wh..wh..opq", ""), 0);
	cr_assert_eq(layer_add_file("here/in/f", "x"), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	expect_plain("gone");
	expect_plain("file");
	expect_as_below("opq", 30);
	expect_plain("opq/in");
	expect_as_below("here", 20);
	expect_plain("here/in");
}

Test(images_unpack_lower, takes_files_below_a_folder_that_the_layer_took_away)
{
	make_two_below();
	make_lower("low0", "d", 20);
	unpack_over_two();
	cr_assert_eq(layer_add_file(".wh.d", ""), 0);
	cr_assert_eq(layer_add_file("d/sub/f", "x"), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	cr_expect(layer_is_opaque("d"));
	cr_expect(layer_has("d/sub/f"));
	expect_plain("d");
	/* A path must not lead through a file of this layer. */
	cr_assert_eq(layer_add_file("file", "x"), 0);
	cr_expect_eq(layer_add_file("file/f", "x"), -ENOTDIR);
	cr_expect_eq(layer_add_file("file/sub/f", "x"), -ENOTDIR);
}

/* ---- what the layers below show ---- */

Test(images_unpack_lower, makes_whiteouts_only_of_what_the_layers_below_show)
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
	snprintf(name, sizeof(name), "%s/low1/d/gone", layer_base);
	cr_assert_eq(mknod(name, S_IFCHR, makedev(0, 0)), 0);
	make_lower("low0", "opq", 20);
	make_lower("low0", "opq/low", 20);
	make_lower("low1", "opq", 20);
	make_lower("low1", "opq/top", 20);
	snprintf(name, sizeof(name), "%s/low1/opq", layer_base);
	cr_assert_eq(setxattr(name, "trusted.overlay.opaque", "y", 1, 0), 0);
	make_lower("low0", "here", 20);
	make_lower("low0", "here/low", 20);
	unpack_over_two();
	cr_assert_eq(layer_add_file("d/.wh.low", ""), 0);
	cr_assert_eq(layer_add_file("d/.wh.none", ""), 0);
	cr_assert_eq(layer_add_file("d/.wh.gone", ""), 0);
	cr_assert_eq(layer_add_file("opq/.wh.top", ""), 0);
	cr_assert_eq(layer_add_file("opq/.wh.low", ""), 0);
	cr_assert_eq(layer_add_file("here/.wh..wh..opq", ""), 0);
	cr_assert_eq(layer_add_file("here/.wh.low", ""), 0);
	cr_assert_eq(layer_add_file("none/.wh.x", ""), 0);
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		cr_expect(i == 1 || layer_is_whiteout(shown[i]), "%s",
			  shown[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_expect_not(layer_has(others[i]), "%s", others[i]);
	cr_assert_eq(layer_add_file(".wh.d", ""), 0);
	cr_expect(layer_is_opaque("d"), "what it has already stays");
}

Test(images_unpack_lower,
     leaves_no_whiteouts_below_a_folder_that_becomes_opaque)
{
	make_two_below();
	make_lower("low0", "d", 20);
	make_lower("low0", "d/x", 20);
	make_lower("low0", "d/sub", 20);
	make_lower("low0", "d/sub/y", 20);
	make_lower("low0", "d/sub", 20);
	make_lower("low0", "d", 20);
	unpack_over_two();
	cr_assert_eq(layer_add_file("d/.wh.x", ""), 0);
	cr_assert_eq(layer_add_file("d/sub/.wh.y", ""), 0);
	cr_assert_eq(layer_add_file("d/sub/kept", "x"), 0);
	cr_expect(layer_is_whiteout("d/x") && layer_is_whiteout("d/sub/y"));
	cr_assert_eq(layer_add_file("d/.wh..wh..opq", ""), 0);
	cr_expect(layer_is_opaque("d"));
	cr_expect_not(layer_has("d/x") || layer_has("d/sub/y"));
	cr_expect(layer_has("d/sub/kept"));
	expect_as_below("d", 20);
	expect_as_below("d/sub", 20);
	/* overlayfs ignores an opaque root. */
	make_lower("low0", "e", 20);
	cr_assert_eq(layer_add_file(".wh.e", ""), 0);
	cr_assert_eq(layer_add_file(".wh..wh..opq", ""), 0);
	cr_expect(layer_is_whiteout("e"));
}

static long peak_kib(void)
{
	struct rusage r;

	cr_assert_eq(getrusage(RUSAGE_SELF, &r), 0);
	return r.ru_maxrss;
}

/* A layer may have many names in few bytes, and the kernel kills bootseerd last for lack of
 * memory. */
Test(images_unpack_lower,
     many_names_in_a_folder_that_becomes_opaque_take_no_memory)
{
	char first[40], name[40];
	long before;
	int fd;

	cr_assert_eq(layer_add_folder("d"), 0);
	fd = open(layer_path("d"), O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 150000; i++) {
		snprintf(name, sizeof(name), "name-%d", i);
		/* An ext4 file can have no more names than this. */
		if (i % 50000 == 0) {
			strcpy(first, name);
			cr_assert_eq(mknodat(fd, name, S_IFREG | 0600, 0), 0);
		} else {
			cr_assert_eq(linkat(fd, first, fd, name, 0), 0);
		}
	}
	close(fd);
	cr_assert_eq(layer_add_file("d/.wh.gone", ""), 0);
	cr_assert(layer_is_whiteout("d/gone"));
	before = peak_kib();
	cr_assert_eq(layer_add_file("d/.wh..wh..opq", ""), 0);
	cr_expect_lt(peak_kib() - before, 8 << 10);
	cr_expect(!layer_has("d/gone"));
	cr_expect(layer_is_opaque("d"));
	cr_expect(layer_has("d/name-0"));
}

/* Deeper than the number of folders that are kept open, and longer than a path can be. */
Test(images_unpack_lower, finds_whiteouts_at_any_depth_beside_other_folders)
{
	int fd = open(layer_dir, O_RDONLY | O_DIRECTORY), next;
	int depth = 0, n_found = 0;
	struct stat st;

	cr_assert_eq(layer_add_folder("top"), 0);
	/* Made by openat(), since the path "top/d/d/d..." gets too long. */
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
	cr_assert_eq(layer_add_file("top/.wh.other", ""), 0);
	cr_assert(layer_is_whiteout("top/other"));
	cr_assert_eq(layer_add_file("top/.wh..wh..opq", ""), 0);
	/* Go back up, and check each level. */
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

Test(images_unpack_lower, makes_no_whiteouts_in_the_bottom_layer)
{
	const struct unpack_options bottom = { .lower = (const char *const[]){
						       NULL } };

	unpack_free(layer_unpack);
	cr_assert_eq(unpack_new(layer_dir, &bottom, &layer_unpack, NULL), 0);
	cr_assert_eq(layer_add_file("d/.wh.x", ""), 0);
	cr_assert_eq(layer_add_file(".wh.y", ""), 0);
	cr_assert_eq(unpack_finish(layer_unpack, NULL), 0);
	cr_expect(layer_has("d"));
	cr_expect_not(layer_has("d/x"));
	cr_expect_not(layer_has("y"));
}

Test(images_unpack_lower, a_folder_in_place_of_a_file_of_its_layer_is_opaque)
{
	cr_assert_eq(layer_add_folder("d"), 0);
	cr_assert_eq(layer_add_file("d", "x"), 0);
	cr_assert_eq(layer_add_folder("d"), 0);
	cr_expect(layer_is_opaque("d"));
	cr_assert_eq(layer_add_folder("again"), 0);
	cr_assert_eq(layer_add_folder("again"), 0);
	cr_expect_not(layer_is_opaque("again"));
}

/* ---- failures ---- */

/* Allow only `more` descriptors beyond those that are open now. */
static void allow_descriptors(unsigned int more)
{
	struct rlimit r;
	int fd = dup(0);

	cr_assert(fd >= 0 && close(fd) == 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &r), 0);
	r.rlim_cur = more ? (rlim_t)fd + more : r.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &r), 0);
}

/* Unpack entries in a folder that only the layers below describe, with few descriptors. */
static int implied_with(unsigned int descriptors, struct error *err)
{
	const struct layer_entry gone = { .path = "a/b/.wh.low",
					  .mode = S_IFREG | 0644 };
	const struct layer_entry e = { .path = "a/b/c",
				       .mode = S_IFIFO | 0600,
				       .mtime = 1000 };
	int rc;

	cr_assert_eq(fs_remove_tree(layer_dir, NULL), 0);
	cr_assert_eq(mkdir(layer_dir, 0755), 0);
	unpack_over_two();
	allow_descriptors(descriptors);
	rc = layer_add(&e, NULL, err);
	if (rc == 0)
		rc = layer_add(&gone, NULL, err);
	if (rc == 0)
		rc = unpack_finish(layer_unpack, err);
	allow_descriptors(0);
	return rc;
}

Test(images_unpack_lower, takes_no_failure_to_look_for_there_being_nothing)
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
	cr_expect(layer_is_whiteout("a/b/low"));
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

Test(images_unpack_lower, looks_up_each_part_of_a_deep_name_a_few_times)
{
	char name[2 * DEEP + 8];

	make_two_below();
	make_lower("low0", "d", 20);
	/* The cost of one folder, in the layer and in the two below. */
	steps_max = 20 * DEEP;
	unpack_over_two();
	cr_assert_eq(layer_add_file(deep_name(name, "f"), "x"), 0);
	expect_as_below("d", 20);
	for (char g[] = "g0"; g[1] <= '9'; g[1]++)
		cr_assert_eq(layer_add_file(deep_name(name, g), "x"), 0,
			     "the folder of the entry before");
	cr_assert_eq(layer_add_file(name, "x"), 0, "a file in place of a file");
}

Test(images_unpack_lower, refuses_names_that_take_for_ever)
{
	const struct layer_entry e = { .path = "l/l/l/l/f",
				       .mode = S_IFREG | 0644 };
	struct error err = ERROR_INIT;
	int rc = 0;

	make_two_below();
	steps_max = 2000;
	unpack_over_two();
	cr_assert_eq(layer_add_folder("a"), 0);
	cr_assert_eq(layer_add_kind("l", S_IFLNK | 0777, "a/../a/../a/../a/..",
				    false),
		     0);
	for (int i = 0; i < 1000 && rc == 0; i++) {
		rc = layer_add(&e, NULL, &err);
		if (rc == 0)
			rc = layer_add_file("a/x", "x");
	}
	cr_expect_eq(rc, -E2BIG);
}

static enum pace_level unpack_test_level(struct pace *p)
{
	(void)p;
	return PACE_STOP;
}

Test(images_unpack_lower, ends_soon_when_nobody_waits_any_more)
{
	struct pace gone = { .level = unpack_test_level };
	struct error err = ERROR_INIT;
	const struct layer_entry e = { .path = "f", .mode = S_IFREG | 0644 };

	make_two_below();
	pace = &gone;
	unpack_over_two();
	cr_expect_eq(layer_add(&e, "x", &err), -ECANCELED);
	cr_expect(strstr(err.msg, "nobody waits"));
	cr_expect_eq(unpack_finish(layer_unpack, NULL), -ECANCELED);
}

/* containerd ignores the entry of the root, and unpacks the layer into the same folder if
 * bootseerd fails. */
Test(images_unpack_lower, can_leave_the_root_as_it_was)
{
	const struct layer_entry root = { .path = "./",
					  .mode = S_IFDIR | 01700,
					  .uid = 7,
					  .gid = 8,
					  .mtime = 1000 };
	struct stat before, st;

	cr_assert_eq(chown(layer_dir, 9, 9), 0);
	cr_assert_eq(chmod(layer_dir, 0751), 0);
	cr_assert_eq(stat(layer_dir, &before), 0);
	make_lower("low0", "", 10);
	keeps_root = true;
	unpack_over_two();
	cr_assert_eq(layer_add(&root, NULL, NULL), 0);
	cr_assert_eq(stat(layer_dir, &st), 0);
	cr_expect_eq(st.st_mode, before.st_mode);
	cr_expect_eq(st.st_uid, 9);
	cr_expect_eq(st.st_gid, 9);
	cr_expect_eq(st.st_mtim.tv_sec, before.st_mtim.tv_sec);
}
