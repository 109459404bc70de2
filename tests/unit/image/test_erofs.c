// SPDX-License-Identifier: Apache-2.0
/* Writer and reader against each other, and against fsck.erofs. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/digest.h"
#include "common/fs.h"
#include "image/erofs/erofs.h"
#include "random_tree.h"
#include "scan.h"
#include "tree_diff.h"

TestSuite(erofs, .timeout = 120);

static const struct erofs_device devices[RANDOM_DEVICES] = {
	{ .size = RANDOM_DEVICE_SIZE, .tag = "one" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "two" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "three" },
};

static const struct erofs_params params = {
	.uuid = { 1, 2, 3 },
	.build_time = 1700000000,
	.devices = devices,
	.n_devices = RANDOM_DEVICES,
};

struct image {
	void *data;
	size_t len;
};

static void image_fini(struct image *i)
{
	free(i->data);
}
#define AUTO_IMAGE __attribute__((cleanup(image_fini))) struct image

static void write_image(struct tree *t, struct image *ret)
{
	struct error err = ERROR_INIT;
	int rc = erofs_write(t, &params, &ret->data, &ret->len, &err);
	struct erofs_image img;

	cr_assert_eq(rc, 0, "%s", err.msg);
	cr_assert_eq(ret->len % EROFS_BLOCK, 0);
	/* What a node checks before it mounts takes all that is written. */
	rc = erofs_check(ret->data, ret->len, &img, &err);
	cr_assert_eq(rc, 0, "%s", err.msg);
}

static struct tree *read_image(const struct image *i)
{
	struct error err = ERROR_INIT;
	struct erofs_image img;
	struct tree *t = NULL;

	cr_assert_eq(erofs_open(i->data, i->len, &img, &err), 0, "%s", err.msg);
	cr_assert_eq(erofs_read_tree(&img, &t, &err), 0, "%s", err.msg);
	return t;
}

static void expect_same(struct tree *a, struct tree *b)
{
	AUTO_FREE char *diff = tree_diff(a, b, true);

	cr_expect_null(diff, "%s", diff);
}

static struct inode *add(struct tree *t, struct inode *dir, const char *name,
			 uint32_t mode)
{
	struct inode *i = tree_inode_new(t, mode);

	cr_assert_eq(tree_link(t, dir, name, strlen(name), i), 0);
	return i;
}

static struct inode *add_extents(struct tree *t, const char *name,
				 uint64_t size, const struct extent *e,
				 uint32_t n)
{
	struct inode *i = add(t, tree_root(t), name, S_IFREG | 0644);

	i->size = size;
	i->data = INODE_DATA_EXTENTS;
	i->extents = tree_alloc(t, n * sizeof(*e) + 1);
	if (n)
		memcpy(i->extents, e, n * sizeof(*e));
	i->n_extents = n;
	return i;
}

Test(erofs, gives_back_any_tree)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		AUTO(tree) t = random_tree(seed, (unsigned int)seed * 10);
		AUTO(tree) back = NULL;
		AUTO_IMAGE image = { NULL, 0 };

		write_image(t, &image);
		back = read_image(&image);
		expect_same(t, back);
	}
}

static void relayout_all(struct rnd *r, struct tree *t, struct inode *dir)
{
	for (struct dentry *d = dir->children; d; d = d->next) {
		struct inode *i = d->inode;

		if (S_ISDIR(i->mode))
			relayout_all(r, t, i);
		else if (i->data == INODE_DATA_EXTENTS)
			random_relayout(r, t, i);
	}
}

Test(erofs, lays_a_read_tree_out_anew_with_other_extents)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		AUTO(tree) t = random_tree(seed, 300);
		AUTO(tree) back = NULL;
		AUTO(tree) again = NULL;
		AUTO_IMAGE image = { NULL, 0 };
		AUTO_IMAGE other = { NULL, 0 };
		struct rnd r = { seed };
		char *diff;

		write_image(t, &image);
		back = read_image(&image);
		relayout_all(&r, back, tree_root(back));
		write_image(back, &other);
		again = read_image(&other);
		expect_same(back, again);
		diff = tree_diff(t, again, false);
		cr_expect_null(diff, "%s", diff);
		free(diff);
	}
}

