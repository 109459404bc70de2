// SPDX-License-Identifier: Apache-2.0
/* Entries that erofs_walk() gives for small images that no tool would make. */
#include "snapshotter/convert/erofs_layer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <zstd.h>

#include "common/bytes.h"
#include "image/erofs/erofs.h"
#include "image/erofs/format.h"

TestSuite(erofs_layer, .timeout = 120);

#define BLOCKS 16
#define SHARED 14 /* number of the block of shared xattrs */
/* number of the block of the root's names; inodes begin in block 1 */
#define NAMES 15
#define MORE_NAMES 6 /* the first block of many names */
#define ROOT 0u      /* nids of two inodes in the extended format */
#define ENTRY 2u
#define COMPAT_XATTR_FILTER 0x4u /* EROFS_FEATURE_COMPAT_... of Linux 6.6 */

static struct error err;

struct image {
	struct source base;
	uint8_t data[BLOCKS * EROFS_BLOCK];
};

static int image_read(struct source *s, const struct source_req *req,
		      struct source_sink *sink, struct error *e)
{
	const struct image *m = container_of(s, struct image, base);

	return sink->put(sink, 0, m->data, sizeof(m->data), e);
}

static void image_free(struct source *s)
{
}

static const struct source_ops image_ops = {
	.name = "memory",
	.read = image_read,
	.free = image_free,
};

static uint8_t *put_inode(struct image *m, unsigned int nid, uint32_t mode,
			  unsigned int layout, uint64_t size, uint32_t u)
{
	uint8_t *p = m->data + EROFS_BLOCK + nid * EROFS_SLOT;

	put_le16(p + INO_FORMAT,
		 (uint16_t)(EROFS_FORMAT_EXTENDED |
			    layout << EROFS_FORMAT_LAYOUT_SHIFT));
	put_le16(p + INO_MODE, (uint16_t)mode);
	put_le64(p + INO_SIZE, size);
	put_le32(p + INO_U, u);
	put_le32(p + INO_NLINK, 1);
	return p;
}

static void image_begin(struct image *m)
{
	uint8_t *sb = m->data + EROFS_SB_POS;

	*m = (struct image){ .base.ops = &image_ops };
	put_le32(sb + SB_MAGIC, EROFS_MAGIC);
	put_le32(sb + SB_FEATURE_COMPAT, EROFS_COMPAT_SB_CHKSUM);
	put_le32(sb + SB_FEATURE_INCOMPAT, EROFS_INCOMPAT_CHUNKED_FILE);
	sb[SB_BLKSZBITS] = EROFS_BLKSZBITS;
	put_le16(sb + SB_ROOT_NID, ROOT);
	put_le32(sb + SB_BLOCKS, BLOCKS);
	put_le32(sb + SB_META_BLKADDR, 1);
	put_inode(m, ROOT, S_IFDIR | 0755, EROFS_LAYOUT_FLAT_PLAIN, EROFS_BLOCK,
		  NAMES);
}

/* Fill a block with names in the root, which all lead to ENTRY. */
static void put_block(struct image *m, size_t block, const char *const *names,
		      size_t n)
{
	uint8_t *p = m->data + block * EROFS_BLOCK;
	size_t at = n * EROFS_DIRENT_SIZE;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(names[i]);

		put_le64(p + i * EROFS_DIRENT_SIZE + DIRENT_NID, ENTRY);
		put_le16(p + i * EROFS_DIRENT_SIZE + DIRENT_NAMEOFF,
			 (uint16_t)at);
		memcpy(p + at, names[i], len);
		at += len;
	}
}

static void put_names(struct image *m, const char *const *names, size_t n)
{
	put_block(m, NAMES, names, n);
}

struct seen {
	struct tar_visitor visitor;
	char paths[256];
	bool wants;
	unsigned int n_ends, n_xattrs;
};

