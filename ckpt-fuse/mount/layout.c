// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define COLUMNS_DIGITS 2u
/* Layouts that other nodes ask for are seen after this. */
#define LAYOUT_VALID_NS NS_PER_S

int layout_load_kept(struct ckpt_mount *m, struct ckpt_node *n, struct buf *ret,
		     struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = 0;

	if (!n->is_folder) {
		(void)pthread_mutex_lock(&n->lock);
		if (n->writing && writing_is_dirty(n->writing)) {
			rc = writing_get_xattrs(n->writing, ret, err);
			(void)pthread_mutex_unlock(&n->lock);
			return rc;
		}
		(void)pthread_mutex_unlock(&n->lock);
	}
	rc = node_path(&m->nodes, n, &path);
	if (rc == -ENOENT) /* it was removed, and is open */
		return 0;
	return rc == 0 ? ckpt_get_xattrs(m->store, path.data, n->is_folder, ret,
					 err)
		       : rc;
}

uint32_t layout_parse_columns(const void *value, size_t len)
{
	char text[COLUMNS_DIGITS + 1] = "";
	unsigned long n;
	char *end;

	if (len < 1 || len > COLUMNS_DIGITS)
		return 0;
	memcpy(text, value, len);
	n = strtoul(text, &end, 10);
	return *end || *text < '1' || *text > '9' || n > LAYOUT_COLUMNS_MOST
		       ? 0
		       : (uint32_t)n;
}

static int folder_columns(struct ckpt_mount *m, struct ckpt_node *folder,
			  uint32_t *ret, struct error *err)
{
	AUTO_BUF list = BUF_INIT;
	const void *value;
	int64_t now = clock_now_ns();
	bool is_known;
	size_t len;
	int rc;

	(void)pthread_mutex_lock(&folder->seen);
	is_known = folder->columns_ns &&
		   now - folder->columns_ns < LAYOUT_VALID_NS;
	*ret = folder->columns;
	(void)pthread_mutex_unlock(&folder->seen);
	if (is_known)
		return 0;
	rc = layout_load_kept(m, folder, &list, err);
	if (rc < 0)
		return rc;
	*ret = 0;
	if (xattrs_get(list.data, list.len, LAYOUT_COLUMNS_NAME, &value,
		       &len) == 0)
		*ret = layout_parse_columns(value, len);
	(void)pthread_mutex_lock(&folder->seen);
	folder->columns = *ret;
	folder->columns_ns = now;
	(void)pthread_mutex_unlock(&folder->seen);
	return 0;
}

int layout_columns(struct ckpt_mount *m, struct ckpt_node *n,
		   uint32_t *ret_columns, struct error *err)
{
	struct ckpt_node *parent = node_parent(&m->nodes, n);
	int rc = 0;

	*ret_columns = 0;
	if (parent)
		rc = folder_columns(m, parent, ret_columns, err);
	node_put(&m->nodes, parent);
	return rc;
}

int layout_inherit(struct ckpt_mount *m, struct ckpt_node *from,
		   const char *path, struct error *err)
{
	struct xattr_change c = { .name = LAYOUT_COLUMNS_NAME };
	char text[COLUMNS_DIGITS + 1];
	uint32_t columns;
	int rc = folder_columns(m, from, &columns, err);

	if (rc < 0 || !columns)
		return rc;
	(void)snprintf(text, sizeof(text), "%" PRIu32, columns % 100);
	c.value = text;
	c.len = strlen(text);
	return ckpt_change_xattr(m->store, path, true, &c, err);
}