Test(erofs, writes_the_same_bytes_for_the_same_tree)
{
	AUTO(tree) a = random_tree(7, 2000);
	AUTO(tree) b = random_tree(7, 2000);
	AUTO(tree) back = NULL;
	AUTO_IMAGE x = { NULL, 0 };
	AUTO_IMAGE y = { NULL, 0 };
	AUTO_IMAGE z = { NULL, 0 };

	write_image(a, &x);
	write_image(b, &y);
	cr_assert_eq(x.len, y.len);
	cr_expect_eq(memcmp(x.data, y.data, x.len), 0);
	/* Also for one that was built in another order. */
	back = read_image(&x);
	write_image(back, &z);
	cr_assert_eq(x.len, z.len);
	cr_expect_eq(memcmp(x.data, z.data, x.len), 0);
}

Test(erofs, satisfies_fsck)
{
	char dir[] = "/tmp/bootseer-erofs.XXXXXX";
	struct error err = ERROR_INIT;

	cr_assert_not_null(mkdtemp(dir));
	for (uint64_t seed = 1; seed <= 5; seed++) {
		AUTO(tree) t = random_tree(seed, 400);
		AUTO_IMAGE image = { NULL, 0 };
		AUTO_BUF path = BUF_INIT;
		AUTO_BUF command = BUF_INIT;

		write_image(t, &image);
		cr_assert_eq(buf_printf(&path, "%s/image", dir), 0);
		cr_assert_eq(fs_replace_file(path.data, image.data, image.len,
					     0600, &err),
			     0);
		cr_assert_eq(buf_printf(&command,
					"cd %s && truncate -s 4M d && "
					"fsck.erofs --device=d --device=d "
					"--device=d image",
					dir),
			     0);
		cr_expect_eq(system(command.data), 0);
	}
	cr_assert_eq(fs_remove_tree(dir, &err), 0);
}

/* A second opinion on the format: the tools' own writer. */
Test(erofs, reads_what_mkfs_wrote)
{
	char dir[] = "/var/tmp/bootseer-erofs.XXXXXX";
	struct scan scan = { .data_fd = -1, .inline_max = 1 << 20 };
	AUTO(tree) t = NULL;
	AUTO_BUF command = BUF_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF content = BUF_INIT;
	struct error err = ERROR_INIT;
	struct image image;
	char *diff;

	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(buf_printf(&command,
				"cd %s && mkdir -p s/d/e s/many && "
				"seq 1 9000 > s/d/long && ln s/d/long s/hard "
				"&& ln -s d/long s/soft && mkfifo s/fifo && "
				"mknod s/null c 1 3 && : > s/empty && "
				"setfattr -n user.a -v b s/d/long && "
				"(cd s/many && seq -f 'file %%g' 1 1000 | "
				"xargs -d '\\n' touch) && "
				"mkfs.erofs --quiet image s",
				dir),
		     0);
	cr_assert_eq(system(command.data), 0);
	cr_assert_eq(buf_printf(&path, "%s/image", dir), 0);
	cr_assert_eq(fs_read_file(path.data, 16 << 20, &content, &err), 0);
	image = (struct image){ content.data, content.len };
	t = read_image(&image);
	buf_reset(&path);
	cr_assert_eq(buf_printf(&path, "%s/s", dir), 0);
	cr_assert_eq(scan_tree(&scan, path.data), 0);
	diff = tree_diff(scan.tree, t, false);
	cr_expect_null(diff, "%s", diff);
	free(diff);
	scan_fini(&scan);
	cr_assert_eq(fs_remove_tree(dir, &err), 0);
}

Test(erofs, finds_and_lists_every_name_of_a_huge_folder)
{
	enum { N = 100000 };
	AUTO(tree) t = tree_new();
	AUTO(tree) back = NULL;
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	struct erofs_image img;
	struct erofs_inode root, ei;
	uint64_t nid;
	char name[32];

	for (unsigned int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%u.file", i * 7919u);
		add(t, tree_root(t), name, S_IFREG)->uid = i;
	}
	write_image(t, &image);
	cr_assert_eq(erofs_open(image.data, image.len, &img, &err), 0);
	cr_assert_eq(erofs_inode(&img, img.root_nid, &root, &err), 0);
	for (unsigned int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "%u.file", i * 7919u);
		cr_assert_eq(erofs_lookup(&img, &root, name, strlen(name), &nid,
					  &err),
			     0, "%s", err.msg);
		cr_assert_eq(erofs_inode(&img, nid, &ei, &err), 0);
		cr_assert_eq(ei.uid, i);
	}
	cr_expect_eq(erofs_lookup(&img, &root, "0", 1, &nid, &err), -ENOENT);
	cr_expect_eq(erofs_lookup(&img, &root, "\xff", 1, &nid, &err), -ENOENT);
	cr_expect_eq(erofs_lookup(&img, &root, ".", 1, &nid, &err), 0);
	cr_expect_eq(nid, img.root_nid);
	back = read_image(&image);
	expect_same(t, back);
}

