// SPDX-License-Identifier: Apache-2.0
/* Extended attributes: what the mount says of a file. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ckpt-fuse/mount/ops.h"

#define OWN_PREFIX "user.bootseer."

/* What the mount says by itself.  -ENODATA: it says nothing of this node. */
typedef int said_fn(struct ckpt_mount *m, struct ckpt_node *n, struct buf *out,
		    struct error *err);

static int say_state(struct ckpt_mount *m, struct ckpt_node *n, struct buf *out,
		     struct error *err)
{
	struct error why = ERROR_INIT;
	bool is_dirty = false;
	int rc = node_loss(n, &why);

	(void)m;
	(void)err;
	if (n->is_folder)
		return -ENODATA;
	(void)pthread_mutex_lock(&n->seen);
	if (rc == 0 && n->writing) {
		rc = writing_state(n->writing, &why);
		is_dirty = writing_is_dirty(n->writing);
	}
	(void)pthread_mutex_unlock(&n->seen);
	if (rc < 0)
		return buf_printf(out, "failed: %s", why.msg);
	return buf_puts(out, is_dirty ? "buffered" : "durable");
}

static int say_layout(struct ckpt_mount *m, struct ckpt_node *n,
		      struct buf *out, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc = n->is_folder ? -ENODATA : node_path(&m->nodes, n, &path);

	if (rc == 0)
		rc = ckpt_stat(m->store, path.data, &st, err);
	if (rc < 0)
		return rc == -ENOENT ? -ENODATA : rc;
	if (!st.is_striped)
		return buf_puts(out, "plain");
	return buf_printf(out,
			  "striped columns=%" PRIu32 " unit=%" PRIu64
			  " chunk=%" PRIu32 " segments=%zu generation=%" PRIu64,
			  st.columns, (uint64_t)st.chunk_size * st.unit_chunks,
			  st.chunk_size, st.n_segments, st.generation);
}

static const struct {
	const char *name;
	said_fn *say;
} said[] = {
	{ OWN_PREFIX "state", say_state },
	{ OWN_PREFIX "layout", say_layout },
};

static said_fn *find_said(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(said); i++)
		if (strcmp(name, said[i].name) == 0)
			return said[i].say;
	return NULL;
}

static int get_xattr(struct ckpt_mount *m, struct ckpt_node *n,
		     const char *name, struct buf *out, struct error *err)
{
	said_fn *say = find_said(name);

	if (!n)
		return -ESTALE;
	return say ? say(m, n, out, err) : -EOPNOTSUPP;
}

static void reply_xattr(fuse_req_t req, const struct buf *value, size_t size)
{
	if (size == 0)
		(void)fuse_reply_xattr(req, value->len);
	else if (size < value->len)
		(void)fuse_reply_err(req, ERANGE);
	else
		(void)fuse_reply_buf(req, value->data, value->len);
}

static void fail_xattr(fuse_req_t req, const char *what, int rc,
		       const struct error *err)
{
	/* Nothing that a log would have to say. */
	if (rc == -ENODATA || rc == -EOPNOTSUPP)
		(void)fuse_reply_err(req, -rc);
	else
		ops_fail(req, what, rc, err);
}

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *n = node_get(&m->nodes, ino);
	struct error err = ERROR_INIT;
	AUTO_BUF value = BUF_INIT;
	int rc = get_xattr(m, n, name, &value, &err);

	node_put(&m->nodes, n);
	if (rc < 0)
		fail_xattr(req, "getxattr", rc, &err);
	else
		reply_xattr(req, &value, size);
}
