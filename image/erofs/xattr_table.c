// SPDX-License-Identifier: Apache-2.0
#include "image/erofs/xattr_table.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "image/erofs/format.h"

#define AREA_MAX (EROFS_XATTR_HEADER + 4u * (UINT16_MAX - 1))

void xattr_table_fini(struct xattr_table *xt)
{
	free(xt->all);
	free(xt->shared);
	free(xt->list);
	memset(xt, 0, sizeof(*xt));
}

/* Order of xattrs in the image: by index of the namespace, then by name. */
static int compare_names(const struct xattr *a, const struct xattr *b)
{
	const char *rest_a = a->name, *rest_b = b->name;
	int c;

	if (a->name == b->name)
		return 0;
	c = (int)erofs_xattr_index(a->name, &rest_a) -
	    (int)erofs_xattr_index(b->name, &rest_b);
	return c ? c : strcmp(rest_a, rest_b);
}

static int xattr_table_compare(const void *p, const void *q)
{
	const struct xattr *a = *(const struct xattr *const *)p;
	const struct xattr *b = *(const struct xattr *const *)q;
	int c = compare_names(a, b);

	if (c)
		return c;
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	return a->value == b->value ? 0 : memcmp(a->value, b->value, a->size);
}

static uint32_t entry_size(const struct xattr *x)
{
	const char *rest = x->name;

	(void)erofs_xattr_index(x->name, &rest);
	return (uint32_t)round_up(EROFS_XATTR_ENTRY + strlen(rest) + x->size,
				  4);
}

static int xattr_table_grow(const struct xattr ***list, size_t *cap,
			    size_t want)
{
	size_t n = *cap ? *cap : 64;
	const struct xattr **p;

	if (want <= *cap)
		return 0;
	while (n < want)
		n *= 2;
	p = realloc(*list, n * sizeof(struct xattr *));
	if (!p)
		return -ENOMEM;
	*list = p;
	*cap = n;
	return 0;
}

int xattr_table_add(struct xattr_table *xt, const struct inode *i,
		    struct error *err)
{
	const char *rest;

	for (const struct xattr *x = i->xattrs; x; x = x->next) {
		if (!erofs_xattr_index(x->name, &rest))
			return error_set(err, ENOTSUP,
					 "EROFS has no place for xattr '%.64s'",
					 x->name);
		if (xattr_table_grow(&xt->all, &xt->cap_all, xt->n_all + 1) < 0)
			return error_nomem(err);
		xt->all[xt->n_all++] = x;
	}
	return 0;
}

int xattr_table_finish(struct xattr_table *xt, struct error *err)
{
	size_t n, out = 0;

	if (xt->n_all == 0)
		return 0;
	qsort(xt->all, xt->n_all, sizeof(struct xattr *), xattr_table_compare);
	/* Equal xattrs stand together now: keep one of each set that takes less room when
	 * shared. */
	for (size_t i = 0; i < xt->n_all; i += n) {
		uint64_t size = entry_size(xt->all[i]);

		for (n = 1; i + n < xt->n_all; n++)
			if (xattr_table_compare(&xt->all[i], &xt->all[i + n]) !=
			    0)
				break;
		if (n * size > size + n * 4)
			xt->all[out++] = xt->all[i];
	}
	xt->shared = calloc(out + 1, sizeof(*xt->shared));
	if (!xt->shared)
		return error_nomem(err);
	xt->n_shared = out;
	for (size_t i = 0; i < out; i++) {
		if (xt->shared_size / 4 > UINT32_MAX)
			return error_set(err, E2BIG, "too many xattrs");
		xt->shared[i].x = xt->all[i];
		xt->shared[i].id = (uint32_t)(xt->shared_size / 4);
		xt->shared_size += entry_size(xt->all[i]);
	}
	free(xt->all);
	xt->all = NULL;
	xt->n_all = 0;
	xt->cap_all = 0;
	return 0;
}

static int compare_shared(const void *key, const void *member)
{
	const struct xattr_shared *s = member;

	return xattr_table_compare(&key, &s->x);
}