static int see_entry(struct tar_visitor *v, const struct layer_entry *e,
		     bool *want, struct error *why)
{
	struct seen *s = container_of(v, struct seen, visitor);
	/* paths beyond the buffer are left out */
	size_t len = strlen(s->paths);

	(void)snprintf(s->paths + len, sizeof(s->paths) - len, "%s ", e->path);
	for (const struct xattr *x = e->xattrs; x; x = x->next)
		s->n_xattrs++;
	*want = s->wants && S_ISREG(e->mode);
	return 0;
}

static int see_data(struct tar_visitor *v, uint64_t off, const void *data,
		    size_t len, struct error *why)
{
	return error_set(why, EIO, "a hole has no data");
}

static int see_end(struct tar_visitor *v, struct error *why)
{
	container_of(v, struct seen, visitor)->n_ends++;
	return 0;
}

static int image_walk(struct image *m, struct seen *s)
{
	uint8_t *sb = m->data + EROFS_SB_POS;
	struct layer_input in = { .source = &m->base,
				  .size = sizeof(m->data),
				  .copy_fd = -1 };
	AUTO(layer) l = NULL;
	int rc;

	put_le32(sb + SB_CHECKSUM, 0);
	put_le32(sb + SB_CHECKSUM,
		 erofs_crc32c(sb, EROFS_BLOCK - EROFS_SB_POS));
	s->visitor = (struct tar_visitor){ .entry = see_entry,
					   .data = see_data,
					   .end = see_end };
	err = (struct error)ERROR_INIT;
	cr_assert_eq(digest_of(m->data, sizeof(m->data), &in.digest), 0);
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	rc = erofs_walk(l, NULL, &s->visitor, &err);
	layer_close(steal_ptr(&l));
	return rc;
}

Test(erofs_layer, makes_no_mark_of_an_opaque_folder_of_a_whiteout)
{
	static const char *const plain[] = { "gone" }, *const opaque[] = {
		".wh..opq"
	};
	static struct image m;
	struct seen s = { .n_ends = 0 };

	image_begin(&m);
	put_inode(&m, ENTRY, S_IFCHR, EROFS_LAYOUT_FLAT_PLAIN, 0, 0);
	put_names(&m, plain, 1);
	cr_assert_eq(image_walk(&m, &s), 0, "%s", err.msg);
	cr_assert_str_eq(s.paths, "./ .wh.gone ");
	put_names(&m, opaque, 1);
	s = (struct seen){ .n_ends = 0 };
	cr_assert_eq(image_walk(&m, &s), -EINVAL);
	cr_assert_str_eq(s.paths, "./ ");
}

/* The kernel would not find all names of such a folder. */
Test(erofs_layer, refuses_a_folder_whose_names_are_not_in_order)
{
	static const char *const sorted[] = { "a", "ab", "b" };
	static const char *const bad[][3] = { { "a", "c", "b" },
					      { "a", "b", "b" },
					      { "ab", "a", "b" } };
	static struct image m;
	struct seen s = { .n_ends = 0 };

	image_begin(&m);
	put_inode(&m, ENTRY, S_IFREG, EROFS_LAYOUT_FLAT_PLAIN, 0, 0);
	put_names(&m, sorted, 3);
	cr_assert_eq(image_walk(&m, &s), 0, "%s", err.msg);
	cr_assert_str_eq(s.paths, "./ a ab b ");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		image_begin(&m);
		put_inode(&m, ENTRY, S_IFREG, EROFS_LAYOUT_FLAT_PLAIN, 0, 0);
		put_names(&m, bad[i], 3);
		s = (struct seen){ .n_ends = 0 };
		cr_assert_eq(image_walk(&m, &s), -EINVAL, "%zu", i);
		cr_assert(strstr(err.msg, "not in order"), "%s", err.msg);
	}
}

