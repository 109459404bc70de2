// SPDX-License-Identifier: Apache-2.0
/* Each rule of the checker, by an image that breaks just this one. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/bytes.h"
#include "erofs_sample.h"
#include "random_tree.h"

TestSuite(erofs_check, .timeout = 120);

static void put_le16_add(uint8_t *p, int n)
{
	put_le16(p, (uint16_t)(get_le16(p) + n));
}

/* ------------------------------------------------------- breaking the rules --- */

static void features(struct sample *s)
{
	put_le32(sample_super(s) + SB_FEATURE_COMPAT, 0x7);
}

static void longer(struct sample *s)
{
	s->i.len += EROFS_BLOCK;
}

static void packed(struct sample *s)
{
	sample_super(s)[SB_PACKED_NID + 16] = 1;
}

static void volume(struct sample *s)
{
	sample_super(s)[SB_VOLUME_NAME] = 'v';
}

static void no_devices(struct sample *s)
{
	put_le16(sample_super(s) + SB_EXTRA_DEVICES, 0);
}

static void device_slot(struct sample *s)
{
	sample_super(s)[EROFS_SB_SIZE + 2 * EROFS_DEVT_SIZE + 80] = 1;
}

static void moved_table(struct sample *s)
{
	put_le16(sample_super(s) + SB_DEVT_SLOTOFF, 10);
}

static void n_inodes(struct sample *s)
{
	put_le64(sample_super(s) + SB_INOS,
		 get_le64(sample_super(s) + SB_INOS) - 1);
}

static void compact(struct sample *s)
{
	uint8_t *p = sample_inode(s, EMPTY);

	p[INO_FORMAT] &= (uint8_t)~EROFS_FORMAT_EXTENDED;
	put_le16(p + INO_C_NLINK, 2);
}

static void layout(struct sample *s)
{
	sample_inode(s, EMPTY)[INO_FORMAT] |= 3 << EROFS_FORMAT_LAYOUT_SHIFT;
}

static void inode_field(struct sample *s)
{
	sample_inode(s, EMPTY)[6] = 1;
}

static void inode_field_behind(struct sample *s)
{
	sample_inode(s, EMPTY)[63] = 1;
}

static void no_links(struct sample *s)
{
	put_le32(sample_inode(s, RUN) + INO_NLINK, 0);
}

static void more_links(struct sample *s)
{
	put_le32(sample_inode(s, EMPTY) + INO_NLINK, 3);
}

static void fewer_links(struct sample *s)
{
	put_le32(sample_inode(s, EMPTY) + INO_NLINK, 1);
}

static void dir_links(struct sample *s)
{
	put_le32(sample_inode(s, DIR) + INO_NLINK, 3);
}

static void mode(struct sample *s)
{
	put_le16(sample_inode(s, EMPTY) + INO_MODE, 0644);
}

static void time_of_day(struct sample *s)
{
	put_le32(sample_inode(s, EMPTY) + INO_MTIME_NSEC, 1000000000);
}

static void size_sign(struct sample *s)
{
	put_le64(sample_inode(s, RUN) + INO_SIZE, UINT64_MAX);
}

static void empty_with_block(struct sample *s)
{
	put_le32(sample_inode(s, EMPTY) + INO_U, 1);
}

static void tail_outside(struct sample *s)
{
	put_le64(sample_inode(s, SMALL) + INO_SIZE, 4095);
}

static void tail_shared(struct sample *s)
{
	put_le64(sample_inode(s, SMALL) + INO_SIZE, 101 + 64);
}

static void tail_padding(struct sample *s)
{
	sample_tail(s, SMALL)[101] = 1;
}

static void tail_with_block(struct sample *s)
{
	put_le32(sample_inode(s, SMALL) + INO_U, 1);
}

static void block_of_super(struct sample *s)
{
	put_le32(sample_inode(s, BLOCKS) + INO_U, 0);
}

/* /char's inode behind the first half of /blocks: whoever maps that would see it. */
static void block_rest_shared(struct sample *s)
{
	uint64_t pos = get_le32(sample_inode(s, BLOCKS) + INO_U) *
		       (uint64_t)EROFS_BLOCK;
	uint8_t *to = s->i.data + pos + EROFS_BLOCK / 2;
	size_t k = 0;

	put_le64(sample_inode(s, BLOCKS) + INO_SIZE, EROFS_BLOCK / 2);
	memset(to, 0, EROFS_BLOCK / 2);
	memcpy(to, sample_inode(s, CHAR), EROFS_EXTENDED_SIZE);
	memset(sample_inode(s, CHAR), 0, EROFS_EXTENDED_SIZE);
	while (get_le64(sample_entry(s, ROOT, k)) != s->nid[CHAR])
		k++;
	put_le64(sample_entry(s, ROOT, k),
		 (uint64_t)(to - s->i.data) / EROFS_SLOT);
}

