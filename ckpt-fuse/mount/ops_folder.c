// SPDX-License-Identifier: Apache-2.0
/* Folders, and what changes names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/ops.h"
#include "common/clock.h"
#include "common/log.h"

#define KNOWN_BY_LOOKUP 0xffffffffu /* readdir(3) of a name without a node */

/* --------------------------------------------------------------------- lists --- */

struct folder_listing {
	struct folder_list *list;
	struct listed_list *told;
};

static int add_entry(void *arg, const struct ckpt_entry *e, struct error *err)
{
	/* A file hides a folder of its name. */
	const struct folder_listing *f = arg;
	struct folder_list *l = f->list;

	listed_add(f->told, e);
	if (e->is_folder && l->n &&
	    strcmp(l->entries[l->n - 1].name, e->name) == 0)
		return 0;
	return folder_list_add(l, e->name, e->is_folder) < 0 ? error_nomem(err)
							     : 0;
}

struct own_files {
	struct folder_list *list;
	size_t n_stored;
	int rc;
};

static bool is_listed(const struct own_files *o, const char *name)
{
	for (size_t i = 0; i < o->n_stored; i++)
		if (strcmp(o->list->entries[i].name, name) == 0)
			return true;
	return false;
}

/* Files that are written for the first time are in no store yet.  That one is there is
 * all that is looked at: its lock may be held for long. */
static void add_own(void *arg, struct ckpt_node *n)
{
	struct own_files *o = arg;

	if (!n->is_folder && (n->n_writers || node_loss(n, NULL) < 0) &&
	    !is_listed(o, node_name(n)) && o->rc == 0)
		o->rc = folder_list_add(o->list, node_name(n), false);
}

static int list(struct ckpt_mount *m, struct ckpt_node *n,
		struct folder_list *l, struct error *err)
{
	struct own_files own = { .list = l };
	struct folder_listing f = { .list = l };
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(&m->nodes, n, &path);

	if (rc < 0)
		return rc;
	f.told = listed_begin(m->listed, path.data);
	rc = ckpt_list(m->store, path.data, add_entry, &f, err);
	listed_end(m->listed, f.told, rc, clock_now_ns());
	if (rc < 0)
		return rc;
	own.n_stored = l->n;
	nodes_each(&m->nodes, n, add_own, &own);
	return own.rc;
}

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *n = node_get(&m->nodes, ino);
	struct handle *h =
		n ? handle_new(&m->handles, HANDLE_FOLDER, n, NULL) : NULL;
	struct error err = ERROR_INIT;
	int rc;

	if (!h) {
		node_put(&m->nodes, n);
		(void)fuse_reply_err(req, n ? ENOMEM : ESTALE);
		return;
	}
	rc = list(m, n, &h->list, &err);
	if (rc < 0) {
		handle_free(&m->handles, &m->nodes, h);
		ops_fail(req, "opendir", rc, &err);
		return;
	}
	fi->fh = h->id;
	(void)fuse_reply_open(req, fi);
}

/* Entry `i`, with "." and ".." before those of the list. */
static size_t put_entry(fuse_req_t req, const struct folder_list *l, size_t i,
			char *buf, size_t left)
{
	bool is_folder = i < 2 || l->entries[i - 2].is_folder;
	const char *name = i == 0   ? "."
			   : i == 1 ? ".."
				    : l->entries[i - 2].name;
	struct stat st = { .st_ino = KNOWN_BY_LOOKUP,
			   .st_mode = is_folder ? S_IFDIR : S_IFREG };

	return fuse_add_direntry(req, buf, left, name, &st, (off_t)i + 1);
}

