// SPDX-License-Identifier: Apache-2.0
/* Reads the xattrs of one inode. */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "image/erofs/format.h"
#include "image/erofs/read.h"

#define NAME_MAX_LEN 288 /* the longest prefix and 255 bytes */

static int bad_xattr(const struct erofs_inode *i, const char *what,
		     struct error *err)
{
	return error_set(err, EINVAL, "EROFS inode %llu: xattr %s",
			 (unsigned long long)i->nid, what);
}

/* Read the entry at `p`, of which `room` bytes are there; `*ret_used` is its size with
 * padding. */
static int read_xattr_entry(const struct erofs_inode *i, const uint8_t *p,
			    uint64_t room, erofs_xattr_fn *each, void *arg,
			    uint64_t *ret_used, struct error *err)
{
	char name[NAME_MAX_LEN];
	const char *prefix;
	size_t prefix_len, len, size;

	if (room < EROFS_XATTR_ENTRY)
		return bad_xattr(i, "leaves its area", err);
	len = p[XE_NAME_LEN];
	size = get_le16(p + XE_SIZE);
	prefix = erofs_xattr_prefix(p[XE_INDEX]);
	if (len + size > room - EROFS_XATTR_ENTRY)
		return bad_xattr(i, "leaves its area", err);
	if (!prefix)
		return bad_xattr(i, "of an unknown namespace", err);
	prefix_len = strlen(prefix);
	if ((prefix[prefix_len - 1] == '.') == (len == 0) ||
	    memchr(p + EROFS_XATTR_ENTRY, '\0', len))
		return bad_xattr(i, "with an impossible name", err);
	memcpy(name, prefix, prefix_len);
	memcpy(name + prefix_len, p + EROFS_XATTR_ENTRY, len);
	name[prefix_len + len] = '\0';
	*ret_used = round_up(EROFS_XATTR_ENTRY + len + size, 4);
	return each(arg, name, p + EROFS_XATTR_ENTRY + len, size);
}

int erofs_xattrs(const struct erofs_image *img, const struct erofs_inode *i,
		 erofs_xattr_fn *each, void *arg, struct error *err)
{
	const uint8_t *p = img->data + i->pos + i->head;
	uint64_t left = i->xattr_len, used;
	int rc = 0;

	if (left == 0)
		return 0;
	if (EROFS_XATTR_HEADER + 4u * p[XH_SHARED_COUNT] > left)
		return bad_xattr(i, "count is too large", err);
	for (unsigned int k = 0; k < p[XH_SHARED_COUNT] && rc == 0; k++) {
		uint64_t at =
			img->xattr_off +
			4 * (uint64_t)get_le32(p + EROFS_XATTR_HEADER + 4 * k);

		if (at > img->len)
			return bad_xattr(i, "leaves the image", err);
		rc = read_xattr_entry(i, img->data + at, img->len - at, each,
				      arg, &used, err);
	}
	used = EROFS_XATTR_HEADER + 4u * p[XH_SHARED_COUNT];
	while (rc == 0 && (left -= used) > 0) {
		p += used;
		rc = read_xattr_entry(i, p, left, each, arg, &used, err);
		/* Padding of the last entry is inside the area, since both lengths are
		 * multiples of four. */
	}
	return rc;
}