static const struct xattr_shared *find_shared(const struct xattr_table *xt,
					      const struct xattr *x)
{
	if (!xt->n_shared)
		return NULL;
	return bsearch(x, xt->shared, xt->n_shared, sizeof(*xt->shared),
		       compare_shared);
}

/* Put the inode's xattrs into `list`: shared ones first, each part sorted. */
static int xattr_table_gather(struct xattr_table *xt, const struct inode *i,
			      size_t *ret_n, size_t *ret_n_shared)
{
	size_t n = 0, n_shared = 0;

	for (const struct xattr *x = i->xattrs; x; x = x->next) {
		if (xattr_table_grow(&xt->list, &xt->cap_list, n + 1) < 0)
			return -ENOMEM;
		xt->list[n++] = x;
	}
	qsort(xt->list, n, sizeof(struct xattr *), xattr_table_compare);
	for (size_t k = 0; k < n && n_shared < EROFS_XATTR_SHARED_MAX; k++) {
		const struct xattr *x = xt->list[k];

		if (!find_shared(xt, x))
			continue;
		memmove(&xt->list[n_shared + 1], &xt->list[n_shared],
			(k - n_shared) * sizeof(struct xattr *));
		xt->list[n_shared++] = x;
	}
	*ret_n = n;
	*ret_n_shared = n_shared;
	return 0;
}

int xattr_table_size(struct xattr_table *xt, const struct inode *i,
		     uint32_t *ret, struct error *err)
{
	uint64_t size = EROFS_XATTR_HEADER;
	size_t n, n_shared;

	if (!i->xattrs) {
		*ret = 0;
		return 0;
	}
	if (xattr_table_gather(xt, i, &n, &n_shared) < 0)
		return error_nomem(err);
	size += n_shared * 4;
	for (size_t k = n_shared; k < n; k++)
		size += entry_size(xt->list[k]);
	if (size > AREA_MAX)
		return error_set(err, E2BIG,
				 "%llu bytes of xattrs, EROFS holds %u",
				 (unsigned long long)size, AREA_MAX);
	*ret = (uint32_t)size;
	return 0;
}

static int put_entry(const struct xattr *x, xattr_put_fn *put, void *arg)
{
	static const uint8_t zeros[4];
	uint8_t head[EROFS_XATTR_ENTRY];
	const char *rest = x->name;
	size_t len, pad;
	int rc;

	head[XE_INDEX] = erofs_xattr_index(x->name, &rest);
	len = strlen(rest);
	head[XE_NAME_LEN] = (uint8_t)len;
	put_le16(head + XE_SIZE, (uint16_t)x->size);
	pad = -(sizeof(head) + len + x->size) & 3;
	rc = put(arg, head, sizeof(head));
	if (rc == 0)
		rc = put(arg, rest, len);
	if (rc == 0)
		rc = put(arg, x->value, x->size);
	return rc ? rc : put(arg, zeros, pad);
}

int xattr_table_put(struct xattr_table *xt, const struct inode *i,
		    xattr_put_fn *put, void *arg, struct error *err)
{
	uint8_t head[EROFS_XATTR_HEADER] = { 0 };
	size_t n, n_shared;
	int rc;

	if (!i->xattrs)
		return 0;
	if (xattr_table_gather(xt, i, &n, &n_shared) < 0)
		return error_nomem(err);
	head[XH_SHARED_COUNT] = (uint8_t)n_shared;
	rc = put(arg, head, sizeof(head));
	for (size_t k = 0; k < n && rc == 0; k++) {
		uint8_t id[4];

		if (k >= n_shared) {
			rc = put_entry(xt->list[k], put, arg);
			continue;
		}
		put_le32(id, find_shared(xt, xt->list[k])->id);
		rc = put(arg, id, sizeof(id));
	}
	return rc;
}

int xattr_table_put_shared(const struct xattr_table *xt, xattr_put_fn *put,
			   void *arg)
{
	int rc = 0;

	for (size_t i = 0; i < xt->n_shared && rc == 0; i++)
		rc = put_entry(xt->shared[i].x, put, arg);
	return rc;
}
