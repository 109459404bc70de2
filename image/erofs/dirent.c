// SPDX-License-Identifier: Apache-2.0
#include "image/erofs/dirent.h"

#include <string.h>

#include "common/bytes.h"
#include "image/erofs/format.h"

struct dir_entry {
	const char *name;
	size_t len;
	const struct inode *inode;
};

void dirent_iter_init(struct dirent_iter *it, const struct inode *dir)
{
	it->dir = dir;
	it->next = dir->children;
	it->n_dots = 0;
}

/* The next entry by name; "." and ".." are sorted among the others. */
static bool next_entry(struct dirent_iter *it, struct dir_entry *ret)
{
	static const char *const dots = "..";
	const struct dentry *d = it->next;

	if (it->n_dots < 2) {
		size_t len = it->n_dots + 1;
		int c = d ? strncmp(d->name, dots, len) : 1;

		/* No child has the name "." or "..", so a name that begins with these bytes
		 * is longer and comes after. */
		if (c >= 0) {
			ret->name = dots;
			ret->len = len;
			ret->inode = it->n_dots ? it->dir->dir_parent : it->dir;
			it->n_dots++;
			return true;
		}
	}
	if (!d)
		return false;
	ret->name = d->name;
	ret->len = d->name_len;
	ret->inode = d->inode;
	it->next = d->next;
	return true;
}

static size_t dirent_measure(struct dirent_iter *it, size_t *ret_n)
{
	size_t used = 0, n = 0;
	struct dir_entry e;

	for (;;) {
		struct dirent_iter before = *it;

		if (!next_entry(it, &e))
			break;
		if (used + EROFS_DIRENT_SIZE + e.len > EROFS_BLOCK) {
			*it = before;
			break;
		}
		used += EROFS_DIRENT_SIZE + e.len;
		n++;
	}
	*ret_n = n;
	return used;
}

size_t dirent_block(struct dirent_iter *it, uint8_t *block)
{
	struct dirent_iter again = *it;
	size_t n;
	size_t used = dirent_measure(it, &n);
	size_t name_off = n * EROFS_DIRENT_SIZE;

	if (!block)
		return used;
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = block + i * EROFS_DIRENT_SIZE;
		struct dir_entry e;

		(void)next_entry(&again, &e);
		put_le64(p + DIRENT_NID, e.inode->user);
		put_le16(p + DIRENT_NAMEOFF, (uint16_t)name_off);
		p[DIRENT_TYPE] = erofs_file_type(e.inode->mode);
		p[DIRENT_TYPE + 1] = 0;
		memcpy(block + name_off, e.name, e.len);
		name_off += e.len;
	}
	memset(block + used, 0, EROFS_BLOCK - used);
	return used;
}

uint64_t dirent_size(const struct inode *dir)
{
	struct dirent_iter it;
	uint64_t n_full = 0;
	size_t used, last = 0;

	dirent_iter_init(&it, dir);
	while ((used = dirent_block(&it, NULL))) {
		n_full += last != 0;
		last = used;
	}
	return n_full * EROFS_BLOCK + last;
}
