// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/xattrs.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"

#define XATTR_HEAD 6u /* header: lengths of the name and the value */

struct xattr_entry {
	const char *name;
	size_t name_len;
	const uint8_t *value;
	/* at: offset of the entry; size: its bytes */
	size_t value_len, at, size;
};

static bool is_xattr_name_valid(const char *name, size_t len)
{
	return len > strlen(XATTR_NAMES) && len <= XATTR_NAME_MAX_LEN &&
	       memcmp(name, XATTR_NAMES, strlen(XATTR_NAMES)) == 0 &&
	       !memchr(name, '\0', len);
}

static int compare_xattr_names(const char *a, size_t a_len, const char *b,
			       size_t b_len)
{
	int by_bytes = memcmp(a, b, a_len < b_len ? a_len : b_len);

	if (by_bytes)
		return by_bytes;
	return a_len < b_len ? -1 : a_len > b_len;
}

/* Parse the entry at `at`; false: there is no complete entry. */
static bool parse_entry_at(const void *list, size_t len, size_t at,
			   struct xattr_entry *ret)
{
	const uint8_t *p;
	uint64_t size;

	/* Compare lengths first: an empty list may be NULL. */
	if (at > len || len - at < XATTR_HEAD)
		return false;
	p = (const uint8_t *)list + at;
	*ret = (struct xattr_entry){ .name = (const char *)p + XATTR_HEAD,
				     .name_len = get_le16(p),
				     .value_len = get_le32(p + 2),
				     .at = at };
	size = (uint64_t)XATTR_HEAD + ret->name_len + ret->value_len;
	if (size > len - at)
		return false;
	ret->value = p + XATTR_HEAD + ret->name_len;
	ret->size = (size_t)size;
	return true;
}

bool xattrs_are_valid(const void *list, size_t len)
{
	struct xattr_entry e, before = { .name = "" };
	size_t at = 0;

	if (len > XATTRS_MAX)
		return false;
	while (at < len) {
		if (!parse_entry_at(list, len, at, &e) ||
		    !is_xattr_name_valid(e.name, e.name_len) ||
		    compare_xattr_names(before.name, before.name_len, e.name,
					e.name_len) >= 0)
			return false;
		before = e;
		at += e.size;
	}
	return true;
}

/* Find an entry. True: *ret is the entry; false: ret->at is where to insert it. */
static bool find_entry(const void *list, size_t len, const char *name,
		       struct xattr_entry *ret)
{
	size_t at = 0;

	while (parse_entry_at(list, len, at, ret)) {
		int order = compare_xattr_names(ret->name, ret->name_len, name,
						strlen(name));

		if (order >= 0)
			return order == 0;
		at += ret->size;
	}
	ret->at = at;
	return false;
}

int xattrs_get(const void *list, size_t len, const char *name, const void **ret,
	       size_t *ret_len)
{
	struct xattr_entry e;

	if (!find_entry(list, len, name, &e))
		return -ENODATA;
	*ret = e.value;
	*ret_len = e.value_len;
	return 0;
}

static int put_entry(struct buf *out, const struct xattr_change *c)
{
	uint8_t head[XATTR_HEAD];
	int rc;

	put_le16(head, (uint16_t)strlen(c->name));
	put_le32(head + 2, (uint32_t)c->len);
	rc = buf_append(out, head, sizeof(head));
	if (rc == 0)
		rc = buf_append(out, c->name, strlen(c->name));
	return rc == 0 ? buf_append(out, c->value, c->len) : rc;
}

int xattrs_change(struct buf *list, const struct xattr_change *c,
		  struct error *err)
{
	AUTO_BUF out = BUF_INIT;
	struct xattr_entry e;
	size_t size = XATTR_HEAD + strlen(c->name) + c->len, rest;
	bool is_there;
	int rc;

	if (!is_xattr_name_valid(c->name, strlen(c->name)))
		return -EOPNOTSUPP;
	is_there = find_entry(list->data, list->len, c->name, &e);
	rest = e.at + (is_there ? e.size : 0);
	if (!is_there && (!c->value || c->only_there))
		return -ENODATA;
	if (is_there && c->only_new)
		return -EEXIST;
	if (c->value && (c->len > XATTRS_MAX ||
			 list->len - (rest - e.at) + size > XATTRS_MAX))
		return error_set(err, ENOSPC,
				 "a file has %u KiB of extended attributes at "
				 "most",
				 XATTRS_MAX / 1024);
	rc = e.at ? buf_append(&out, list->data, e.at) : 0;
	if (rc == 0 && c->value)
		rc = put_entry(&out, c);
	if (rc == 0 && rest < list->len)
		rc = buf_append(&out, list->data + rest, list->len - rest);
	if (rc < 0)
		return error_nomem(err);
	buf_reset(list);
	rc = out.len ? buf_append(list, out.data, out.len) : 0;
	return rc < 0 ? error_nomem(err) : 0;
}

int xattrs_names(const void *list, size_t len, struct buf *out)
{
	struct xattr_entry e;

	for (size_t at = 0; parse_entry_at(list, len, at, &e); at += e.size)
		if (buf_append(out, e.name, e.name_len) < 0 ||
		    buf_append(out, "", 1) < 0)
			return -ENOMEM;
	return 0;
}
