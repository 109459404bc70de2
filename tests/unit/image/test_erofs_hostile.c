// SPDX-License-Identifier: Apache-2.0
/* Images that lie: refused with a reason, in bounded time and memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/erofs/erofs.h"
#include "image/erofs/format.h"
#include "random_tree.h"

TestSuite(erofs_hostile, .timeout = 120);

struct image {
	uint8_t *data;
	size_t len;
	struct erofs_image img;
};

static const struct erofs_device devices[RANDOM_DEVICES] = {
	{ .size = RANDOM_DEVICE_SIZE, .tag = "a" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "b" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "c" },
};

static const struct erofs_params params = {
	.devices = devices,
	.n_devices = RANDOM_DEVICES,
};

static void image_fini(struct image *i)
{
	free(i->data);
}
#define AUTO_IMAGE __attribute__((cleanup(image_fini))) struct image

static void seal(struct image *i)
{
	uint8_t *sb = i->data + EROFS_SB_POS;

	put_le32(sb + SB_CHECKSUM, 0);
	put_le32(sb + SB_CHECKSUM,
		 erofs_crc32c(sb, EROFS_BLOCK - EROFS_SB_POS));
}

static void write_image(struct tree *t, struct image *i)
{
	void *data;
	struct error err = ERROR_INIT;

	cr_assert_eq(erofs_write(t, &params, &data, &i->len, &err), 0, "%s",
		     err.msg);
	i->data = data;
	cr_assert_eq(erofs_open(data, i->len, &i->img, &err), 0, "%s", err.msg);
}

static uint8_t *inode_at(struct image *i, uint64_t nid)
{
	return i->data + nid * EROFS_SLOT;
}

/* Open and read as a tree; 0 or the first error. */
static int read_all(struct image *i, struct error *err)
{
	AUTO(tree) t = NULL;
	int rc;

	seal(i);
	rc = erofs_open(i->data, i->len, &i->img, err);
	return rc < 0 ? rc : erofs_read_tree(&i->img, &t, err);
}

static void expect_refused(struct image *i, int code, const char *why)
{
	struct error err = ERROR_INIT;
	int rc = read_all(i, &err);

	cr_expect_eq(rc, -code, "%d: %s", rc, err.msg);
	cr_expect_not_null(strstr(err.msg, why), "'%s' has no '%s'", err.msg,
			   why);
	cr_expect_lt(erofs_check(i->data, i->len, &i->img, NULL), 0,
		     "the checker takes what the reader refuses: %s", err.msg);
}

static struct inode *add(struct tree *t, struct inode *dir, const char *name,
			 uint32_t mode)
{
	struct inode *i = tree_inode_new(t, mode);

	cr_assert_eq(tree_link(t, dir, name, strlen(name), i), 0);
	return i;
}

/* /d/e/f and a sibling, with everything in the first block. */
static void write_small(struct image *ret)
{
	AUTO(tree) t = tree_new();
	struct inode *d = add(t, tree_root(t), "d", S_IFDIR);
	struct inode *e = add(t, d, "e", S_IFDIR);

	add(t, e, "f", S_IFREG);
	add(t, tree_root(t), "g", S_IFREG);
	write_image(t, ret);
}

static uint64_t nid_of(const struct image *i, const char *name)
{
	struct erofs_inode root;
	uint64_t nid = 0;

	cr_assert_eq(erofs_inode(&i->img, i->img.root_nid, &root, NULL), 0);
	cr_assert_eq(erofs_lookup(&i->img, &root, name, strlen(name), &nid,
				  NULL),
		     0);
	return nid;
}

/* The entry of `name` in a small folder, whose block is inline. */
static uint8_t *entry_of(struct image *i, uint64_t dir, const char *name)
{
	uint8_t *block = inode_at(i, dir) + EROFS_EXTENDED_SIZE;
	uint32_t n = get_le16(block + DIRENT_NAMEOFF) / EROFS_DIRENT_SIZE;
	uint32_t k = 0;

	while (k < n && memcmp(block + get_le16(block + k * EROFS_DIRENT_SIZE +
						DIRENT_NAMEOFF),
			       name, strlen(name)) != 0)
		k++;
	cr_assert_lt(k, n, "no entry");
	return block + k * EROFS_DIRENT_SIZE;
}

Test(erofs_hostile, superblock_that_is_cut_or_wrong)
{
	AUTO_IMAGE i = { .data = NULL };
	struct error err = ERROR_INIT;
	struct erofs_image img;

	write_small(&i);
	for (size_t len = 0; len < EROFS_BLOCK; len += 64)
		cr_expect_eq(erofs_open(i.data, len, &img, &err), -EINVAL);
	i.data[EROFS_SB_POS + SB_UUID] ^= 1;
	cr_expect_eq(erofs_open(i.data, i.len, &img, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "checksum"));
	put_le32(i.data + EROFS_SB_POS + SB_FEATURE_INCOMPAT, 0x10c);
	expect_refused(&i, ENOTSUP, "0x100");
}

