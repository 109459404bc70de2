// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/apply.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(apply, .timeout = 120);

static struct tree *tree;
static struct apply *apply;
static struct error err;

static void setup(void)
{
	tree = tree_new();
	apply = apply_new(tree);
	cr_assert(tree && apply);
	apply_next_layer(apply);
}

static void teardown(void)
{
	apply_free(apply);
	tree_free(tree);
}

static int add_full(const struct layer_entry *e)
{
	struct inode *i;

	return apply_entry(apply, e, &i, &err);
}

static int add(const char *path, uint32_t mode)
{
	struct layer_entry e = {
		.path = path, .mode = mode, .size = 3, .mtime = 77
	};

	return add_full(&e);
}

static int add_file(const char *path)
{
	return add(path, S_IFREG | 0644);
}

static int add_dir(const char *path)
{
	return add(path, S_IFDIR | 0755);
}

static int add_link(const char *path, const char *target)
{
	struct layer_entry e = { .path = path,
				 .link = target,
				 .mode = S_IFLNK | 0777 };

	return add_full(&e);
}

static int add_hard(const char *path, const char *target)
{
	struct layer_entry e = {
		.path = path, .link = target, .hard = true, .mode = S_IFREG
	};

	return add_full(&e);
}

/* Find the inode at a path without symlinks, or NULL. */
static struct inode *at(const char *path)
{
	struct inode *i = tree_root(tree);

	while (i && *path) {
		size_t len = strcspn(path, "/");
		struct dentry *d = tree_find(tree, i, path, len);

		i = d ? d->inode : NULL;
		path += len + (path[len] == '/');
	}
	return i;
}

Test(apply, makes_folders_that_no_entry_names, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("a/b/c"), 0);
	cr_assert(at("a/b/c"));
	cr_expect_eq(at("a/b")->mode, S_IFDIR | 0755);
	cr_expect_eq(at("a")->mtime, 77);
}

Test(apply, takes_any_spelling_of_a_name, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("./a//b/"), 0);
	cr_assert_eq(add_file("/a/x/../c"), 0);
	cr_assert_eq(add_file("/../d"), 0);
	cr_expect(at("a/b"));
	cr_expect(at("a/c"));
	cr_expect_null(at("a/x"));
	cr_expect(at("d"));
}

Test(apply, refuses_a_name_that_leads_out_of_the_root, .init = setup,
     .fini = teardown)
{
	cr_expect_eq(add_file("../x"), -EINVAL);
	cr_expect_eq(add_file("a/../../x"), -EINVAL);
	cr_expect(strstr(err.msg, "out of the root"));
	cr_expect_eq(add_hard("y", "../../etc/shadow"), -EINVAL);
}

Test(apply, keeps_symlinked_parents_inside_of_the_root, .init = setup,
     .fini = teardown)
{
	cr_assert_eq(add_link("up", "../../../../etc"), 0);
	cr_assert_eq(add_file("up/passwd"), 0);
	cr_expect(at("etc/passwd"));
	cr_assert_eq(add_link("usr/lib64", "/usr/lib"), 0);
	cr_assert_eq(add_file("usr/lib64/x"), 0);
	cr_expect(at("usr/lib/x"));
}

Test(apply, gives_up_on_symlinks_in_a_circle, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_link("a", "b"), 0);
	cr_assert_eq(add_link("b", "a"), 0);
	cr_expect_eq(add_file("a/x"), -ELOOP);
}

Test(apply, refuses_a_parent_that_is_a_file, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("a"), 0);
	cr_expect_eq(add_file("a/b"), -ENOTDIR);
}

Test(apply, whiteout_removes_what_is_below, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("a/b/c"), 0);
	cr_assert_eq(add_file("a/d"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("a/.wh.b"), 0);
	cr_assert_eq(add_file("a/.wh.nothing"), 0);
	cr_expect_null(at("a/b"));
	cr_expect(at("a/d"));
	cr_expect_eq(tree_n_inodes(tree), 3);
}