static void reply_list(fuse_req_t req, const struct folder_list *l, size_t size,
		       off_t off)
{
	AUTO_FREE char *buf = malloc(size ? size : 1);
	size_t used = 0;

	if (!buf) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	for (size_t i = (size_t)off; i < l->n + 2; i++) {
		size_t n = put_entry(req, l, i, buf + used, size - used);

		if (n > size - used)
			break;
		used += n;
	}
	(void)fuse_reply_buf(req, buf, used);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		 struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);
	struct folder_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	struct ckpt_node *n;
	int rc;

	if (size > SESSION_DATA_MAX)
		size = SESSION_DATA_MAX;
	if (h) {
		reply_list(req, &h->list, size, off);
		return;
	}
	n = node_get(&m->nodes, ino);
	rc = n ? list(m, n, &l, &err) : -ESTALE;
	if (rc < 0)
		ops_fail(req, "readdir", rc, &err);
	else
		reply_list(req, &l, size, off);
	folder_list_fini(&l);
	node_put(&m->nodes, n);
}

void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);

	if (h)
		handle_free(&m->handles, &m->nodes, h);
	(void)fuse_reply_err(req, 0);
}

void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		  struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	unsigned int n_lost = m->later ? later_wait(m->later) : 0;
	struct error err = ERROR_INIT;

	/* Without --close=buffered all that was answered is durable. */
	if (n_lost) {
		ops_fail(req, "fsync",
			 error_set(&err, EIO,
				   "%u files that were closed are not in the "
				   "store",
				   n_lost),
			 &err);
		return;
	}
	(void)fuse_reply_err(req, 0);
}

/* ------------------------------------------------------------------- folders --- */

static int make_folder(struct ckpt_mount *m, struct ckpt_node *parent,
		       const char *name, struct ckpt_node **ret,
		       struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_node *n = NULL;
	int rc;

	if (m->cfg->read_only)
		return -EROFS;
	rc = ops_find(m, parent, name, &n, err);
	if (rc == 0) {
		node_put(&m->nodes, n);
		return -EEXIST;
	}
	if (rc == -ENOENT)
		rc = node_path_below(&m->nodes, parent, name, &path);
	if (rc == 0)
		rc = ckpt_folder_make(m->store, path.data, err);
	if (rc == 0)
		rc = ops_inherit(m, parent, path.data, err);
	if (path.data)
		listed_change(m->listed, path.data);
	if (rc < 0)
		return rc;
	*ret = node_make(&m->nodes, parent, name, true);
	return *ret ? 0 : error_nomem(err);
}

void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *p = node_get(&m->nodes, parent), *n = NULL;
	struct error err = ERROR_INIT;
	int rc = p ? make_folder(m, p, name, &n, &err) : -ESTALE;

	node_put(&m->nodes, p);
	if (rc < 0)
		ops_fail(req, "mkdir", rc, &err);
	else
		ops_reply_entry(req, m, n);
}

static void count_writers(void *arg, struct ckpt_node *n)
{
	unsigned int *n_writers = arg;

	*n_writers += n->n_writers;
}

static int remove_folder(struct ckpt_mount *m, struct ckpt_node *parent,
			 struct ckpt_node *n, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	unsigned int n_writers = 0;
	int rc;

	if (m->cfg->read_only)
		return -EROFS;
	if (!n->is_folder)
		return -ENOTDIR;
	nodes_each(&m->nodes, n, count_writers, &n_writers);
	if (n_writers)
		return -ENOTEMPTY;
	rc = node_path(&m->nodes, n, &path);
	if (rc == 0)
		rc = ckpt_folder_remove(m->store, path.data, err);
	if (path.data)
		listed_change(m->listed, path.data);
	if (rc == 0)
		node_detach(&m->nodes, n);
	return rc;
}

/* The kernel looked the name up before. */
static int with_child(fuse_req_t req, fuse_ino_t parent, const char *name,
		      int (*fn)(struct ckpt_mount *m, struct ckpt_node *parent,
				struct ckpt_node *n, struct error *err),
		      struct error *err)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *p = node_get(&m->nodes, parent), *n = NULL;
	int rc = p ? ops_find(m, p, name, &n, err) : -ESTALE;

	if (rc == 0)
		rc = fn(m, p, n, err);
	node_put(&m->nodes, n);
	node_put(&m->nodes, p);
	return rc;
}