Test(erofs_hostile, superblock_that_promises_more_than_there_is)
{
	AUTO_IMAGE i = { .data = NULL };
	uint64_t g;
	uint8_t *sb;

	write_small(&i);
	sb = i.data + EROFS_SB_POS;
	put_le32(sb + SB_BLOCKS, 2);
	expect_refused(&i, EINVAL, "blocks");
	put_le32(sb + SB_BLOCKS, 1);
	put_le16(sb + SB_EXTRA_DEVICES, 64);
	expect_refused(&i, EINVAL, "devices");
	put_le16(sb + SB_EXTRA_DEVICES, RANDOM_DEVICES);
	g = nid_of(&i, "g");
	put_le16(sb + SB_ROOT_NID, 0xffff);
	expect_refused(&i, EINVAL, "leaves");
	put_le16(sb + SB_ROOT_NID, (uint16_t)g);
	expect_refused(&i, EINVAL, "no folder");
}

Test(erofs_hostile, folder_that_lies_in_itself)
{
	AUTO_IMAGE i = { .data = NULL };
	struct error err = ERROR_INIT;
	bool has_xattrs;
	uint64_t d;
	uint8_t *e;

	write_small(&i);
	d = nid_of(&i, "d");
	e = entry_of(&i, d, "e");
	put_le64(e, d);
	expect_refused(&i, EINVAL, "two names");
	put_le64(e, i.img.root_nid);
	expect_refused(&i, EINVAL, "two names");
	/* Without what was checked before, the search for xattrs ends, too. */
	cr_expect_eq(erofs_has_xattrs(&i.img, &has_xattrs, &err), -EINVAL);
	cr_expect_str_eq(err.msg, "EROFS: more folders than inodes");
}

Test(erofs_hostile, entries_that_do_not_match_their_inodes)
{
	AUTO_IMAGE i = { .data = NULL };
	uint64_t nid;
	uint8_t *g;

	write_small(&i);
	g = entry_of(&i, i.img.root_nid, "g");
	nid = get_le64(g);
	g[DIRENT_TYPE] = EROFS_FT_DIR;
	expect_refused(&i, EINVAL, "another type");
	g[DIRENT_TYPE] = EROFS_FT_REG;
	put_le64(g, UINT64_MAX / 2);
	expect_refused(&i, EINVAL, "leaves the image");
	put_le64(g, nid);
	put_le32(inode_at(&i, nid) + INO_NLINK, 7);
	expect_refused(&i, EINVAL, "number of links");
	put_le32(inode_at(&i, nid) + INO_NLINK, 1);
	put_le64(i.data + EROFS_SB_POS + SB_INOS, 4);
	expect_refused(&i, EINVAL, "inodes");
}

Test(erofs_hostile, names_out_of_order_or_impossible)
{
	AUTO_IMAGE i = { .data = NULL };
	uint8_t *block, *g, *name;

	write_small(&i);
	block = inode_at(&i, i.img.root_nid) + EROFS_EXTENDED_SIZE;
	g = entry_of(&i, i.img.root_nid, "g");
	name = block + get_le16(g + DIRENT_NAMEOFF);
	*name = 'd';
	expect_refused(&i, EINVAL, "order");
	*name = '/';
	expect_refused(&i, EINVAL, "name");
	*name = 'g';
	put_le16(g + DIRENT_NAMEOFF, 1);
	expect_refused(&i, EINVAL, "name offset");
	put_le16(block + DIRENT_NAMEOFF, 13);
	expect_refused(&i, EINVAL, "first name offset");
}

/* Each folder has the same large block of entries: quadratic, if followed. */
Test(erofs_hostile, folders_that_share_their_entries)
{
	enum { N = 20000 };
	AUTO(tree) t = tree_new();
	AUTO_IMAGE i = { .data = NULL };
	struct inode *big = add(t, tree_root(t), "big", S_IFDIR);
	char name[64];

	for (int k = 0; k < N; k++) {
		snprintf(name, sizeof(name), "%050d", k);
		add(t, big, name, S_IFDIR);
	}
	write_image(t, &i);
	for (struct dentry *d = big->children; d; d = d->next)
		memcpy(inode_at(&i, d->inode->user), inode_at(&i, big->user),
		       EROFS_EXTENDED_SIZE);
	expect_refused(&i, EINVAL, "");
}