struct listing {
	size_t n, stop_at;
	uint64_t cookie;
	struct buf names;
};

static int list_entry(void *arg, const char *name, size_t len, uint64_t nid,
		      uint8_t type, uint64_t cookie)
{
	struct listing *l = arg;

	l->cookie = cookie;
	cr_assert_eq(buf_append(&l->names, name, len), 0);
	cr_assert_eq(buf_puts(&l->names, "/"), 0);
	return ++l->n == l->stop_at ? 1 : 0;
}

Test(erofs, resumes_a_listing_behind_any_entry)
{
	AUTO(tree) t = random_tree(11, 700);
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	struct listing whole = { 0 };
	struct erofs_image img;
	struct erofs_inode root;

	write_image(t, &image);
	cr_assert_eq(erofs_open(image.data, image.len, &img, &err), 0);
	cr_assert_eq(erofs_inode(&img, img.root_nid, &root, &err), 0);
	cr_assert_gt(root.size, EROFS_BLOCK);
	cr_assert_eq(erofs_readdir(&img, &root, 0, list_entry, &whole, &err),
		     0);
	cr_expect_eq(whole.n, tree_root(t)->n_children + 2);
	for (size_t k = 1; k <= whole.n; k += 13) {
		struct listing part = { .stop_at = k };

		cr_assert_eq(erofs_readdir(&img, &root, 0, list_entry, &part,
					   &err),
			     1);
		part.stop_at = 0;
		cr_assert_eq(erofs_readdir(&img, &root, part.cookie, list_entry,
					   &part, &err),
			     0);
		cr_expect_str_eq(part.names.data, whole.names.data);
		buf_fini(&part.names);
	}
	buf_fini(&whole.names);
}

/* As a reader does whose buffer has room for one entry. */
Test(erofs, lists_a_large_folder_an_entry_at_a_time)
{
	AUTO(tree) t = tree_new();
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	struct listing whole = { 0 }, single = { .stop_at = 1 };
	struct erofs_image img;
	struct erofs_inode root;
	const size_t n_names = 20000;
	int rc = 1;

	for (size_t k = 0; k < n_names; k++) {
		char name[32];
		struct inode *i = tree_inode_new(t, S_IFREG | 0644);

		(void)snprintf(name, sizeof(name), "file %06zu", k);
		cr_assert_not_null(i);
		cr_assert_eq(tree_link(t, tree_root(t), name, strlen(name), i),
			     0);
	}
	write_image(t, &image);
	cr_assert_eq(erofs_open(image.data, image.len, &img, &err), 0);
	cr_assert_eq(erofs_inode(&img, img.root_nid, &root, &err), 0);
	cr_assert_eq(erofs_readdir(&img, &root, 0, list_entry, &whole, &err),
		     0);
	cr_expect_eq(whole.n, n_names + 2);
	for (; rc == 1; single.n = 0) {
		uint64_t from = single.cookie;

		rc = erofs_readdir(&img, &root, from, list_entry, &single,
				   &err);
		cr_assert(rc == 0 || single.cookie > from);
	}
	cr_assert_eq(rc, 0);
	cr_expect_str_eq(single.names.data, whole.names.data);
	buf_fini(&single.names);
	buf_fini(&whole.names);
}