static void run_outside(struct sample *s)
{
	put_le32(sample_inode(s, RUN) + INO_U, 0xfffffff0);
}

static void chunk_form(struct sample *s)
{
	sample_inode(s, SPLIT)[INO_U + 2] = 1;
}

static void chunk_no_device(struct sample *s)
{
	put_le16(sample_tail(s, SPLIT) + EROFS_CHUNK_INDEX_SIZE + CHUNK_DEVICE,
		 0);
}

static void chunk_device(struct sample *s)
{
	put_le16(sample_tail(s, SPLIT) + EROFS_CHUNK_INDEX_SIZE + CHUNK_DEVICE,
		 9);
}

static void chunk_outside(struct sample *s)
{
	put_le32(sample_tail(s, SPLIT) + EROFS_CHUNK_INDEX_SIZE + CHUNK_BLKADDR,
		 RANDOM_DEVICE_SIZE / EROFS_BLOCK);
}

static void chunk_field(struct sample *s)
{
	sample_tail(s, SPLIT)[EROFS_CHUNK_INDEX_SIZE] = 1;
}

static void hole_of_device(struct sample *s)
{
	put_le16(sample_tail(s, SPLIT) + CHUNK_DEVICE, 1);
}

static void chunks_many(struct sample *s)
{
	put_le64(sample_inode(s, SPLIT) + INO_SIZE, INT64_MAX);
}

static void chunks_of_folder(struct sample *s)
{
	sample_inode(s, DIR)[INO_FORMAT] =
		1 | EROFS_LAYOUT_CHUNK_BASED << EROFS_FORMAT_LAYOUT_SHIFT;
}

static void link_long(struct sample *s)
{
	put_le64(sample_inode(s, LINK) + INO_SIZE, TREE_SYMLINK_MAX + 1);
	put_le32(sample_inode(s, LINK) + INO_U,
		 get_le32(sample_inode(s, BLOCKS) + INO_U));
	sample_inode(s, LINK)[INO_FORMAT] = 1;
	memset(sample_tail(s, LINK), 0, 9);
	put_le64(sample_inode(s, BLOCKS) + INO_SIZE, 0);
	put_le32(sample_inode(s, BLOCKS) + INO_U, 0);
	put_le16(sample_inode(s, BLOCKS) + INO_FORMAT, 1);
}

static void link_nul(struct sample *s)
{
	sample_tail(s, LINK)[4] = '\0';
}

static void link_none(struct sample *s)
{
	put_le64(sample_inode(s, LINK) + INO_SIZE, 0);
	sample_inode(s, LINK)[INO_FORMAT] = 1;
	memset(sample_tail(s, LINK), 0, 9);
}

static void fifo_size(struct sample *s)
{
	put_le64(sample_inode(s, FIFO) + INO_SIZE, 1);
}

static void fifo_device(struct sample *s)
{
	put_le32(sample_inode(s, FIFO) + INO_U, 0x103);
}

static void char_size(struct sample *s)
{
	put_le64(sample_inode(s, CHAR) + INO_SIZE, 4096);
}

/* Entries of /dir: ".", "..", "empty", "second". */
static void entry_type(struct sample *s)
{
	sample_entry(s, DIR, 2)[DIRENT_TYPE] = EROFS_FT_SYMLINK;
}

static void entry_dir_type(struct sample *s)
{
	sample_entry(s, DIR, 3)[DIRENT_TYPE] = EROFS_FT_DIR;
}

static void entry_nid(struct sample *s)
{
	put_le64(sample_entry(s, DIR, 2), s->i.len / EROFS_SLOT);
}

static void entry_nid_far(struct sample *s)
{
	put_le64(sample_entry(s, DIR, 2), UINT64_MAX);
}

static void entry_field(struct sample *s)
{
	sample_entry(s, DIR, 2)[11] = 1;
}

static void entry_cycle(struct sample *s)
{
	put_le64(sample_entry(s, DIR, 2), s->nid[DIR]);
	sample_entry(s, DIR, 2)[DIRENT_TYPE] = EROFS_FT_DIR;
}

static void entry_of_root(struct sample *s)
{
	put_le64(sample_entry(s, DIR, 2), s->nid[ROOT]);
	sample_entry(s, DIR, 2)[DIRENT_TYPE] = EROFS_FT_DIR;
}

