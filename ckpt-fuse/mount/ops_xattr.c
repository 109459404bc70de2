// SPDX-License-Identifier: Apache-2.0
/* Handles extended attributes: those stored with files and folders, and those by which the mount
 * describes a file. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/xattr.h>

#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/writers.h"
#include "common/text.h"

#define OWN_PREFIX "user.bootseer."

/* Attributes by which the mount describes a node. -ENODATA: not for this node. */

static int print_node_state(struct ckpt_node *n, struct buf *out)
{
	struct error why = ERROR_INIT;
	bool is_dirty = false, is_torn = false;
	AUTO_BUF lost = BUF_INIT;
	int rc;

	if (n->is_folder)
		return -ENODATA;
	rc = node_loss_text(n, &lost);
	if (rc != 0)
		return rc < 0 ? rc : buf_printf(out, "failed: %s", lost.data);
	(void)pthread_mutex_lock(&n->seen);
	if (n->writing) {
		rc = writing_state(n->writing, &why);
		is_dirty = writing_is_dirty(n->writing);
		is_torn = writing_is_torn(n->writing);
	}
	(void)pthread_mutex_unlock(&n->seen);
	if (rc < 0) {
		text_end_whole(why.msg);
		text_make_printable(why.msg);
		return buf_printf(out, "failed: %s", why.msg);
	}
	if (is_torn)
		return buf_puts(out,
				"failed: the program that wrote it was killed");
	return buf_puts(out, is_dirty ? "buffered" : "durable");
}

