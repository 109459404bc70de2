// SPDX-License-Identifier: Apache-2.0
#include "random_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"

uint32_t rnd_below(struct rnd *r, uint32_t n)
{
	r->state =
		r->state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)((r->state >> 33) % n);
}

static void random_name(struct rnd *r, char *name, size_t *ret_len)
{
	size_t len = rnd_below(r, 20) == 0 ? 1 + rnd_below(r, TREE_NAME_MAX)
					   : 1 + rnd_below(r, 12);

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)(1 + rnd_below(r, 255));

		name[i] = (char)(c == '/' ? '-' : c);
	}
	*ret_len = len;
}

static uint8_t *random_bytes(struct rnd *r, struct tree *t, size_t len)
{
	uint8_t *p = tree_alloc(t, len + 1);

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(1 + rnd_below(r, 255));
	p[len] = 0;
	return p;
}

static uint64_t random_voff(struct rnd *r, uint64_t len)
{
	uint64_t room = (RANDOM_DEVICE_SIZE - len) / EROFS_BLOCK;

	return EROFS_VOFF(rnd_below(r, RANDOM_DEVICES),
			  rnd_below(r, (uint32_t)room) * (uint64_t)EROFS_BLOCK);
}

/* Runs of data of up to 16 blocks, of which one in `hole` is left out. */
static void random_extents(struct rnd *r, struct tree *t, struct inode *i)
{
	uint64_t blocks = 1 + rnd_below(r, 200);
	uint32_t hole = 2 + rnd_below(r, 8);
	uint64_t run, end = 0;

	i->data = INODE_DATA_EXTENTS;
	i->size = blocks * EROFS_BLOCK - rnd_below(r, EROFS_BLOCK);
	i->extents = tree_alloc(t, blocks * sizeof(*i->extents));
	i->n_extents = 0;
	if (rnd_below(r, 2) == 0) {
		i->extents[i->n_extents++] =
			(struct extent){ 0, i->size,
					 random_voff(r, blocks * EROFS_BLOCK) };
		return;
	}
	for (uint64_t at = 0; at < blocks; at += run) {
		uint64_t off = at * EROFS_BLOCK;

		run = 1 + rnd_below(r, 16);
		run = run < blocks - at ? run : blocks - at;
		if (rnd_below(r, hole) == 0)
			continue;
		end = off + run * EROFS_BLOCK;
		end = end < i->size ? end : i->size;
		i->extents[i->n_extents++] =
			(struct extent){ off, end - off,
					 random_voff(r, run * EROFS_BLOCK) };
	}
}

void random_relayout(struct rnd *r, struct tree *t, struct inode *i)
{
	struct extent *old = i->extents;
	uint32_t n_old = i->n_extents;
	uint64_t blocks = (i->size + EROFS_BLOCK - 1) / EROFS_BLOCK;
	uint32_t n = 0;

	i->extents = tree_alloc(t, (blocks + 1) * sizeof(*old));
	for (uint32_t k = 0; k < n_old; k++) {
		uint64_t end = old[k].off + old[k].len;

		for (uint64_t off = old[k].off; off < end;) {
			uint64_t len =
				(1 + rnd_below(r, 9)) * (uint64_t)EROFS_BLOCK;

			len = len < end - off ? len : end - off;
			i->extents[n++] = (struct extent){
				off, len, random_voff(r, len + EROFS_BLOCK)
			};
			off += len;
		}
	}
	i->n_extents = n;
}

/* An ACL that the kernel accepts: owner, one user, group, mask, others. */
static int set_acl(struct rnd *r, struct tree *t, struct inode *i,
		   const char *name)
{
	static const uint8_t tags[] = { 0x01, 0x02, 0x04, 0x10, 0x20 };
	uint8_t acl[4 + 5 * 8] = { 2 };

	for (size_t k = 0; k < 5; k++) {
		uint8_t *p = acl + 4 + k * 8;

		p[0] = tags[k];
		p[2] = (uint8_t)rnd_below(r, 8);
		memset(p + 4, 0xff, 4);
	}
	put_le32(acl + 4 + 8 + 4, rnd_below(r, 3));
	return tree_set_xattr(t, i, name, acl, sizeof(acl));
}