static void entry_two_parents(struct sample *s)
{
	put_le64(sample_entry(s, DIR, 2), s->nid[BIG]);
	sample_entry(s, DIR, 2)[DIRENT_TYPE] = EROFS_FT_DIR;
}

static void dot(struct sample *s)
{
	put_le64(sample_entry(s, DIR, 0), s->nid[ROOT]);
}

static void dot_dot(struct sample *s)
{
	put_le64(sample_entry(s, DIR, 1), s->nid[DIR]);
}

static void dot_type(struct sample *s)
{
	sample_entry(s, DIR, 0)[DIRENT_TYPE] = EROFS_FT_REG;
}

static uint8_t *name_at(struct sample *s, size_t k)
{
	return sample_tail(s, DIR) +
	       get_le16(sample_entry(s, DIR, k) + DIRENT_NAMEOFF);
}

static void no_dot_dot(struct sample *s)
{
	memcpy(name_at(s, 1), ".a", 2);
	put_le64(sample_entry(s, DIR, 1), s->nid[EMPTY]);
	sample_entry(s, DIR, 1)[DIRENT_TYPE] = EROFS_FT_REG;
	put_le32(sample_inode(s, EMPTY) + INO_NLINK, 3);
}

static void name_order(struct sample *s)
{
	*name_at(s, 2) = 'z';
}

static void name_twice(struct sample *s)
{
	memcpy(name_at(s, 1), "..emptempty", 11);
	put_le16_add(sample_entry(s, DIR, 3) + DIRENT_NAMEOFF, -1);
	memcpy(name_at(s, 2), "empt", 4);
	memcpy(name_at(s, 3), "empt\0\0", 7);
}

static void name_slash(struct sample *s)
{
	name_at(s, 2)[1] = '/';
}

static void name_nul(struct sample *s)
{
	name_at(s, 2)[1] = '\0';
}

static void name_none(struct sample *s)
{
	put_le16(sample_entry(s, DIR, 3) + DIRENT_NAMEOFF,
		 get_le16(sample_entry(s, DIR, 2) + DIRENT_NAMEOFF));
}

static void name_outside(struct sample *s)
{
	put_le16(sample_entry(s, DIR, 3) + DIRENT_NAMEOFF, 4000);
}

static void name_first(struct sample *s)
{
	put_le16(sample_entry(s, DIR, 0) + DIRENT_NAMEOFF, 47);
}

static void name_rest(struct sample *s)
{
	name_at(s, 3)[2] = '\0';
}

/* Two names of the whole block of /big become one of more than 255 bytes. */
static void name_long(struct sample *s)
{
	uint8_t *b =
		s->i.data +
		(size_t)get_le32(sample_inode(s, BIG) + INO_U) * EROFS_BLOCK;
	unsigned int n = get_le16(b + DIRENT_NAMEOFF) / EROFS_DIRENT_SIZE;

	for (unsigned int k = n - 6; k < n; k++)
		put_le16(b + k * EROFS_DIRENT_SIZE + DIRENT_NAMEOFF,
			 (uint16_t)(4096 - (n - k)));
}

static void folder_empty(struct sample *s)
{
	put_le64(sample_inode(s, BIG) + INO_SIZE, 0);
	put_le32(sample_inode(s, BIG) + INO_U, 0);
	sample_inode(s, BIG)[INO_FORMAT] = 1;
}

static void folder_outside(struct sample *s)
{
	put_le32(sample_inode(s, BIG) + INO_U, 0xfffffff0);
}

static void folder_shared(struct sample *s)
{
	put_le32(sample_inode(s, BIG) + INO_U,
		 get_le32(sample_inode(s, BLOCKS) + INO_U));
}

static void nothings_bytes(struct sample *s)
{
	s->i.data[100] = 1;
}

/* Xattrs of /xattrs: two shared ones, then user.a and user.c. */
static uint8_t *area_of(struct sample *s)
{
	return sample_tail(s, XATTRS);
}

static uint8_t *own_of(struct sample *s)
{
	return area_of(s) + EROFS_XATTR_HEADER + 8;
}

static void xattr_count(struct sample *s)
{
	area_of(s)[XH_SHARED_COUNT] = 60;
}

static void xattr_header(struct sample *s)
{
	area_of(s)[0] = 1;
}

static void xattr_shared_none(struct sample *s)
{
	put_le32(area_of(s) + EROFS_XATTR_HEADER, 1);
}