Test(apply, whiteout_must_name_something, .init = setup, .fini = teardown)
{
	cr_expect_eq(add_file(".wh."), -EINVAL);
	cr_expect_eq(add_file("a/.wh..."), -EINVAL);
	cr_expect_eq(add_file("a/.wh.."), -EINVAL);
}

Test(apply, opaque_hides_lower_layers_only, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("d/old"), 0);
	cr_assert_eq(add_file("d/sub/old"), 0);
	cr_assert_eq(add_file("d/linked"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("d/new"), 0);
	cr_assert_eq(add_dir("d/sub"), 0);
	cr_assert_eq(add_file("d/sub/new"), 0);
	cr_assert_eq(add_hard("d/again", "d/linked"), 0);
	cr_assert_eq(add_file("d/.wh..wh..opq"), 0);
	cr_expect_null(at("d/old"));
	cr_expect_null(at("d/sub/old"));
	cr_expect_null(at("d/linked"));
	cr_expect(at("d/new"));
	cr_expect(at("d/sub/new"));
	cr_assert(at("d/again"));
	cr_expect_eq(at("d/again")->nlink, 1);
}

/* A layer puts entries into folder D/low of the layer below, without an entry for the folder. */
static void add_below_implied(bool marker_first)
{
	struct xattr x = { .name = "user.a", .value = "1", .size = 1 };
	struct layer_entry e = {
		.path = "D/low", .mode = S_IFDIR | 0700, .uid = 5, .xattrs = &x
	};

	cr_assert_eq(add_full(&e), 0);
	cr_assert_eq(add_file("D/low/old"), 0);
	cr_assert_eq(add_file("D/gone/old"), 0);
	apply_next_layer(apply);
	if (marker_first)
		cr_assert_eq(add_file("D/.wh..wh..opq"), 0);
	cr_assert_eq(add_file("D/low/new"), 0);
	cr_assert_eq(add_file("D/made/new"), 0);
	if (!marker_first)
		cr_assert_eq(add_file("D/.wh..wh..opq"), 0);
	cr_expect(at("D/low/new"));
	cr_expect(at("D/made/new"));
	cr_expect_null(at("D/low/old"));
	cr_expect_null(at("D/gone"));
}

Test(apply, opaque_behind_nested_entries_keeps_them, .init = setup,
     .fini = teardown)
{
	add_below_implied(false);
	cr_expect_eq(at("D/low")->mode, S_IFDIR | 0700, "it was there");
	cr_expect_eq(at("D/low")->uid, 5);
	cr_expect(at("D/low")->xattrs);
}

Test(apply, opaque_before_nested_entries_hides_the_folders_that_were,
     .init = setup, .fini = teardown)
{
	add_below_implied(true);
	cr_expect_eq(at("D/low")->mode, S_IFDIR | 0755, "it is a new one");
	cr_expect_eq(at("D/low")->uid, 0);
	cr_expect_null(at("D/low")->xattrs);
}

