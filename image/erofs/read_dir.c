// SPDX-License-Identifier: Apache-2.0
/* Reads folders and symlinks. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/erofs/format.h"
#include "image/erofs/read.h"

#define COOKIES_PER_BLOCK 512 /* more than the entries that fit into a block */

struct dir_block {
	const uint8_t *p;
	uint32_t len;
	uint32_t n; /* entries, at least 1 */
};

struct name {
	const char *p;
	size_t len;
};

static int bad_dir(const struct erofs_inode *dir, const char *what,
		   struct error *err)
{
	return error_set(err, EINVAL, "EROFS folder %llu: %s",
			 (unsigned long long)dir->nid, what);
}

static int check_dir(const struct erofs_inode *dir, struct error *err)
{
	if (!S_ISDIR(dir->mode))
		return error_set(err, ENOTDIR, "EROFS inode %llu: no folder",
				 (unsigned long long)dir->nid);
	return 0;
}

static int get_block(const struct erofs_image *img,
		     const struct erofs_inode *dir, uint64_t block,
		     struct dir_block *ret, struct error *err)
{
	uint64_t len;
	uint16_t first;
	int rc = erofs_content(img, dir, block * EROFS_BLOCK, &ret->p, &len,
			       err);

	if (rc < 0)
		return rc;
	ret->len = len < EROFS_BLOCK ? (uint32_t)len : EROFS_BLOCK;
	if (ret->len < EROFS_DIRENT_SIZE)
		return bad_dir(dir, "block without entries", err);
	first = get_le16(ret->p + DIRENT_NAMEOFF);
	if (first < EROFS_DIRENT_SIZE || first % EROFS_DIRENT_SIZE ||
	    first >= ret->len)
		return bad_dir(dir, "wrong first name offset", err);
	ret->n = first / EROFS_DIRENT_SIZE;
	return 0;
}

static int get_name(const struct erofs_inode *dir, const struct dir_block *b,
		    uint32_t k, struct name *ret, struct error *err)
{
	const uint8_t *p = b->p + k * EROFS_DIRENT_SIZE;
	uint32_t from = get_le16(p + DIRENT_NAMEOFF);
	uint32_t to = b->len;

	if (k + 1 < b->n)
		to = get_le16(p + EROFS_DIRENT_SIZE + DIRENT_NAMEOFF);
	if (from < b->n * EROFS_DIRENT_SIZE || from >= to || to > b->len)
		return bad_dir(dir, "wrong name offset", err);
	ret->p = (const char *)b->p + from;
	/* The last name ends with the block, or with a NUL before. */
	ret->len = k + 1 < b->n ? to - from : strnlen(ret->p, to - from);
	if (ret->len == 0 || ret->len > TREE_NAME_MAX ||
	    memchr(ret->p, '\0', ret->len) || memchr(ret->p, '/', ret->len))
		return bad_dir(dir, "impossible name", err);
	return 0;
}

static int read_dir_compare(const char *a, size_t a_len, const struct name *b)
{
	int c = memcmp(a, b->p, a_len < b->len ? a_len : b->len);

	if (c)
		return c;
	return a_len == b->len ? 0 : a_len < b->len ? -1 : 1;
}

/* Find the last block whose first name is not after the wanted one. */
static int find_block(const struct erofs_image *img,
		      const struct erofs_inode *dir, const char *name,
		      size_t len, struct dir_block *ret, struct error *err)
{
	uint64_t lo = 0;
	uint64_t hi = (dir->size + EROFS_BLOCK - 1) / EROFS_BLOCK;
	int rc = hi ? get_block(img, dir, 0, ret, err)
		    : bad_dir(dir, "empty", err);

	while (rc == 0 && hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;
		struct dir_block b;
		struct name first;

		rc = get_block(img, dir, mid, &b, err);
		if (rc == 0)
			rc = get_name(dir, &b, 0, &first, err);
		if (rc < 0)
			break;
		if (read_dir_compare(name, len, &first) < 0) {
			hi = mid;
		} else {
			lo = mid;
			*ret = b;
		}
	}
	return rc;
}

int erofs_lookup(const struct erofs_image *img, const struct erofs_inode *dir,
		 const char *name, size_t len, uint64_t *ret_nid,
		 struct error *err)
{
	struct dir_block b;
	uint32_t lo = 0, hi;
	int rc = check_dir(dir, err);

	if (rc == 0)
		rc = find_block(img, dir, name, len, &b, err);
	if (rc < 0)
		return rc;
	hi = b.n;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		struct name n;
		int c;

		rc = get_name(dir, &b, mid, &n, err);
		if (rc < 0)
			return rc;
		c = read_dir_compare(name, len, &n);
		if (c == 0) {
			*ret_nid = get_le64(b.p + mid * EROFS_DIRENT_SIZE +
					    DIRENT_NID);
			return 0;
		}
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return error_set(err, ENOENT, "no such name in EROFS folder %llu",
			 (unsigned long long)dir->nid);
}

int erofs_readdir(const struct erofs_image *img, const struct erofs_inode *dir,
		  uint64_t pos, erofs_dirent_fn *each, void *arg,
		  struct error *err)
{
	uint64_t n_blocks = (dir->size + EROFS_BLOCK - 1) / EROFS_BLOCK;
	uint64_t skip = pos % COOKIES_PER_BLOCK;
	int rc = check_dir(dir, err);

	for (uint64_t at = pos / COOKIES_PER_BLOCK; rc == 0 && at < n_blocks;
	     at++) {
		struct dir_block b;

		rc = get_block(img, dir, at, &b, err);
		for (uint64_t k = skip; rc == 0 && k < b.n; k++) {
			const uint8_t *p = b.p + k * EROFS_DIRENT_SIZE;
			struct name n;

			rc = get_name(dir, &b, (uint32_t)k, &n, err);
			if (rc == 0)
				rc = each(arg, n.p, n.len,
					  get_le64(p + DIRENT_NID),
					  p[DIRENT_TYPE],
					  at * COOKIES_PER_BLOCK + k + 1);
		}
		skip = 0;
	}
	return rc;
}

int erofs_readlink(const struct erofs_image *img, const struct erofs_inode *i,
		   const char **ret, size_t *ret_len, struct error *err)
{
	const uint8_t *p;
	uint64_t len;
	int rc;

	if (!S_ISLNK(i->mode) || i->size == 0 || i->size > TREE_SYMLINK_MAX)
		return error_set(err, EINVAL, "EROFS inode %llu: no symlink",
				 (unsigned long long)i->nid);
	rc = erofs_content(img, i, 0, &p, &len, err);
	if (rc < 0)
		return rc;
	if (memchr(p, '\0', i->size))
		return error_set(err, EINVAL, "EROFS inode %llu: NUL in target",
				 (unsigned long long)i->nid);
	*ret = (const char *)p;
	*ret_len = (size_t)i->size;
	return 0;
}
