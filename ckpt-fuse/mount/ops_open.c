// SPDX-License-Identifier: Apache-2.0
/* Handles opening and creating files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "ckpt-fuse/mount/closing.h"
#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/readers.h"
#include "ckpt-fuse/mount/writers.h"
#include "common/clock.h"

/* Set the owner. The process may have other descriptors of the file, inherited or from before a
 * restart of the mount: count them. */
static void set_owner(fuse_req_t req, struct handle *h)
{
	struct closer c = closing_look(fuse_req_ctx(req)->pid);
	const struct ckpt_node *n = h->node;
	unsigned int n_open = 0, n_owned = 0;

	if (n->n_open > 1 || n->is_inherited) {
		n_open = closing_count_open(&c, session_device(session_of(req)),
					    n->id);
		n_owned = handles_count_owned(&mount_of(req)->handles, h,
					      c.group);
	}
	h->n_before = n_open > n_owned ? n_open - n_owned : 0;
	h->owner = c.group;
	h->is_owned = true;
}

/* Takes `h`. */
static void reply_writer(fuse_req_t req, struct handle *h, struct ckpt_node *n,
			 struct fuse_file_info *fi,
			 const struct fuse_entry_param *e)
{
	handle_add(&mount_of(req)->handles, h, n);
	fi->fh = h->id;
	set_owner(req, h);
	if (e || (fi->flags & O_TRUNC))
		writers_note_write(h);
	/* Without cached pages the file cannot be mapped and written in any order. */
	fi->direct_io = 1;
	if (!e) {
		node_open_size(session_of(req), n, SIZE_UNKNOWN);
		(void)fuse_reply_open(req, fi);
		return;
	}
	node_looked_up(n);
	(void)fuse_reply_create(req, e, fi);
}

/* Takes `h`. */
static void reply_reader(fuse_req_t req, struct handle *h, struct ckpt_node *n,
			 struct fuse_file_info *fi)
{
	handle_add(&mount_of(req)->handles, h, n);
	fi->fh = h->id;
	fi->keep_cache = h->is_cached && !h->is_fresh;
	fi->direct_io = !h->is_cached;
	if (h->is_cached)
		node_open_size(session_of(req), n,
			       ckpt_file_stat(reading_file(h->reading))->size);
	(void)fuse_reply_open(req, fi);
}

static int open_reader(struct ckpt_mount *m, struct ckpt_node *n,
		       struct handle *h, struct error *err)
{
	int64_t begun_ns = ckpt_phase_begin_call(&m->loads);
	int rc = node_loss(n, err);

	/* A closed file that is not stored yet: wait, so that it can be read. */
	if (rc == 0 && nodes_wait_commits(&m->nodes, n, true))
		rc = node_loss(n, err);
	if (rc == 0)
		rc = readers_open(m, n, h, err);
	ckpt_phase_end_call(&m->loads, &m->load_ns, begun_ns);
	return rc;
}

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE n = node_get(&m->nodes, ino);
	const bool is_writer =
		(fi->flags & O_ACCMODE) != O_RDONLY || (fi->flags & O_TRUNC);
	AUTO_FREE struct handle *h =
		handle_new(is_writer ? HANDLE_WRITER : HANDLE_READER);
	struct error err = ERROR_INIT;
	int rc = !n ? -ESTALE : h ? 0 : -ENOMEM;

	if (rc == 0)
		rc = is_writer ? writers_open(m, n, fi->flags, &err)
			       : open_reader(m, n, h, &err);
	rc = ops_of_node(m, n, rc);
	if (rc < 0)
		ops_fail(req, "open", rc, &err);
	else if (is_writer)
		reply_writer(req, steal_ptr(&h), n, fi, NULL);
	else
		reply_reader(req, steal_ptr(&h), n, fi);
}

/* Check that no file has the name. The kernel has looked it up, but its folder may have been
 * renamed since. The store also checks that the name is valid. */