/* 260 names of a hole of 4 TiB take few bytes; the walk must not work through the hole by MiB. */
Test(erofs_layer, passes_holes_over_at_once, .timeout = 10)
{
	static const char *names[260];
	static char text[ARRAY_SIZE(names)][4];
	static struct image m;
	struct seen s = { .wants = true };
	unsigned int blocks = BLOCKS - MORE_NAMES;
	uint8_t *p;

	image_begin(&m);
	put_inode(&m, ROOT, S_IFDIR | 0755, EROFS_LAYOUT_FLAT_PLAIN,
		  (uint64_t)blocks * EROFS_BLOCK, MORE_NAMES);
	p = put_inode(&m, ENTRY, S_IFREG, EROFS_LAYOUT_CHUNK_BASED,
		      APPLY_FILE_MAX, EROFS_CHUNK_INDEXES | 30);
	put_le32(p + EROFS_EXTENDED_SIZE + CHUNK_BLKADDR, EROFS_NULL_ADDR);
	for (unsigned int k = 0; k < blocks; k++) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			text[i][0] = (char)('a' + k);
			text[i][1] = (char)('a' + i / 20);
			text[i][2] = (char)('a' + i % 20);
			names[i] = text[i];
		}
		put_block(&m, MORE_NAMES + k, names, ARRAY_SIZE(names));
	}
	cr_assert_eq(image_walk(&m, &s), 0, "%s", err.msg);
	cr_assert_eq(s.n_ends, blocks * ARRAY_SIZE(names));
}

/* Put `n` empty xattrs "user.aaa", "user.aab" and so on; returns the first one. */
static uint8_t *put_xattrs(struct image *m, unsigned int n)
{
	uint8_t *p =
		put_inode(m, ENTRY, S_IFREG, EROFS_LAYOUT_FLAT_PLAIN, 0, 0);

	put_le16(p + INO_XATTR_ICOUNT, (uint16_t)(1 + 2 * n));
	p += EROFS_EXTENDED_SIZE + EROFS_XATTR_HEADER;
	for (unsigned int i = 0; i < n; i++) {
		uint8_t *x = p + (size_t)8 * i;

		x[XE_NAME_LEN] = 3;
		x[XE_INDEX] = 1;
		x[EROFS_XATTR_ENTRY] = (uint8_t)('a' + i / 676);
		x[EROFS_XATTR_ENTRY + 1] = (uint8_t)('a' + i / 26 % 26);
		x[EROFS_XATTR_ENTRY + 2] = (uint8_t)('a' + i % 26);
	}
	return p;
}

Test(erofs_layer, takes_no_more_xattrs_than_a_tar)
{
	static const char *const name = "f";
	static struct image m;

	for (unsigned int n = 4096; n <= 4097; n++) {
		struct seen s = { .n_ends = 0 };

		image_begin(&m);
		(void)put_xattrs(&m, n);
		put_names(&m, &name, 1);
		cr_assert_eq(image_walk(&m, &s), n > 4096 ? -E2BIG : 0, "%s",
			     err.msg);
	}
}

/* An xattr filter only spares the kernel a search; its bits must not hide xattrs from the walk. */
Test(erofs_layer, reads_xattrs_whatever_their_filter_says)
{
	static const uint32_t filters[] = { 0, 0x00ff00ff, UINT32_MAX };
	static const char *const name = "f";
	static struct image m;

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		struct seen s = { .n_ends = 0 };

		image_begin(&m);
		put_le32(m.data + EROFS_SB_POS + SB_FEATURE_COMPAT,
			 EROFS_COMPAT_SB_CHKSUM | COMPAT_XATTR_FILTER);
		put_names(&m, &name, 1);
		put_le32(put_xattrs(&m, 3) - EROFS_XATTR_HEADER, filters[i]);
		cr_assert_eq(image_walk(&m, &s), 0, "%s", err.msg);
		cr_assert_eq(s.n_xattrs, 3);
	}
}