void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct error err = ERROR_INIT;
	int rc = with_child(req, parent, name, remove_folder, &err);

	if (rc < 0)
		ops_fail(req, "rmdir", rc, &err);
	else
		(void)fuse_reply_err(req, 0);
}

/* A folder stays when the last file leaves it: in a bucket it would be gone. */
static void keep_folder(struct ckpt_mount *m, struct ckpt_node *folder)
{
	AUTO_BUF path = BUF_INIT;
	struct error err = ERROR_INIT;

	if (folder == m->nodes.root || node_path(&m->nodes, folder, &path) < 0)
		return;
	if (ckpt_folder_make(m->store, path.data, &err) < 0)
		log_warning("ckpt", "folder may be gone reason=\"%s\"",
			    err.msg);
}

/* ---------------------------------------------------------------------- files --- */

/* With the lock. */
static int leave_writer(struct ckpt_node *n, bool *ret_was_there,
			struct error *err)
{
	*ret_was_there = n->writing != NULL;
	return n->writing ? writing_move(n->writing, NULL, err) : 0;
}

static int remove_file(struct ckpt_mount *m, struct ckpt_node *parent,
		       struct ckpt_node *n, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	bool was_written;
	int rc;

	if (m->cfg->read_only)
		return -EROFS;
	if (n->is_folder)
		return -EISDIR;
	rc = node_path(&m->nodes, n, &path);
	if (rc < 0)
		return rc;
	keep_folder(m, parent);
	(void)pthread_mutex_lock(&n->lock);
	rc = leave_writer(n, &was_written, err);
	if (rc == 0)
		rc = ckpt_remove(m->store, path.data, err);
	(void)pthread_mutex_unlock(&n->lock);
	listed_change(m->listed, path.data);
	/* It may have been in no store yet. */
	if (rc == -ENOENT && (was_written || node_loss(n, NULL) < 0))
		rc = 0;
	if (rc == 0)
		node_forget_loss(&m->nodes, n);
	if (rc == 0)
		node_detach(&m->nodes, n);
	return rc;
}

void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct error err = ERROR_INIT;
	int rc = with_child(req, parent, name, remove_file, &err);

	if (rc < 0)
		ops_fail(req, "unlink", rc, &err);
	else
		(void)fuse_reply_err(req, 0);
}

/* --------------------------------------------------------------------- rename --- */

struct ops_move {
	struct ckpt_node *parent, *to_parent;
	const char *name, *to_name;
	unsigned int flags;
};

/* What was written so far is committed first: then there is something to rename. */
static int move_file(struct ckpt_mount *m, const struct ops_move *v,
		     struct ckpt_node *n, struct ckpt_node *over,
		     struct error *err)
{
	AUTO_BUF from = BUF_INIT;
	AUTO_BUF to = BUF_INIT;
	bool ignored;
	int rc = node_loss(n, err);

	if (rc == 0)
		rc = node_path(&m->nodes, n, &from);
	if (rc == 0)
		rc = node_path_below(&m->nodes, v->to_parent, v->to_name, &to);
	if (rc < 0)
		return rc;
	if (over && over != n) {
		(void)pthread_mutex_lock(&over->lock);
		rc = leave_writer(over, &ignored, err);
		(void)pthread_mutex_unlock(&over->lock);
	}
	keep_folder(m, v->parent);
	(void)pthread_mutex_lock(&n->lock);
	if (rc == 0 && n->writing)
		rc = writing_commit(n->writing, err);
	if (rc == 0)
		rc = ckpt_rename(m->store, from.data, to.data, err);
	listed_change(m->listed, from.data);
	listed_change(m->listed, to.data);
	if (rc == 0 && n->writing)
		rc = writing_move(n->writing, to.data, err);
	(void)pthread_mutex_unlock(&n->lock);
	if (rc < 0)
		return rc;
	if (over && over != n)
		node_forget_loss(&m->nodes, over);
	return node_rename(&m->nodes, n, v->to_parent, v->to_name);
}

