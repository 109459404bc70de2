// SPDX-License-Identifier: Apache-2.0
/*
 * Xattrs of a whole image.  The shared ones are walked once, and an inode may
 * only refer to where one of them begins: otherwise a few bytes of references
 * could make each inode look at the whole area again.
 */
#include "image/erofs/check.h"

#include <errno.h>

#include "common/bytes.h"
#include "image/erofs/format.h"

/* What listxattr(2) gives at most. */
#define NAMES_MAX 65536u
#define OVERLAY "overlay." /* of trusted.* */

static const uint8_t *name_of(const uint8_t *entry)
{
	return entry + EROFS_XATTR_ENTRY;
}

static uint64_t size_of(const uint8_t *entry)
{
	return EROFS_XATTR_ENTRY + (uint64_t)entry[XE_NAME_LEN] +
	       get_le16(entry + XE_SIZE);
}

/* One entry of which `room` bytes are there.  NULL, or what is wrong. */
static const char *find_fault(const uint8_t *p, uint64_t room)
{
	const char *prefix;
	size_t len;

	if (room < EROFS_XATTR_ENTRY || size_of(p) > room)
		return "an xattr leaves its area";
	prefix = erofs_xattr_prefix(p[XE_INDEX]);
	if (!prefix)
		return "an xattr of an unknown namespace";
	len = strlen(prefix);
	if ((prefix[len - 1] == '.') == (p[XE_NAME_LEN] == 0) ||
	    memchr(name_of(p), '\0', p[XE_NAME_LEN]))
		return "an xattr with an impossible name";
	/* What a lower layer says there, the overlay of a container believes. */
	if (strcmp(prefix, "trusted.") == 0 &&
	    p[XE_NAME_LEN] >= strlen(OVERLAY) &&
	    memcmp(name_of(p), OVERLAY, strlen(OVERLAY)) == 0)
		return "an xattr that only overlayfs may set";
	if (!check_is_zero(p + size_of(p),
			   round_up(size_of(p), 4) - size_of(p)))
		return "bytes behind an xattr";
	return NULL;
}

/* By namespace, then name. */
static int compare(const uint8_t *a, const uint8_t *b)
{
	size_t a_len = a[XE_NAME_LEN], b_len = b[XE_NAME_LEN];
	int c = a[XE_INDEX] - b[XE_INDEX];

	if (c == 0)
		c = memcmp(name_of(a), name_of(b),
			   a_len < b_len ? a_len : b_len);
	return c ? c : (int)a_len - (int)b_len;
}

int check_shared_xattrs(struct checker *c)
{
	const struct erofs_image *img = c->img;
	uint64_t pos = img->xattr_off, at;
	const char *fault;
	int rc;

	/* What follows the last one is zero, which begins no entry. */
	while (pos < img->len && get_le32(img->data + pos) != 0) {
		fault = find_fault(img->data + pos, img->len - pos);
		if (fault)
			return error_set(c->err, EINVAL,
					 "EROFS shared xattrs: %s", fault);
		rc = check_claim(c, 0, pos, size_of(img->data + pos));
		if (rc < 0)
			return rc;
		at = (pos - img->xattr_off) / 4;
		c->shared[at / 64] |= UINT64_C(1) << at % 64;
		pos += round_up(size_of(img->data + pos), 4);
	}
	return 0;
}

/* What one inode has: references first, then entries of its own. */
struct area {
	const uint8_t *ids;
	unsigned int n_ids, next; /* ids that were taken */
	const uint8_t *at;        /* of the next own entry */
	uint64_t left;
	uint64_t names; /* bytes that listing them all takes */
};

static void count_name(struct area *a, const uint8_t *entry)
{
	a->names += strlen(erofs_xattr_prefix(entry[XE_INDEX])) +
		    entry[XE_NAME_LEN] + 1;
}

/* The k-th shared one; NULL: it is none. */
static const uint8_t *shared_at(const struct checker *c, const struct area *a,
				unsigned int k)
{
	uint64_t id = get_le32(a->ids + (size_t)4 * k);

	if (id >= (c->img->len - c->img->xattr_off) / 4 ||
	    !(c->shared[id / 64] & UINT64_C(1) << id % 64))
		return NULL;
	return c->img->data + c->img->xattr_off + 4 * id;
}

static int check_ids(struct checker *c, uint64_t nid, struct area *a)
{
	const uint8_t *before = NULL, *p;

	for (unsigned int k = 0; k < a->n_ids; k++, before = p) {
		p = shared_at(c, a, k);
		if (!p)
			return check_bad(c, nid, "refers to no shared xattr");
		if (before && compare(before, p) >= 0)
			return check_bad(c, nid, "xattrs out of order");
		count_name(a, p);
	}
	return 0;
}

/* Both parts are sorted, so that one pass finds a name that is in both: the
 * kernel would show another value than our reader. */
static bool is_shared_too(const struct checker *c, struct area *a,
			  const uint8_t *entry)
{
	int order = -1;

	while (a->next < a->n_ids) {
		order = compare(shared_at(c, a, a->next), entry);
		if (order >= 0)
			break;
		a->next++;
	}
	return a->next < a->n_ids && order == 0;
}

static int check_own(struct checker *c, uint64_t nid, struct area *a)
{
	const uint8_t *before = NULL;

	while (a->left) {
		const uint8_t *p = a->at;
		const char *fault = find_fault(p, a->left);

		if (fault)
			return check_bad(c, nid, fault);
		if (before && compare(before, p) >= 0)
			return check_bad(c, nid, "xattrs out of order");
		if (is_shared_too(c, a, p))
			return check_bad(c, nid, "an xattr that it has twice");
		count_name(a, p);
		before = p;
		a->at += round_up(size_of(p), 4);
		a->left -= round_up(size_of(p), 4);
	}
	return 0;
}

int check_xattrs(struct checker *c, const struct erofs_inode *i)
{
	const uint8_t *p = c->img->data + i->pos + i->head;
	struct area a = { .ids = p + EROFS_XATTR_HEADER };
	int rc;

	if (i->xattr_len == 0)
		return 0;
	a.n_ids = p[XH_SHARED_COUNT];
	if (EROFS_XATTR_HEADER + 4 * a.n_ids > i->xattr_len)
		return check_bad(c, i->nid, "more shared xattrs than room");
	if (!check_is_zero(p, XH_SHARED_COUNT) ||
	    !check_is_zero(p + XH_SHARED_COUNT + 1,
			   EROFS_XATTR_HEADER - XH_SHARED_COUNT - 1))
		return check_bad(c, i->nid, "unknown fields before its xattrs");
	a.at = a.ids + (size_t)4 * a.n_ids;
	a.left = i->xattr_len - EROFS_XATTR_HEADER - 4 * a.n_ids;
	rc = check_ids(c, i->nid, &a);
	if (rc == 0)
		rc = check_own(c, i->nid, &a);
	if (rc == 0 && a.names > NAMES_MAX)
		return check_bad(c, i->nid, "more names of xattrs than fit");
	return rc;
}