Test(erofs_hostile, files_that_leave_image_and_device)
{
	AUTO_IMAGE i = { .data = NULL };
	AUTO(tree) t = tree_new();
	struct inode *run = add(t, tree_root(t), "run", S_IFREG);
	struct inode *split = add(t, tree_root(t), "split", S_IFREG);
	uint8_t *p;

	run->size = 4096;
	run->data = INODE_DATA_EXTENTS;
	run->extents = &(struct extent){ 0, 4096, 0 };
	run->n_extents = 1;
	split->size = 12288;
	split->data = INODE_DATA_EXTENTS;
	split->extents = &(struct extent){ 4096, 4096, 0 };
	split->n_extents = 1;
	write_image(t, &i);

	p = inode_at(&i, run->user);
	put_le64(p + INO_SIZE, RANDOM_DEVICE_SIZE + 1);
	expect_refused(&i, EINVAL, "outside");
	put_le64(p + INO_SIZE, UINT64_C(1) << 63);
	expect_refused(&i, EINVAL, "size");
	put_le64(p + INO_SIZE, 4096);

	p = inode_at(&i, split->user);
	put_le64(p + INO_SIZE, UINT64_C(1) << 40);
	expect_refused(&i, EINVAL, "indexes leave");
	put_le64(p + INO_SIZE, 12288);
	put_le32(p + INO_U, 0x60);
	expect_refused(&i, EINVAL, "form of chunks");
	put_le32(p + INO_U, 0x20);
	p += EROFS_EXTENDED_SIZE + EROFS_CHUNK_INDEX_SIZE;
	put_le16(p + CHUNK_DEVICE, RANDOM_DEVICES + 1);
	expect_refused(&i, EINVAL, "device 4");
	put_le16(p + CHUNK_DEVICE, 1);
	put_le32(p + CHUNK_BLKADDR, RANDOM_DEVICE_SIZE / EROFS_BLOCK);
	expect_refused(&i, EINVAL, "leaves its device");
}

Test(erofs_hostile, xattrs_that_leave_their_area)
{
	AUTO_IMAGE i = { .data = NULL };
	AUTO(tree) t = tree_new();
	struct inode *f = add(t, tree_root(t), "f", S_IFREG);
	uint8_t *p, *area;

	cr_assert_eq(tree_set_xattr(t, f, "user.a", "value", 5), 0);
	write_image(t, &i);
	p = inode_at(&i, f->user);
	area = p + EROFS_EXTENDED_SIZE;
	area[XH_SHARED_COUNT] = 200;
	expect_refused(&i, EINVAL, "count");
	area[XH_SHARED_COUNT] = 0;
	put_le16(area + EROFS_XATTR_HEADER + XE_SIZE, 500);
	expect_refused(&i, EINVAL, "area");
	put_le16(area + EROFS_XATTR_HEADER + XE_SIZE, 5);
	area[EROFS_XATTR_HEADER + XE_INDEX] = 77;
	expect_refused(&i, EINVAL, "namespace");
	area[EROFS_XATTR_HEADER + XE_INDEX] = 1;
	put_le16(p + INO_XATTR_ICOUNT, 0xffff);
	expect_refused(&i, EINVAL, "leave the image");
}

/* Whatever is changed, the reader ends; the sanitizers watch how. */
Test(erofs_hostile, any_changed_bytes)
{
	struct rnd r = { 99 };
	bool has_xattrs;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		AUTO(tree) t = random_tree(seed, 40);
		AUTO_IMAGE good = { .data = NULL };
		AUTO_IMAGE bad = { .data = NULL };

		write_image(t, &good);
		bad.data = malloc(good.len);
		bad.len = good.len;
		for (int k = 0; k < 300; k++) {
			struct error err = ERROR_INIT;
			uint32_t n = 1 + rnd_below(&r, 8);

			memcpy(bad.data, good.data, good.len);
			while (n--)
				bad.data[rnd_below(&r, (uint32_t)good.len)] =
					(uint8_t)rnd_below(&r, 256);
			(void)read_all(&bad, &err);
			if (erofs_open(bad.data, bad.len, &bad.img, NULL) == 0)
				(void)!erofs_has_xattrs(&bad.img, &has_xattrs,
							NULL);
		}
	}
}

/* Folders in each other: `n`, and what reading and checking them say. */
static int read_nested(unsigned int n, struct error *err)
{
	AUTO(tree) t = tree_new();
	AUTO_IMAGE image = { .data = NULL };
	struct inode *dir = tree_root(t);
	int rc;

	for (unsigned int i = 0; i < n; i++)
		dir = add(t, dir, "a", S_IFDIR);
	write_image(t, &image);
	rc = read_all(&image, err);
	cr_expect_eq(erofs_check(image.data, image.len, &image.img, err), rc,
		     "%u: %s", n, err->msg);
	return rc;
}

Test(erofs_hostile, folders_in_each_other_have_a_bound)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(read_nested(TREE_DEPTH_MAX, &err), 0, "%s", err.msg);
	cr_expect_eq(read_nested(TREE_DEPTH_MAX + 1, &err), -EINVAL);
	cr_expect_str_eq(err.msg, "more than 2048 folders in each other");
	cr_expect_eq(read_nested(300000, &err), -EINVAL);
}