static int print_file_layout(struct ckpt_mount *m, struct ckpt_node *n,
			     struct buf *out, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc = n->is_folder ? -ENODATA : node_path(n, &path);

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

/* ---------------------------------------------------------------- that are kept --- */

/* Load the node's extended attributes, including changes not committed yet. */
static int load_node_xattrs(struct ckpt_mount *m, struct ckpt_node *n,
			    struct buf *ret, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	bool is_written;
	int rc = 0;

	(void)pthread_mutex_lock(&n->lock);
	is_written = n->writing && writing_is_dirty(n->writing);
	if (is_written)
		rc = writing_get_xattrs(n->writing, ret, err);
	(void)pthread_mutex_unlock(&n->lock);
	if (is_written)
		return rc;
	rc = node_path(n, &path);
	if (rc == -ENOENT) /* an open file that was removed */
		return 0;
	return rc == 0 ? ckpt_get_xattrs(m->store, path.data, n->is_folder, ret,
					 err)
		       : rc;
}

static int get_xattr(struct ckpt_mount *m, struct ckpt_node *n,
		     const char *name, struct buf *out, struct error *err)
{
	AUTO_BUF list = BUF_INIT;
	const void *value;
	size_t len;
	int rc;

	if (!n)
		return -ESTALE;
	if (strcmp(name, OWN_PREFIX "state") == 0)
		return print_node_state(n, out);
	if (strcmp(name, OWN_PREFIX "layout") == 0)
		return print_file_layout(m, n, out, err);
	/* Refuse other prefixes: the kernel often asks for ACLs and capabilities, which do not
	 * exist here. */
	if (strncmp(name, XATTR_NAMES, strlen(XATTR_NAMES)) != 0)
		return -EOPNOTSUPP;
	rc = load_node_xattrs(m, n, &list, err);
	if (rc == 0)
		rc = xattrs_get(list.data, list.len, name, &value, &len);
	if (rc < 0)
		return rc;
	return len ? buf_append(out, value, len) : 0;
}

/* ---------------------------------------------------------------------- changes --- */

/* The mount's own attributes cannot be set; one stored by an older version can be removed. */
static int check_change(const struct xattr_change *c)
{
	if (strncmp(c->name, XATTR_NAMES, strlen(XATTR_NAMES)) != 0)
		return -EOPNOTSUPP;
	return c->value && strncmp(c->name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0
		       ? -EPERM
		       : 0;
}

static int change_folder(struct ckpt_mount *m, struct ckpt_node *n,
			 const struct xattr_change *c, struct error *err)
{
	AUTO_PATHS_STAY stay = paths_stay(&m->nodes);
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(n, &path);

	if (rc == 0)
		rc = ckpt_change_xattr(m->store, path.data, true, c, err);
	return rc;
}

/* Rewrite a plain file as striped, because a plain object stores no extended attributes. Called
 * with the locks of writers_commit() held. */
static int change_plain(struct ckpt_mount *m, struct ckpt_node *n,
			const struct xattr_change *c, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st = node_stat(n);
	int rc = 0;

	if (!n->writing) {
		rc = node_path(n, &path);
		if (rc == 0)
			rc = ckpt_stat(m->store, path.data, &st, err);
	}
	if (rc == 0)
		rc = writers_begin(m, n,
				   &(const struct writers_how){
					   .attr = st.attr },
				   err);
	if (rc < 0)
		return rc;
	rc = writing_change_xattr(n->writing, c, err);
	if (rc == 0)
		return writers_commit(m, n, true, err);
	writers_end(n);
	return rc;
}

/* Change an attribute of a file. Called with the same locks held. */
static int change_file(struct ckpt_mount *m, struct ckpt_node *n,
		       const struct xattr_change *c, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc;

	/* The writer's commit stores the change. */
	if (n->writing && writing_is_dirty(n->writing))
		return writing_change_xattr(n->writing, c, err);
	if (n->writing)
		return change_plain(m, n, c, err);
	rc = node_path(n, &path);
	if (rc == 0)
		rc = ckpt_change_xattr(m->store, path.data, false, c, err);
	if (rc != -ENOTSUP || !c->value)
		return rc == -ENOTSUP ? -ENODATA : rc;
	return change_plain(m, n, c, err);
}

static int change_xattr(struct ckpt_mount *m, struct ckpt_node *n,
			const struct xattr_change *c, struct error *err)
{
	int rc;

	if (!n)
		return -ESTALE;
	if (m->cfg->read_only)
		return -EROFS;
	rc = check_change(c);
	if (rc < 0 || n->is_folder)
		return rc < 0 ? rc : change_folder(m, n, c, err);

	AUTO_PATHS_STAY stay = writers_lock_settled(m, n, WRITERS_IDLE);

	rc = writers_leave(m, n, false, false, err);
	if (rc == 0)
		rc = change_file(m, n, c, err);
	(void)pthread_mutex_unlock(&n->lock);
	return rc;
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
	/* Expected errors are not logged. */
	if (rc == -ENODATA || rc == -EOPNOTSUPP || rc == -EPERM)
		(void)fuse_reply_err(req, -rc);
	else
		ops_fail(req, what, rc, err);
}

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	struct error err = ERROR_INIT;
	AUTO_BUF value = BUF_INIT;
	int rc = ops_of_node(m, n, get_xattr(m, n, name, &value, &err));

	if (rc < 0)
		fail_xattr(req, "getxattr", rc, &err);
	else
		reply_xattr(req, &value, size);
}

void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	struct error err = ERROR_INIT;
	AUTO_BUF list = BUF_INIT;
	AUTO_BUF names = BUF_INIT;
	int rc = n ? load_node_xattrs(m, n, &list, &err) : -ESTALE;

	rc = ops_of_node(m, n, rc);
	if (rc == 0)
		rc = xattrs_names(list.data, list.len, &names);
	if (rc < 0)
		fail_xattr(req, "listxattr", rc, &err);
	else
		reply_xattr(req, &names, size);
}

static void reply_change(fuse_req_t req, fuse_ino_t ino,
			 const struct xattr_change *c)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	struct error err = ERROR_INIT;
	int rc = ops_of_node(m, n, change_xattr(m, n, c, &err));

	if (rc < 0)
		fail_xattr(req, "setxattr", rc, &err);
	else
		(void)fuse_reply_err(req, 0);
}

void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		  const char *value, size_t size, int flags)
{
	struct xattr_change c = { .name = name,
				  .value = value ? value : "",
				  .len = size,
				  .only_new = flags & XATTR_CREATE,
				  .only_there = flags & XATTR_REPLACE };

	reply_change(req, ino, &c);
}

void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct xattr_change c = { .name = name };

	reply_change(req, ino, &c);
}