Test(apply, opaque_hides_what_the_layer_only_passed_by_before, .init = setup,
     .fini = teardown)
{
	cr_assert_eq(add_file("D/low/deep/old"), 0);
	cr_assert_eq(add_file("D/low/deep/older"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("D/low/new"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("D/low/deep/.wh.old"), 0);
	cr_assert_eq(add_file("D/.wh..wh..opq"), 0);
	cr_expect_null(at("D/low/new"), "it is of a layer below");
	cr_expect_null(at("D/low/deep/older"));
}

Test(apply, a_whiteout_hides_nothing_of_its_own_layer, .init = setup,
     .fini = teardown)
{
	cr_assert_eq(add_file("file"), 0);
	cr_assert_eq(add_file("dir/old"), 0);
	cr_assert_eq(add_file("implied/sub/old"), 0);
	cr_assert_eq(add_file("target"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("file"), 0);
	cr_assert_eq(add_file(".wh.file"), 0);
	cr_assert_eq(add_dir("dir"), 0);
	cr_assert_eq(add_file("dir/new"), 0);
	cr_assert_eq(add_file(".wh.dir"), 0);
	cr_assert_eq(add_file("implied/new"), 0);
	cr_assert_eq(add_file(".wh.implied"), 0);
	cr_assert_eq(add_hard("link", "target"), 0);
	cr_assert_eq(add_file(".wh.link"), 0);
	cr_assert_eq(add_file(".wh.target"), 0);
	cr_expect(at("file"));
	cr_expect(at("dir/new"));
	cr_expect_null(at("dir/old"));
	cr_expect(at("implied/new"));
	cr_expect_null(at("implied/sub"));
	cr_expect(at("link"));
	cr_expect_null(at("target"));
	apply_next_layer(apply);
	cr_assert_eq(add_file(".wh.file"), 0);
	cr_assert_eq(add_file(".wh.implied"), 0);
	cr_expect_null(at("file"), "the next layer hides it");
	cr_expect_null(at("implied"));
}

Test(apply, last_of_equal_names_wins, .init = setup, .fini = teardown)
{
	struct layer_entry e = { .path = "f",
				 .mode = S_IFREG | 0600,
				 .size = 1 };
	struct inode *first, *second;

	cr_assert_eq(apply_entry(apply, &e, &first, &err), 0);
	e.size = 2;
	cr_assert_eq(apply_entry(apply, &e, &second, &err), 0);
	cr_expect_eq(first->nlink, 0);
	cr_expect_eq(at("f"), second);
	cr_expect_eq(second->size, 2);
}

Test(apply, an_entry_may_change_its_kind, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("d/x"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("d"), 0);
	cr_expect(S_ISREG(at("d")->mode));
	apply_next_layer(apply);
	cr_assert_eq(add_dir("d"), 0);
	cr_expect(S_ISDIR(at("d")->mode));
	cr_expect_null(at("d/x"));
}

Test(apply, a_folder_again_keeps_its_children_but_not_its_xattrs, .init = setup,
     .fini = teardown)
{
	struct xattr x = { .name = "user.a", .value = "1", .size = 1 };
	struct layer_entry e = {
		.path = "d", .mode = S_IFDIR | 0700, .uid = 5, .xattrs = &x
	};

	cr_assert_eq(add_full(&e), 0);
	cr_assert_eq(add_file("d/x"), 0);
	cr_assert(at("d")->xattrs);
	apply_next_layer(apply);
	cr_assert_eq(add("d", S_IFDIR | 01777), 0);
	cr_expect_eq(at("d")->mode, S_IFDIR | 01777);
	cr_expect_eq(at("d")->uid, 0);
	cr_expect_null(at("d")->xattrs);
	cr_expect(at("d/x"));
}

Test(apply, hard_links_reach_over_layers, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("a/f"), 0);
	cr_assert_eq(add_link("l", "a"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_hard("b/g", "l/f"), 0);
	cr_expect_eq(at("b/g"), at("a/f"));
	cr_expect_eq(at("b/g")->nlink, 2);
	cr_expect_eq(add_hard("c", "nothing"), -ENOENT);
	cr_expect_eq(add_hard("c", "a"), -EINVAL);
	cr_expect_eq(add_hard("a/f", "a/f"), -ENOENT, "it removes its target");
}

static const struct xattr *xattr_of(const char *path, const char *name)
{
	const struct xattr *x = at(path)->xattrs;

	while (x && strcmp(x->name, name) != 0)
		x = x->next;
	return x;
}

/* A hard link's header changes the file as link(), chown(), setxattr(), chmod() and utimensat()
 * in this order do. */
Test(apply, a_hard_link_gives_the_file_its_attributes, .init = setup,
     .fini = teardown)
{
	struct xattr caps = { .name = "security.capability",
			      .value = "c",
			      .size = 1 };
	struct xattr old = {
		.next = &caps, .name = "user.old", .value = "1", .size = 1
	};
	struct xattr new = { .name = "user.new", .value = "2", .size = 1 };
	struct layer_entry e = {
		.path = "f", .mode = S_IFREG | 0644, .xattrs = &old, .mtime = 1
	};

	cr_assert_eq(add_full(&e), 0);
	e = (struct layer_entry){ .path = "g",
				  .link = "f",
				  .hard = true,
				  .mode = S_IFREG | 04755,
				  .uid = 5,
				  .gid = 6,
				  .mtime = 9,
				  .mtime_nsec = 8,
				  .xattrs = &new };
	cr_assert_eq(add_full(&e), 0);
	cr_assert_eq(at("g"), at("f"));
	cr_expect_eq(at("f")->mode, S_IFREG | 04755);
	cr_expect_eq(at("f")->uid, 5);
	cr_expect_eq(at("f")->gid, 6);
	cr_expect_eq(at("f")->mtime, 9);
	cr_expect_eq(at("f")->mtime_nsec, 8);
	cr_expect(xattr_of("f", "user.old"));
	cr_expect(xattr_of("f", "user.new"));
	cr_expect_null(xattr_of("f", "security.capability"));
}

Test(apply, a_hard_link_to_a_symlink_keeps_what_a_symlink_has, .init = setup,
     .fini = teardown)
{
	struct xattr x = { .name = "user.a", .value = "1", .size = 1 };
	struct layer_entry e = { .path = "m",
				 .link = "l",
				 .hard = true,
				 .mode = 0600,
				 .uid = 7,
				 .xattrs = &x };

	cr_assert_eq(add_link("l", "target"), 0);
	cr_assert_eq(add_full(&e), 0);
	cr_expect_eq(at("l")->mode, S_IFLNK | 0777);
	cr_expect_eq(at("l")->uid, 7);
	cr_expect_null(at("l")->xattrs);
}

/* As with containerd and overlayfs: a layer is unpacked alone, so it does not see a symlink of
 * the layer below. */
Test(apply, a_path_makes_a_folder_where_a_layer_below_has_a_symlink,
     .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("real/old"), 0);
	cr_assert_eq(add_link("l", "real"), 0);
	cr_assert_eq(add_link("m", "real"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("l/new"), 0);
	cr_assert_eq(add_link("mine", "m"), 0);
	cr_assert_eq(add_file("mine/new"), 0);
	cr_assert(at("l/new"));
	cr_expect_eq(at("l")->mode, S_IFDIR | 0755);
	cr_expect_null(at("l/old"));
	cr_expect_null(at("real/new"));
	cr_expect(S_ISLNK(at("mine")->mode),
		  "a symlink of the layer is followed");
	cr_expect(at("m/new"));
	apply_next_layer(apply);
	cr_assert_eq(add_link("again", "real"), 0);
	cr_assert_eq(add_file("again/newer"), 0);
	cr_expect(at("real/newer"));
}

Test(apply, a_whiteout_below_a_symlink_of_a_layer_below_makes_a_folder,
     .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("real/old"), 0);
	cr_assert_eq(add_link("l", "real"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("l/.wh.old"), 0);
	cr_expect(at("real/old"));
	cr_assert(at("l"));
	cr_expect(S_ISDIR(at("l")->mode));
}

Test(apply, a_path_makes_a_folder_where_a_layer_below_has_a_file, .init = setup,
     .fini = teardown)
{
	cr_assert_eq(add_file("f"), 0);
	cr_assert_eq(add("pipe", S_IFIFO | 0644), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("f/a/b"), 0);
	cr_assert_eq(add_file("pipe/a"), 0);
	cr_expect(at("f/a/b"));
	cr_expect_eq(at("f")->mode, S_IFDIR | 0755);
	cr_expect(at("pipe/a"));
	cr_assert_eq(add_file("g"), 0);
	cr_expect_eq(add_file("g/a"), -ENOTDIR, "a file of the same layer");
	apply_next_layer(apply);
	cr_assert_eq(add_hard("h", "g"), 0);
	cr_expect_eq(add_file("h/a"), -ENOTDIR, "a name of the same layer");
}

Test(apply, a_symlinks_way_out_of_what_is_not_there_makes_nothing,
     .init = setup, .fini = teardown)
{
	cr_assert_eq(add_link("below", "nowhere"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_link("l", "below/x/../../d"), 0);
	cr_assert_eq(add_file("l/f"), 0);
	cr_expect(at("d/f"));
	cr_assert(at("below"));
	cr_expect(S_ISLNK(at("below")->mode));
	cr_assert_eq(add_link("m", "missing/../d"), 0);
	cr_assert_eq(add_file("m/g"), 0);
	cr_expect(at("d/g"));
	cr_expect_null(at("missing"));
}

Test(apply, a_folder_that_replaces_what_replaced_one_is_empty, .init = setup,
     .fini = teardown)
{
	cr_assert_eq(add_file("d/old"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("d"), 0);
	cr_assert_eq(add_dir("d"), 0);
	cr_expect(at("d"));
	cr_expect_null(at("d/old"));
}

Test(apply, whiteouts_alone_do_not_keep_a_folder, .init = setup,
     .fini = teardown)
{
	struct layer_entry e = { .path = "D",
				 .mode = S_IFDIR | 0700,
				 .gid = 5 };

	cr_assert_eq(add_full(&e), 0);
	e.path = "E";
	cr_assert_eq(add_full(&e), 0);
	cr_assert_eq(add_file("D/sub/old"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_file("D/sub/.wh.old"), 0);
	cr_assert_eq(add_file(".wh.D"), 0);
	cr_expect_null(at("D"));
	cr_assert_eq(add_file("D/f"), 0);
	cr_expect_eq(at("D")->mode, S_IFDIR | 0755, "it is a new one");
	cr_expect_eq(at("D")->gid, 0);
	cr_assert_eq(add_file("E/.wh.x"), 0);
	cr_assert_eq(add_file("E/f"), 0);
	cr_assert_eq(add_file(".wh.E"), 0);
	cr_assert(at("E/f"));
	cr_expect_eq(at("E")->gid, 5);
}

/* overlayfs ignores an opaque marker in a layer's root. */
Test(apply, an_opaque_root_hides_nothing, .init = setup, .fini = teardown)
{
	cr_assert_eq(add_file("d/old"), 0);
	apply_next_layer(apply);
	cr_assert_eq(add_link("here", "."), 0);
	cr_assert_eq(add_file(".wh..wh..opq"), 0);
	cr_assert_eq(add_file("here/.wh..wh..opq"), 0);
	cr_expect(at("d/old"));
}

Test(apply, a_hard_link_to_a_symlink_gives_it_no_acl, .init = setup,
     .fini = teardown)
{
	struct xattr x = { .name = "system.posix_acl_access",
			   .value = "a",
			   .size = 1 };
	struct layer_entry e = {
		.path = "m", .link = "l", .hard = true, .xattrs = &x
	};

	cr_assert_eq(add_link("l", "target"), 0);
	cr_assert_eq(add_full(&e), 0);
	cr_expect_null(at("l")->xattrs);
	cr_assert_eq(add_file("f"), 0);
	e.link = "f";
	cr_assert_eq(add_full(&e), 0);
	cr_expect(at("f")->xattrs);
}

static const struct xattr *acl_of(const char *path)
{
	const struct xattr *x = at(path)->xattrs;

	while (x && strcmp(x->name, "system.posix_acl_access") != 0)
		x = x->next;
	return x;
}

/* chmod(2) changes the ACL too, and unpacking sets the mode last. */
Test(apply, a_mode_settles_what_an_acl_says, .init = setup, .fini = teardown)
{
	/* u::rw, u:5:r, g::rwx, m::rwx, o::r */
	static const uint8_t acl[] = {
		2,    0,    0,    0, 1,    0,    6,    0,    0xff,
		0xff, 0xff, 0xff, 2, 0,    4,    0,    5,    0,
		0,    0,    4,    0, 7,    0,    0xff, 0xff, 0xff,
		0xff, 0x10, 0,    7, 0,    0xff, 0xff, 0xff, 0xff,
		0x20, 0,    4,    0, 0xff, 0xff, 0xff, 0xff,
	};
	/* u::rw, g::r, o::r */
	static const uint8_t least[] = {
		2,    0,    0, 0, 1,    0,    6,    0,    0xff, 0xff,
		0xff, 0xff, 4, 0, 4,    0,    0xff, 0xff, 0xff, 0xff,
		0x20, 0,    4, 0, 0xff, 0xff, 0xff, 0xff,
	};
	struct xattr x = { .name = "system.posix_acl_access",
			   .value = acl,
			   .size = sizeof(acl) };
	struct layer_entry e = { .path = "f",
				 .mode = S_IFREG | 0674,
				 .xattrs = &x };
	const uint8_t *now;

	cr_assert_eq(add_full(&e), 0);
	cr_assert(acl_of("f"));
	cr_expect_eq(memcmp(acl_of("f")->value, acl, sizeof(acl)), 0);
	/* A hard link's header has another mode. */
	e = (struct layer_entry){
		.path = "m", .link = "f", .hard = true, .mode = S_IFREG | 0401
	};
	cr_assert_eq(add_full(&e), 0);
	cr_assert(acl_of("f"));
	now = acl_of("f")->value;
	cr_expect_eq(now[6], 4);
	cr_expect_eq(now[14], 4, "of the user");
	cr_expect_eq(now[22], 7, "of the group: the mask holds");
	cr_expect_eq(now[30], 0);
	cr_expect_eq(now[38], 1);

	x.value = least;
	x.size = sizeof(least);
	e = (struct layer_entry){ .path = "g",
				  .mode = S_IFREG | 0600,
				  .xattrs = &x };
	cr_assert_eq(add_full(&e), 0);
	cr_expect_null(acl_of("g"), "it says no more than the mode");
	cr_expect_eq(at("g")->mode, S_IFREG | 0600);
}

Test(apply, root_entry_sets_the_roots_attributes, .init = setup,
     .fini = teardown)
{
	cr_assert_eq(add("./", S_IFDIR | 0711), 0);
	cr_expect_eq(tree_root(tree)->mode, S_IFDIR | 0711);
	cr_expect_eq(add("/", S_IFREG | 0644), -EINVAL);
}

Test(apply, bounds_names_files_and_devices, .init = setup, .fini = teardown)
{
	char name[300];
	struct layer_entry e = { .path = "big",
				 .mode = S_IFREG,
				 .size = APPLY_FILE_MAX + 1 };

	memset(name, 'n', 255);
	name[255] = '\0';
	cr_expect_eq(add_file(name), 0);
	name[255] = 'n';
	name[256] = '\0';
	cr_expect_eq(add_file(name), -ENAMETOOLONG);
	cr_expect_eq(add_full(&e), -EFBIG);
	e = (struct layer_entry){ .path = "dev",
				  .mode = S_IFCHR,
				  .major = 5000 };
	cr_expect_eq(add_full(&e), -EINVAL);
	cr_expect_eq(add("sock", S_IFSOCK), -EINVAL);
}

Test(apply, bounds_the_depth_of_folders, .init = setup, .fini = teardown)
{
	int rc = 0, n = 0;

	/* Following the link again and again puts a folder one level deeper each time. */
	cr_assert_eq(add_link("l", "/"), 0);
	while (rc == 0 && n++ < 5000) {
		rc = add_dir("l/d");
		if (rc == 0)
			rc = add_link("new", "l/d");
		if (rc == 0) {
			struct inode *deep = at("l");
			char *target = NULL;

			cr_assert(asprintf(&target, "%s/d", deep->target) > 0);
			rc = strlen(target) > 4000 ? -ENAMETOOLONG
						   : add_link("l", target);
			free(target);
		}
	}
	cr_expect_eq(rc, -ENAMETOOLONG);
}