static void xattr_shared_far(struct sample *s)
{
	put_le32(area_of(s) + EROFS_XATTR_HEADER, UINT32_MAX);
}

static void xattr_shared_twice(struct sample *s)
{
	memcpy(area_of(s) + EROFS_XATTR_HEADER + 4,
	       area_of(s) + EROFS_XATTR_HEADER, 4);
}

static void xattr_both(struct sample *s)
{
	own_of(s)[EROFS_XATTR_ENTRY] = 'b';
}

static void xattr_order(struct sample *s)
{
	own_of(s)[EROFS_XATTR_ENTRY] = 'x';
}

static void xattr_outside(struct sample *s)
{
	put_le16(own_of(s) + XE_SIZE, 60000);
}

static void xattr_prefix(struct sample *s)
{
	own_of(s)[XE_INDEX] = 5;
}

static void xattr_name(struct sample *s)
{
	own_of(s)[EROFS_XATTR_ENTRY] = '\0';
}

static void xattr_nameless(struct sample *s)
{
	own_of(s)[XE_NAME_LEN] = 0;
}

static void xattr_area(struct sample *s)
{
	put_le16(sample_inode(s, XATTRS) + INO_XATTR_ICOUNT, 0xffff);
}

static void xattr_shared_prefix(struct sample *s)
{
	s->i.data[s->i.img.xattr_off + XE_INDEX] = 9;
}

static void xattr_shared_long(struct sample *s)
{
	put_le16(s->i.data + s->i.img.xattr_off + XE_SIZE, 60000);
}

static const struct {
	const char *why; /* in the message */
	void (*spoil)(struct sample *s);
} rules[] = {
	{ "features 0x4", features },
	{ "does not end with its blocks", longer },
	{ "unknown fields", packed },
	{ "unknown fields", volume },
	{ "no device table", no_devices },
	{ "no device table", moved_table },
	{ "device 2: unknown fields", device_slot },
	{ "inodes, found", n_inodes },
	{ "compact inode", compact },
	{ "unknown format", layout },
	{ "unknown fields", inode_field },
	{ "unknown fields", inode_field_behind },
	{ "number of links", no_links },
	{ "number of links", more_links },
	{ "number of links", fewer_links },
	{ "number of links", dir_links },
	{ "impossible mode", mode },
	{ "impossible mode, size or time", time_of_day },
	{ "impossible mode, size", size_sign },
	{ "empty file with content", empty_with_block },
	{ "tail crosses a block", tail_outside },
	{ "shares bytes", tail_shared },
	{ "bytes behind its content", tail_padding },
	{ "a block, but no content", tail_with_block },
	{ "shares bytes", block_of_super },
	{ "bytes behind its content", block_rest_shared },
	{ "blocks outside of image and devices", run_outside },
	{ "unknown form of chunks", chunk_form },
	{ "chunk of no device", chunk_no_device },
	{ "device 9", chunk_device },
	{ "chunk leaves its device", chunk_outside },
	{ "unknown form of chunk index", chunk_field },
	{ "hole of a device", hole_of_device },
	{ "chunk indexes leave", chunks_many },
	{ "chunks, but no regular file", chunks_of_folder },
	{ "no symlink", link_long },
	{ "NUL in target", link_nul },
	{ "no symlink", link_none },
	{ "special file with content", fifo_size },
	{ "special file with content", fifo_device },
	{ "special file with content", char_size },
	{ "entry of another type", entry_type },
	{ "entry of another type", entry_dir_type },
	{ "leaves the image", entry_nid },
	{ "leaves the image", entry_nid_far },
	{ "unknown fields of an entry", entry_field },
	{ "folder with two names", entry_cycle },
	{ "folder with two names", entry_of_root },
	{ "folder with two names", entry_two_parents },
	{ "wrong '.' or '..'", dot },
	{ "wrong '.' or '..'", dot_dot },
	{ "wrong '.' or '..'", dot_type },
	{ "no '.' or '..'", no_dot_dot },
	{ "out of order", name_order },
	{ "out of order", name_twice },
	{ "impossible name", name_slash },
	{ "impossible name", name_nul },
	{ "wrong name offset", name_none },
	{ "wrong name offset", name_outside },
	{ "wrong first name offset", name_first },
	{ "bytes behind its last name", name_rest },
	{ "impossible name", name_long },
	{ "no '.' or '..'", folder_empty },
	{ "leaves the image", folder_outside },
	{ "shares bytes", folder_shared },
	{ "belong to nothing", nothings_bytes },
	{ "more shared xattrs than room", xattr_count },
	{ "unknown fields before its xattrs", xattr_header },
	{ "refers to no shared xattr", xattr_shared_none },
	{ "refers to no shared xattr", xattr_shared_far },
	{ "xattrs out of order", xattr_shared_twice },
	{ "an xattr that it has twice", xattr_both },
	{ "xattrs out of order", xattr_order },
	{ "an xattr leaves its area", xattr_outside },
	{ "xattr of an unknown namespace", xattr_prefix },
	{ "xattr with an impossible name", xattr_name },
	{ "xattr with an impossible name", xattr_nameless },
	{ "xattrs leave the image", xattr_area },
	{ "shared xattrs: an xattr of an unknown", xattr_shared_prefix },
	{ "shared xattrs: an xattr leaves", xattr_shared_long },
};