/* The kernel reads larger ones page by page when they are stored so. */
Test(erofs, stores_a_file_of_one_block_without_an_index)
{
	AUTO(tree) t = tree_new();
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	struct extent one = { 0, 4096, EROFS_VOFF(1, 8192) };
	struct erofs_image img;
	struct erofs_inode ei;
	struct erofs_map m;
	struct inode *i = add_extents(t, "f", 4096, &one, 1);

	write_image(t, &image);
	cr_assert_eq(erofs_open(image.data, image.len, &img, &err), 0);
	cr_assert_eq(erofs_inode(&img, i->user, &ei, &err), 0);
	cr_assert_eq(erofs_map(&img, &ei, 100, &m, &err), 0);
	cr_expect_eq(m.kind, EROFS_MAP_DEVICE);
	cr_expect_eq(m.device, 2);
	cr_expect_eq(m.voff, 8292);
	cr_expect_eq(m.len, 3996);
	cr_expect_eq(ei.layout, 0);
}

Test(erofs, stores_a_contiguous_file_as_one_chunk)
{
	AUTO(tree) t = tree_new();
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	struct extent two[] = { { 0, 8192, EROFS_VOFF(1, 4096) },
				{ 8192, 5000, EROFS_VOFF(1, 12288) } };
	struct erofs_image img;
	struct erofs_inode ei;
	struct erofs_map m;
	struct inode *i = add_extents(t, "f", 13192, two, 2);

	write_image(t, &image);
	cr_assert_eq(erofs_open(image.data, image.len, &img, &err), 0);
	cr_assert_eq(erofs_inode(&img, i->user, &ei, &err), 0);
	cr_assert_eq(erofs_map(&img, &ei, 100, &m, &err), 0);
	cr_expect_eq(m.kind, EROFS_MAP_DEVICE);
	cr_expect_eq(m.device, 2);
	cr_expect_eq(m.voff, 4196);
	cr_expect_eq(m.len, 13092);
	cr_expect_eq(ei.layout, 4);
	cr_expect_eq(erofs_map(&img, &ei, 13192, &m, &err), -EINVAL);
}

Test(erofs, maps_holes_and_several_devices)
{
	AUTO(tree) t = tree_new();
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	struct extent e[] = { { 65536, 65536, EROFS_VOFF(2, 4096) },
			      { 131072, 65536, EROFS_VOFF(0, 8192) } };
	struct erofs_image img;
	struct erofs_inode ei;
	struct erofs_map m;
	struct inode *i = add_extents(t, "f", 300000, e, 2);

	write_image(t, &image);
	cr_assert_eq(erofs_open(image.data, image.len, &img, &err), 0);
	cr_assert_eq(erofs_inode(&img, i->user, &ei, &err), 0);
	cr_expect_eq(ei.u, 0x24); /* indexes of 64 KiB chunks */
	cr_assert_eq(erofs_map(&img, &ei, 1, &m, &err), 0);
	cr_expect_eq(m.kind, EROFS_MAP_HOLE);
	cr_expect_eq(m.len, 65535);
	cr_assert_eq(erofs_map(&img, &ei, 65537, &m, &err), 0);
	cr_expect_eq(m.kind, EROFS_MAP_DEVICE);
	cr_expect_eq(m.device, 3);
	cr_expect_eq(m.voff, 4097);
	cr_expect_eq(m.len, 65535);
	cr_assert_eq(erofs_map(&img, &ei, 196608, &m, &err), 0);
	cr_expect_eq(m.kind, EROFS_MAP_HOLE);
	cr_expect_eq(m.len, 300000 - 196608);
}

Test(erofs, refuses_extents_that_leave_the_file_or_the_device)
{
	const struct {
		uint64_t size;
		struct extent e[2];
		uint32_t n;
	} cases[] = {
		{ 4096, { { 0, 8192, 0 } }, 1 },
		{ 4096, { { 4096, 4096, 0 } }, 1 },
		{ 8192, { { 0, 8192, RANDOM_DEVICE_SIZE - 4096 } }, 1 },
		{ 8192, { { 0, 8192, EROFS_VOFF(3, 0) } }, 1 },
		{ 8192, { { 0, 8192, 512 } }, 1 },
		{ 8192, { { 512, 512, 0 } }, 1 },
		{ 8192, { { 0, 8192, 0 }, { 4096, 4096, 0 } }, 2 },
		{ 8192, { { 0, 0, 0 } }, 1 },
		{ 8192, { { 0, UINT64_MAX, 0 } }, 1 },
	};

	for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
		AUTO(tree) t = tree_new();
		struct error err = ERROR_INIT;
		void *data = NULL;
		size_t len;

		add_extents(t, "bad", cases[k].size, cases[k].e, cases[k].n);
		cr_expect_eq(erofs_write(t, &params, &data, &len, &err),
			     -EINVAL, "case %zu", k);
		cr_expect_not_null(strstr(err.msg, "/bad"), "%s", err.msg);
		free(data);
	}
}