static int check_name(fuse_req_t req, struct ckpt_node *parent,
		      const char *name, struct ckpt_version *ret_version,
		      struct error *err)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc = node_path_below(parent, name, &path);

	if (rc == 0 && recent_names_take(&m->absent, fuse_req_ctx(req)->pid,
					 path.data, clock_now_ns())) {
		*ret_version =
			(struct ckpt_version){ .is_known =
						       m->writings.compares };
		return 0;
	}
	if (rc == 0)
		rc = writers_look(m, path.data, ret_version, &st, err);
	if (rc == 0)
		return -EEXIST;
	return rc == -ENOENT ? 0 : rc;
}

/* Make a new node. Readers of the former file of this name, which another node has removed, keep
 * the old node. */
static struct ckpt_node *make_new_node(struct ckpt_node *parent,
				       const char *name)
{
	AUTO_NODE n = node_make(parent, name, false);

	if (!n || !node_is_peeked(n))
		return steal_ptr(&n);
	node_detach(n);
	return node_make(parent, name, false);
}

static int create_file(fuse_req_t req, struct ckpt_node *parent,
		       const char *name, mode_t mode, struct ckpt_node **ret,
		       struct error *err)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_PATHS_STAY stay = paths_stay(&m->nodes);
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct writers_how o = { .is_new = true,
				 .attr = { .mode = mode & 07777,
					   .uid = ctx->uid,
					   .gid = ctx->gid,
					   .mtime_ns = clock_wall_ns() } };
	AUTO_NODE n = NULL;
	int rc = m->cfg->read_only
			 ? -EROFS
			 : check_name(req, parent, name, &o.version, err);

	if (rc < 0)
		return rc;
	n = make_new_node(parent, name);
	if (!n)
		return error_nomem(err);
	AUTO_UNLOCK held = mutex_hold(&n->lock);

	rc = writers_begin(m, n, &o, err);
	if (rc < 0)
		return rc;
	writers_own(n);
	node_note_change(parent);
	*ret = n;
	node_use(n);
	return 0;
}

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name,
		mode_t mode, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE p = node_get(&m->nodes, parent);
	AUTO_NODE n = NULL;
	AUTO_FREE struct handle *h = handle_new(HANDLE_WRITER);
	struct error err = ERROR_INIT;
	struct fuse_entry_param e;
	int rc = !p ? -ESTALE : h ? 0 : -ENOMEM;

	if (rc == 0)
		rc = create_file(req, p, name, mode, &n, &err);
	/* ESTALE makes the kernel look the name up again, and open the existing file. */
	if (rc == -EEXIST && !(fi->flags & O_EXCL))
		rc = -ESTALE;
	if (rc == 0)
		rc = ops_entry(m, n, &e, &err);
	if (rc < 0)
		ops_fail(req, "create", rc, &err);
	else
		reply_writer(req, steal_ptr(&h), n, fi, &e);
}

static int make_empty(fuse_req_t req, struct ckpt_node *parent,
		      const char *name, mode_t mode, struct ckpt_node **ret,
		      struct error *err)
{
	struct ckpt_mount *m = mount_of(req);
	const bool is_again = nodes_was_begun(&m->nodes, session_request_id());
	AUTO_NODE n = NULL;
	int rc = create_file(req, parent, name, mode, &n, err);

	/* The previous process may have made the file and was killed before it answered. */
	if (rc == -EEXIST && is_again)
		return ops_find(m, parent, name, ret, err);
	if (rc < 0)
		return rc;
	nodes_begin_change(&m->nodes, session_request_id());
	(void)pthread_mutex_lock(&n->lock);
	writers_release(n, true);
	rc = writers_commit(m, n, false, err);
	(void)pthread_mutex_unlock(&n->lock);
	if (rc == 0)
		*ret = steal_ptr(&n);
	return rc;
}

/* Make an empty file, as tar(1) does before it sets extended attributes. */
void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       dev_t dev)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE p = node_get(&m->nodes, parent);
	AUTO_NODE n = NULL;
	struct error err = ERROR_INIT;
	int rc = p ? 0 : -ESTALE;

	(void)dev;
	if (rc == 0 && !S_ISREG(mode))
		rc = -EPERM;
	if (rc == 0)
		rc = make_empty(req, p, name, mode, &n, &err);
	if (rc < 0)
		ops_fail(req, "mknod", rc, &err);
	else
		ops_reply_entry(req, m, n);
	nodes_end_change(&m->nodes, session_request_id());
}