Test(erofs_check, refuses_an_image_by_each_rule_and_names_it)
{
	for (size_t k = 0; k < ARRAY_SIZE(rules); k++) {
		AUTO_SAMPLE s = { .i = { .data = NULL } };
		struct error err = ERROR_INIT;
		int rc;

		sample_write(&s);
		s.i.data = realloc(s.i.data, s.i.len + EROFS_BLOCK);
		cr_assert_not_null(s.i.data);
		memset(s.i.data + s.i.len, 0, EROFS_BLOCK);
		rules[k].spoil(&s);
		put_le32(sample_super(&s) + SB_CHECKSUM, 0);
		put_le32(sample_super(&s) + SB_CHECKSUM,
			 erofs_crc32c(sample_super(&s),
				      EROFS_BLOCK - EROFS_SB_POS));
		rc = erofs_check(s.i.data, s.i.len, &s.i.img, &err);
		cr_expect(rc == -EINVAL || rc == -ENOTSUP, "rule %zu: %d", k,
			  rc);
		cr_expect_not_null(strstr(err.msg, rules[k].why),
				   "rule %zu: '%s' has no '%s'", k, err.msg,
				   rules[k].why);
	}
}

Test(erofs_check, refuses_what_only_overlayfs_may_say)
{
	static const struct {
		const char *name;
		int rc;
	} names[] = { { "trusted.overlay.redirect", -EINVAL },
		      { "trusted.overlay.opaque", -EINVAL },
		      { "trusted.overlay", 0 },
		      { "trusted.overlaid", 0 },
		      { "user.overlay.opaque", 0 } };

	for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
		AUTO(tree) t = tree_new();
		struct sample_image i = { .data = NULL };
		struct error err = ERROR_INIT;

		cr_assert_eq(tree_set_xattr(t, tree_root(t), names[k].name, "y",
					    1),
			     0);
		sample_write_image(t, &i);
		cr_expect_eq(erofs_check(i.data, i.len, &i.img, &err),
			     names[k].rc, "%s: %s", names[k].name, err.msg);
		free(i.data);
	}
}

/* Thousands of inodes, each with all the references that an area holds. */
Test(erofs_check, looks_at_shared_xattrs_once)
{
	enum { N_FILES = 2000, N_NAMES = 250 };
	AUTO(tree) t = tree_new();
	struct sample_image i = { .data = NULL };
	struct error err = ERROR_INIT;
	char name[256];
	clock_t begin;

	for (int f = 0; f < N_FILES; f++) {
		struct inode *in;

		snprintf(name, sizeof(name), "%d", f);
		in = sample_add(t, tree_root(t), name, S_IFREG);
		for (int k = 0; k < N_NAMES; k++) {
			snprintf(name, sizeof(name), "user.%0200d", k);
			if (f < 2)
				cr_assert_eq(tree_set_xattr(t, in, name, "", 0),
					     0);
			else
				in->xattrs =
					tree_root(t)->children->inode->xattrs;
		}
	}
	sample_write_image(t, &i);
	begin = clock();
	cr_expect_eq(erofs_check(i.data, i.len, &i.img, &err), 0, "%s",
		     err.msg);
	cr_expect_lt(clock() - begin, (clock_t)CLOCKS_PER_SEC);
	free(i.data);
}

Test(erofs_check, refuses_a_tree_of_any_depth_without_its_own)
{
	AUTO(tree) t = tree_new();
	struct inode *dir = tree_root(t);
	struct sample_image i = { .data = NULL };
	struct error err = ERROR_INIT;

	for (int k = 0; k < 200000; k++)
		dir = sample_add(t, dir, "d", S_IFDIR | 0755);
	sample_write_image(t, &i);
	cr_expect_eq(erofs_check(i.data, i.len, &i.img, &err), -EINVAL, "%s",
		     err.msg);
	free(i.data);
}
