// SPDX-License-Identifier: Apache-2.0
#include "erofs_sample.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "random_tree.h"

static const struct erofs_device devices[RANDOM_DEVICES] = {
	{ .size = RANDOM_DEVICE_SIZE, .tag = "a" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "b" },
	{ .size = RANDOM_DEVICE_SIZE, .tag = "c" },
};

static const struct erofs_params params = {
	.devices = devices,
	.n_devices = RANDOM_DEVICES,
};

void sample_fini(struct sample *s)
{
	free(s->i.data);
}

struct inode *sample_add(struct tree *t, struct inode *dir, const char *name,
			 uint32_t mode)
{
	struct inode *i = tree_inode_new(t, mode);

	cr_assert_eq(tree_link(t, dir, name, strlen(name), i), 0);
	return i;
}

static struct inode *add_inline(struct tree *t, const char *name, size_t size)
{
	struct inode *i = sample_add(t, tree_root(t), name, S_IFREG | 0644);
	uint8_t *p = tree_alloc(t, size);

	memset(p, 'x', size);
	i->data = INODE_DATA_INLINE;
	i->bytes = p;
	i->size = size;
	return i;
}

static struct inode *add_extent(struct tree *t, const char *name, uint64_t size,
				struct extent *e)
{
	struct inode *i = sample_add(t, tree_root(t), name, S_IFREG | 0644);

	i->size = size;
	i->data = INODE_DATA_EXTENTS;
	i->extents = e;
	i->n_extents = 1;
	return i;
}

static void add_xattrs(struct tree *t, struct inode *one, struct inode *two)
{
	static const char value[] = "a value that is worth to be shared";

	for (int k = 0; k < 2; k++) {
		struct inode *i = k ? two : one;

		cr_assert_eq(tree_set_xattr(t, i, "user.b", value,
					    sizeof(value)),
			     0);
		cr_assert_eq(tree_set_xattr(t, i, "user.d", value,
					    sizeof(value)),
			     0);
	}
	cr_assert_eq(tree_set_xattr(t, one, "user.a", "one", 3), 0);
	cr_assert_eq(tree_set_xattr(t, one, "user.c", "three", 5), 0);
}

void sample_write_image(struct tree *t, struct sample_image *i)
{
	struct error err = ERROR_INIT;
	void *data;

	cr_assert_eq(erofs_write(t, &params, &data, &i->len, &err), 0, "%s",
		     err.msg);
	i->data = data;
}

void sample_write(struct sample *s)
{
	static struct extent run = { 0, 4096, 0 };
	static struct extent split = { 4096, 4096, 8192 };
	AUTO(tree) t = tree_new();
	struct inode *in[N_INODES] = { [ROOT] = tree_root(t) };
	struct error err = ERROR_INIT;
	char name[64];

	in[DIR] = sample_add(t, in[ROOT], "dir", S_IFDIR | 0755);
	in[BIG] = sample_add(t, in[ROOT], "big", S_IFDIR | 0755);
	in[EMPTY] = sample_add(t, in[DIR], "empty", S_IFREG | 0644);
	cr_assert_eq(tree_link(t, in[DIR], "second", 6, in[EMPTY]), 0);
	in[SMALL] = add_inline(t, "small", 101);
	in[BLOCKS] = add_inline(t, "blocks", 4096);
	in[RUN] = add_extent(t, "run", 4096, &run);
	in[SPLIT] = add_extent(t, "split", 12288, &split);
	in[LINK] = sample_add(t, in[ROOT], "link", S_IFLNK | 0777);
	in[LINK]->target = "dir/empty";
	in[LINK]->size = 9;
	in[FIFO] = sample_add(t, in[ROOT], "fifo", S_IFIFO | 0600);
	in[CHAR] = sample_add(t, in[ROOT], "char", S_IFCHR | 0600);
	in[CHAR]->major = 1;
	in[CHAR]->minor = 3;
	in[XATTRS] = sample_add(t, in[ROOT], "xattrs", S_IFREG | 0644);
	add_xattrs(t, in[XATTRS], in[FIFO]);
	for (int k = 0; k < 150; k++) {
		snprintf(name, sizeof(name), "%050d", k);
		sample_add(t, in[BIG], name, S_IFREG | 0600);
	}
	sample_write_image(t, &s->i);
	for (int k = 0; k < N_INODES; k++)
		s->nid[k] = in[k]->user;
	cr_assert_eq(erofs_check(s->i.data, s->i.len, &s->i.img, &err), 0, "%s",
		     err.msg);
}

uint8_t *sample_super(struct sample *s)
{
	return s->i.data + EROFS_SB_POS;
}

uint8_t *sample_inode(struct sample *s, int which)
{
	return s->i.data + s->nid[which] * EROFS_SLOT;
}

uint8_t *sample_tail(struct sample *s, int which)
{
	return sample_inode(s, which) + EROFS_EXTENDED_SIZE;
}

uint8_t *sample_entry(struct sample *s, int which, size_t k)
{
	return sample_tail(s, which) + k * EROFS_DIRENT_SIZE;
}