Test(erofs, bounds_the_index_of_sparse_bombs)
{
	struct extent e = { UINT64_C(1) << 40, 4096, 0 };
	struct extent one = { UINT64_C(1) << 33 | 4096, 4096, 0 };
	AUTO(tree) huge = tree_new();
	AUTO(tree) many = tree_new();
	AUTO(tree) empty = tree_new();
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	void *data = NULL;
	size_t len;
	char name[16];

	/* Nothing but a hole, as large as a file can be. */
	add_extents(empty, "hole", INT64_MAX, NULL, 0);
	write_image(empty, &image);
	cr_expect_lt(image.len, 16u << 20);

	add_extents(huge, "bomb", (UINT64_C(1) << 40) + 8192, &e, 1);
	cr_expect_eq(erofs_write(huge, &params, &data, &len, &err), -EFBIG);
	cr_expect_not_null(strstr(err.msg, "/bomb"), "%s", err.msg);

	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%d", i);
		add_extents(many, name, one.off + 4096, &one, 1);
	}
	cr_expect_eq(erofs_write(many, &params, &data, &len, &err), -EFBIG);
}

Test(erofs, refuses_xattrs_that_erofs_cannot_hold)
{
	static const char *const names[] = { "user.", "com.apple.x", "x",
					     "system.posix_acl_access2",
					     "system.nfs4_acl" };

	for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
		AUTO(tree) t = tree_new();
		struct error err = ERROR_INIT;
		void *data = NULL;
		size_t len;

		cr_assert_eq(tree_set_xattr(t, tree_root(t), names[k], "", 0),
			     0);
		cr_expect_eq(erofs_write(t, &params, &data, &len, &err),
			     -ENOTSUP, "%s", names[k]);
	}
}

Test(erofs, stores_xattrs_of_many_files_once)
{
	AUTO(tree) t = tree_new();
	AUTO(tree) back = NULL;
	AUTO_IMAGE with = { NULL, 0 };
	static char label[200];
	char name[16];

	memset(label, 'l', sizeof(label));
	for (int i = 0; i < 1000; i++) {
		struct inode *f;

		snprintf(name, sizeof(name), "%d", i);
		f = add(t, tree_root(t), name, S_IFREG);
		cr_assert_eq(tree_set_xattr(t, f, "security.selinux", label,
					    sizeof(label)),
			     0);
	}
	write_image(t, &with);
	cr_expect_lt(with.len, 1000 * 130);
	back = read_image(&with);
	expect_same(t, back);
}

static bool has_xattrs(struct tree *t)
{
	AUTO_IMAGE image = { NULL, 0 };
	struct error err = ERROR_INIT;
	struct erofs_image img;
	bool has = false;

	write_image(t, &image);
	cr_assert_eq(erofs_open(image.data, image.len, &img, &err), 0);
	cr_assert_eq(erofs_has_xattrs(&img, &has, &err), 0, "%s", err.msg);
	return has;
}

/* On the root, a folder and the last file of the deepest folder. */
Test(erofs, says_whether_any_inode_has_xattrs)
{
	for (int where = 0; where < 4; where++) {
		AUTO(tree) t = tree_new();
		struct inode *dir = tree_root(t), *has[4] = { NULL, dir };

		for (int depth = 0; depth < 300; depth++) {
			(void)add(t, dir, "a", S_IFREG | 0644);
			(void)add(t, dir, "z", S_IFREG | 0644);
			dir = add(t, dir, "d", S_IFDIR | 0755);
			if (depth == 150)
				has[2] = dir;
		}
		has[3] = add(t, dir, "last", S_IFREG | 0644);
		if (has[where])
			cr_assert_eq(tree_set_xattr(t, has[where], "user.a",
						    "b", 1),
				     0);
		cr_expect_eq(has_xattrs(t), where != 0, "%d", where);
	}
}