/* Is it in the folder, at whatever depth? */
static bool is_below(const struct ckpt_node *n, const struct ckpt_node *folder)
{
	while (n && n != folder)
		n = n->parent;
	return n == folder;
}

struct ops_below {
	struct nodes *nodes;
	const struct ckpt_node *folder;
	unsigned int n_writers;
};

static void count_below(void *arg, struct ckpt_node *n)
{
	struct ops_below *b = arg;

	if (is_below(n, b->folder))
		b->n_writers += n->n_writers;
}

/* What was begun would be committed under its old name. */
static int check_unused(struct ckpt_mount *m, struct ckpt_node *n,
			struct error *err)
{
	struct ops_below b = { .nodes = &m->nodes, .folder = n };

	nodes_each(&m->nodes, NULL, count_below, &b);
	return b.n_writers ? error_set(err, EBUSY,
				       "files in the folder are being written")
			   : 0;
}

/* In place of an empty one, if there is one. */
static int move_folder(struct ckpt_mount *m, const struct ops_move *v,
		       struct ckpt_node *n, struct ckpt_node *over,
		       struct error *err)
{
	AUTO_BUF from = BUF_INIT;
	AUTO_BUF to = BUF_INIT;
	int rc;

	if (m->later)
		later_settle(m->later, NULL);
	rc = check_unused(m, n, err);

	if (rc == 0)
		rc = node_path(&m->nodes, n, &from);
	if (rc == 0)
		rc = node_path_below(&m->nodes, v->to_parent, v->to_name, &to);
	if (rc == 0 && over && over != n)
		rc = over->is_folder ? remove_folder(m, v->to_parent, over, err)
				     : -ENOTDIR;
	if (rc < 0)
		return rc;
	keep_folder(m, v->parent);
	rc = ckpt_folder_rename(m->store, from.data, to.data, err);
	listed_change_all(m->listed);
	return rc == 0 ? node_rename(&m->nodes, n, v->to_parent, v->to_name)
		       : rc;
}

static int move(struct ckpt_mount *m, const struct ops_move *v,
		struct error *err)
{
	struct ckpt_node *n = NULL, *over = NULL;
	int rc = ops_find(m, v->parent, v->name, &n, err);

	if (rc < 0)
		return rc;
	rc = ops_find(m, v->to_parent, v->to_name, &over, err);
	if (rc == -ENOENT)
		rc = 0;
	else if (rc == 0 && (v->flags & RENAME_NOREPLACE))
		rc = -EEXIST;
	else if (rc == 0 && over->is_folder && !n->is_folder)
		rc = -EISDIR;
	if (rc == 0 && n->is_folder)
		rc = n == over ? 0 : move_folder(m, v, n, over, err);
	else if (rc == 0)
		rc = move_file(m, v, n, over, err);
	node_put(&m->nodes, over);
	node_put(&m->nodes, n);
	return rc;
}

void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		fuse_ino_t to_parent, const char *to_name, unsigned int flags)
{
	struct ckpt_mount *m = mount_of(req);
	struct ops_move v = { .parent = node_get(&m->nodes, parent),
			      .to_parent = node_get(&m->nodes, to_parent),
			      .name = name,
			      .to_name = to_name,
			      .flags = flags };
	struct error err = ERROR_INIT;
	int rc = 0;

	if (flags & ~(unsigned int)RENAME_NOREPLACE)
		rc = -EINVAL;
	else if (m->cfg->read_only)
		rc = -EROFS;
	else if (!v.parent || !v.to_parent)
		rc = -ESTALE;
	if (rc == 0)
		rc = move(m, &v, &err);
	node_put(&m->nodes, v.parent);
	node_put(&m->nodes, v.to_parent);
	if (rc < 0)
		ops_fail(req, "rename", rc, &err);
	else
		(void)fuse_reply_err(req, 0);
}

/* ---------------------------------------------------------------- what is not --- */

void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent,
	      const char *name)
{
	(void)fuse_reply_err(req, EPERM);
}

void ops_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		 const char *name)
{
	(void)fuse_reply_err(req, EPERM);
}