/* Only such as the kernel gives back for that kind of inode. */
static void random_xattrs(struct rnd *r, struct tree *t, struct inode *i)
{
	uint32_t n = rnd_below(r, 4) == 0 ? rnd_below(r, 6) : 0;
	bool is_dir = S_ISDIR(i->mode);
	bool is_user = is_dir || S_ISREG(i->mode);
	int rc = 0;

	if (!S_ISLNK(i->mode) && rnd_below(r, 10) == 0)
		rc = set_acl(r, t, i, "system.posix_acl_access");
	if (is_dir && rnd_below(r, 10) == 0)
		rc = set_acl(r, t, i, "system.posix_acl_default");
	for (uint32_t k = 0; k < n && rc == 0; k++) {
		static const char *const spaces[] = { "trusted", "security",
						      "user" };
		/* Few values, so that some are shared. */
		struct rnd few = { rnd_below(r, 5) };
		uint32_t size = rnd_below(r, 30) == 0
					? rnd_below(r, TREE_XATTR_VALUE_MAX)
					: rnd_below(&few, 60);
		char name[32];

		snprintf(name, sizeof(name), "%s.%u",
			 spaces[rnd_below(r, is_user ? 3 : 2)],
			 rnd_below(r, rnd_below(r, 2) ? 3 : 1000));
		rc = tree_set_xattr(t, i, name, random_bytes(&few, t, size),
				    size);
	}
	if (rc < 0)
		abort();
}

/* Multiples of an odd constant, by their high bytes: with a sanitizer each addition
 * is cheap where a call for each byte was most of these tests' time. */
void random_device_read(unsigned int device, uint64_t off, uint8_t *ret,
			size_t len)
{
	const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t x = (off + device * UINT64_C(7777777) + 1) * step;

	for (uint8_t *end = ret + len; ret < end; x += step)
		*ret++ = (uint8_t)(x >> 56);
}

static struct inode *random_inode(struct rnd *r, struct tree *t)
{
	static const uint16_t kinds[] = {
		S_IFDIR, S_IFREG, S_IFREG, S_IFREG, S_IFREG, S_IFREG,
		S_IFREG, S_IFLNK, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK,
	};
	uint32_t kind = kinds[rnd_below(r, 12)];
	struct inode *i = tree_inode_new(t, kind | rnd_below(r, 010000));

	i->uid = rnd_below(r, 4) ? 0 : rnd_below(r, UINT32_MAX);
	i->gid = rnd_below(r, 4) ? 0 : rnd_below(r, UINT32_MAX);
	i->mtime = (int64_t)rnd_below(r, UINT32_MAX) - 1000000000;
	i->mtime_nsec = rnd_below(r, 1000000000);
	random_xattrs(r, t, i);
	if (kind == S_IFLNK) {
		i->size = 1 + rnd_below(r, rnd_below(r, 5) ? 50 : 4095);
		i->target = (char *)random_bytes(r, t, i->size);
	} else if (kind == S_IFCHR || kind == S_IFBLK) {
		i->major = rnd_below(r, 4096);
		i->minor = rnd_below(r, 1 << 20);
	} else if (kind == S_IFREG && rnd_below(r, 2)) {
		i->size = rnd_below(r, rnd_below(r, 4) ? 300 : 20000);
		i->data = i->size ? INODE_DATA_INLINE : INODE_DATA_NONE;
		i->bytes = random_bytes(r, t, i->size);
	} else if (kind == S_IFREG) {
		random_extents(r, t, i);
	}
	return i;
}

struct tree *random_tree(uint64_t seed, unsigned int n)
{
	struct rnd r = { seed * 2654435761 + 1 };
	struct tree *t = tree_new();
	struct inode **all = calloc(n + 1, sizeof(*all));
	unsigned int have = 0;

	all[have++] = tree_root(t);
	while (have <= n) {
		struct inode *dir = all[rnd_below(&r, have)];
		struct inode *i = all[rnd_below(&r, have)];
		char name[TREE_NAME_MAX];
		size_t len;

		/* Half of all in one folder, so that it has many blocks. */
		if (!S_ISDIR(dir->mode) || rnd_below(&r, 2))
			dir = all[0];
		random_name(&r, name, &len);
		if (!S_ISDIR(i->mode) && rnd_below(&r, 10) == 0) {
			if (tree_link(t, dir, name, len, i) < 0)
				continue;
		} else {
			i = random_inode(&r, t);
			if (tree_link(t, dir, name, len, i) < 0)
				continue;
			all[have++] = i;
		}
	}
	free(all);
	return t;
}