Test(erofs, holds_more_xattrs_than_can_be_shared)
{
	AUTO(tree) t = tree_new();
	AUTO(tree) back = NULL;
	AUTO_IMAGE image = { NULL, 0 };
	static char value[100];
	char name[16];

	for (int f = 0; f < 3; f++) {
		struct inode *i;

		snprintf(name, sizeof(name), "f%d", f);
		i = add(t, tree_root(t), name, S_IFREG);
		for (int k = 0; k < 300; k++) {
			snprintf(name, sizeof(name), "user.%d", k);
			cr_assert_eq(tree_set_xattr(t, i, name, value,
						    sizeof(value)),
				     0);
		}
	}
	write_image(t, &image);
	back = read_image(&image);
	expect_same(t, back);
}

static void set_bytes(struct tree *t, struct inode *i, size_t len)
{
	uint8_t *p = tree_alloc(t, len);

	for (size_t k = 0; k < len; k++)
		p[k] = (uint8_t)(k * 7 + 1);
	i->data = INODE_DATA_INLINE;
	i->bytes = p;
	i->size = len;
}

/* One of everything. */
static struct tree *golden_tree(void)
{
	struct tree *t = tree_new();
	struct inode *root = tree_root(t);
	struct inode *dir = add(t, root, "dir", S_IFDIR | S_ISVTX | 0777);
	struct inode *f = add(t, root, "inline", S_IFREG | S_ISUID | 0755);
	struct inode *l = add(t, dir, "link", S_IFLNK | 0777);
	struct inode *c = add(t, dir, "char", S_IFCHR | 0600);
	struct inode *b = add(t, dir, "block", S_IFBLK | 0600);
	struct extent one = { 0, 10000, 4096 };
	struct extent split[] = { { 8192, 4096, EROFS_VOFF(1, 8192) },
				  { 16384, 100, EROFS_VOFF(2, 0) } };
	char name[32];

	root->mtime = 1234567890;
	root->mtime_nsec = 999999999;
	f->mtime = -1;
	f->uid = 4000000000;
	f->gid = 65536;
	set_bytes(t, f, 100);
	cr_assert_eq(tree_link(t, dir, "hard \xff\n", 7, f), 0);
	set_bytes(t, add(t, root, "blocks", S_IFREG), 5000);
	add_extents(t, "run", 10000, &one, 1);
	add_extents(t, "split", 40000, split, 2);
	add_extents(t, "hole", 1000000, NULL, 0);
	add(t, dir, "empty", S_IFREG);
	add(t, dir, "fifo", S_IFIFO);
	add(t, dir, "socket", S_IFSOCK);
	l->target = "../inline";
	l->size = 9;
	c->major = 4095;
	c->minor = 1048575;
	b->major = 259;
	b->minor = 300;
	for (unsigned int k = 0; k < 300; k++) {
		snprintf(name, sizeof(name), "-%u", k);
		f = add(t, dir, name, S_IFREG);
		cr_assert_eq(tree_set_xattr(t, f, "security.label",
					    "same for all", 12),
			     0);
	}
	cr_assert_eq(tree_set_xattr(t, dir, "trusted.one", "\0\1", 2), 0);
	cr_assert_eq(tree_set_xattr(t, dir, "user.none", "", 0), 0);
	return t;
}

/*
 * Registries and nodes hold images of this format version: the writer's bytes
 * do not change unseen, and the reader goes on reading them.
 */
Test(erofs, writes_and_reads_the_golden_image)
{
	AUTO(tree) t = golden_tree();
	AUTO(tree) back = NULL;
	AUTO_IMAGE image = { NULL, 0 };
	AUTO_BUF golden = BUF_INIT;
	struct error err = ERROR_INIT;
	struct image file;
	struct digest d;
	char text[DIGEST_STR_MAX];

	write_image(t, &image);
	if (getenv("BOOTSEER_WRITE_GOLDEN"))
		cr_assert_eq(fs_replace_file(GOLDEN_DIR "/erofs-1.image",
					     image.data, image.len, 0644, &err),
			     0);
	cr_assert_eq(digest_of(image.data, image.len, &d), 0);
	digest_format(&d, text);
	cr_expect_str_eq(
		text,
		"sha256:"
		"f7126704fb96bc75c4729d3a04476ce8e3055b17aaea72db0ce953758c3dd94e");
	cr_assert_eq(fs_read_file(GOLDEN_DIR "/erofs-1.image", 1 << 20, &golden,
				  &err),
		     0, "%s", err.msg);
	file = (struct image){ golden.data, golden.len };
	back = read_image(&file);
	expect_same(t, back);
}