/* The kernel returns only one of two equal names: the inode's own before the shared one. */
Test(erofs_layer, refuses_an_xattr_that_an_inode_has_twice)
{
	static const char *const name = "f";
	static struct image m;

	for (unsigned int shared = 0; shared < 2; shared++) {
		struct seen s = { .n_ends = 0 };
		uint8_t *first, *head;

		image_begin(&m);
		put_names(&m, &name, 1);
		first = put_xattrs(&m, 3);
		cr_assert_eq(image_walk(&m, &s), 0, "%s", err.msg);
		head = first - EROFS_XATTR_HEADER;
		if (shared) {
			/* The third xattr becomes a shared one: its number goes into the
			 * inode's own area. */
			memmove(first + 4, first, 16);
			head[XH_SHARED_COUNT] = 1;
			put_le32(first, SHARED * EROFS_BLOCK / 4);
			memcpy(m.data + SHARED * EROFS_BLOCK, first + 4, 8);
			put_le16(head - EROFS_EXTENDED_SIZE + INO_XATTR_ICOUNT,
				 1 + 1 + 4);
		} else {
			memcpy(first + 16, first, 8);
		}
		cr_assert_eq(image_walk(&m, &s), -EINVAL);
		cr_assert_str_eq(
			err.msg,
			"entry 'f': it has the xattr 'user.aaa' twice");
	}
}

/* --------------------------------------------------------------------- disk --- */

#define FRAME (64 * MIB)
#define FRAMES_SAID (UINT64_C(1) << 14) /* 1 TiB */
#define FRAMES_SENT 16u

/* Names that the linker gives to a wrapped function. */
int __real_fstatvfs64(int fd, struct statvfs *ret);
int __wrap_fstatvfs64(int fd, struct statvfs *ret);

/* pretend that 4 GiB and one and a half frames are free */
static bool disk_is_small;
/* bytes of the disk that were used at the last check */
static uint64_t disk_used;

int __wrap_fstatvfs64(int fd, struct statvfs *ret)
{
	struct stat st;
	int rc = __real_fstatvfs64(fd, ret);

	if (rc < 0 || !disk_is_small)
		return rc;
	if (fstat(fd, &st) < 0)
		return -1;
	disk_used = (uint64_t)st.st_size;
	ret->f_frsize = EROFS_BLOCK;
	ret->f_blocks = 1024 * GIB / EROFS_BLOCK;
	ret->f_bavail = (4 * GIB + FRAME * 3 / 2 - disk_used) / EROFS_BLOCK;
	return 0;
}

struct bomb {
	struct source base;
	void *frame;
	size_t len;
};

static int bomb_read(struct source *s, const struct source_req *req,
		     struct source_sink *sink, struct error *e)
{
	const struct bomb *b = container_of(s, struct bomb, base);
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && i < FRAMES_SENT; i++)
		rc = sink->put(sink, i * b->len, b->frame, b->len, e);
	return rc;
}

static const struct source_ops bomb_ops = {
	.name = "bomb",
	.read = bomb_read,
	.free = image_free,
};

/* A few MiB of zstd that decode to 1 TiB. */
Test(erofs_layer, leaves_4_gib_of_the_disk_to_others)
{
	struct bomb b = { .base.ops = &bomb_ops };
	struct layer_input in = { .source = &b.base, .copy_fd = -1 };
	AUTO_FREE void *plain = calloc(1, FRAME);
	AUTO_FREE void *frame = malloc(ZSTD_compressBound(FRAME));
	AUTO(layer) l = NULL;
	struct seen s = { .visitor = { .entry = see_entry } };

	cr_assert(plain && frame);
	b.frame = frame;
	b.len = ZSTD_compress(frame, ZSTD_compressBound(FRAME), plain, FRAME,
			      1);
	cr_assert(!ZSTD_isError(b.len));
	in.size = FRAMES_SAID * b.len;
	cr_assert_eq(layer_open(&in, &l, &err), 0);
	disk_is_small = true;
	cr_assert_eq(erofs_walk(l, NULL, &s.visitor, &err), -ENOSPC, "%s",
		     err.msg);
	cr_expect_lt(disk_used, 3 * FRAME);
	cr_expect_geq(disk_used, FRAME);
}
