// SPDX-License-Identifier: Apache-2.0
/* Handles requests about folders and changes of names; ops_list.c has lists. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/readers.h"
#include "ckpt-fuse/mount/writers.h"
#include "common/array.h"
#include "common/log.h"

/* --------------------------------------------------------------- done before --- */

/* Was this request begun by the previous process? It may have made the change before it was killed,
 * so what is found now may be its own work. */
static bool was_change_begun(struct ckpt_mount *m)
{
	return nodes_was_begun(&m->nodes, session_request_id());
}

static void begin_folder_change(struct ckpt_mount *m)
{
	nodes_begin_change(&m->nodes, session_request_id());
}

/* Call after the request was answered. */
static void end_folder_change(struct ckpt_mount *m)
{
	nodes_end_change(&m->nodes, session_request_id());
}

/* The name is gone as requested, by the previous process, which may have died before it noted that:
 * detach the node. */
static void finish_removal(struct ckpt_node *parent, const char *name)
{
	AUTO_NODE n = node_find(parent, name);

	if (!n)
		return;
	node_forget_loss(n);
	node_detach(n);
}

/* ------------------------------------------------------------------- folders --- */

static int make_folder(struct ckpt_mount *m, struct ckpt_node *parent,
		       const char *name, struct ckpt_node **ret,
		       struct error *err)
{
	AUTO_PATHS_STAY stay = paths_stay(&m->nodes);
	AUTO_BUF path = BUF_INIT;
	AUTO_NODE n = NULL;
	bool is_ours;
	int rc;

	if (m->cfg->read_only)
		return -EROFS;
	rc = ops_find(m, parent, name, &n, err);
	is_ours = rc == 0 && n->is_folder && was_change_begun(m);
	if (rc == 0 && !is_ours)
		return -EEXIST;
	if (rc == 0 || rc == -ENOENT)
		rc = node_path_below(parent, name, &path);
	if (rc < 0)
		return rc;
	begin_folder_change(m);
	rc = ckpt_folder_make(m->store, path.data, err);
	if (rc == -EEXIST && is_ours)
		rc = 0;
	listed_change(m->listed, path.data);
	if (rc < 0)
		return rc;
	*ret = node_make(parent, name, true);
	if (!*ret)
		return error_nomem(err);
	node_note_change(*ret);
	node_note_change(parent);
	return 0;
}

void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE p = node_get(&m->nodes, parent);
	AUTO_NODE n = NULL;
	struct error err = ERROR_INIT;
	int rc = p ? make_folder(m, p, name, &n, &err) : -ESTALE;

	if (rc < 0)
		ops_fail(req, "mkdir", rc, &err);
	else
		ops_reply_entry(req, m, n);
	end_folder_change(m);
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
	rc = node_path(n, &path);
	if (rc == 0)
		rc = ckpt_folder_remove(m->store, path.data, err);
	if (path.data)
		listed_change(m->listed, path.data);
	if (rc == 0)
		node_detach(n);
	return rc;
}

/* Remove a name, whose node exists because the kernel has looked it up. */
static void remove_child(fuse_req_t req, fuse_ino_t parent, const char *name,
			 const char *what,
			 int (*fn)(struct ckpt_mount *m,
				   struct ckpt_node *parent,
				   struct ckpt_node *n, struct error *err))
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE p = node_get(&m->nodes, parent);
	AUTO_NODE n = NULL;
	struct error err = ERROR_INIT;
	bool is_again = was_change_begun(m);
	int rc;

	for (unsigned int i = 0;; i++) {
		(void)pthread_rwlock_rdlock(&m->nodes.paths);
		rc = p ? ops_find(m, p, name, &n, &err) : -ESTALE;
		if (rc < 0 || !n->n_committing || i == WRITERS_WAITS_MAX)
			break;
		(void)pthread_rwlock_unlock(&m->nodes.paths);
		(void)nodes_wait_commits(&m->nodes, n, false);
		node_put(steal_ptr(&n));
	}
	if (rc == 0) {
		begin_folder_change(m);
		rc = fn(m, p, n, &err);
	}
	if (rc == -ENOENT && is_again) {
		finish_removal(p, name);
		rc = 0;
	}
	if (rc == 0)
		node_note_change(p);
	(void)pthread_rwlock_unlock(&m->nodes.paths);
	ops_reply(req, NULL, what, rc, &err);
	end_folder_change(m);
}

void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_child(req, parent, name, "rmdir", remove_folder);
}

/* Keep a folder whose last file is removed: in a bucket it would vanish. */
static void keep_folder(struct ckpt_mount *m, struct ckpt_node *folder)
{
	AUTO_BUF path = BUF_INIT;
	struct error err = ERROR_INIT;
	int rc;

	if (folder == m->nodes.root || node_path(folder, &path) < 0)
		return;
	rc = ckpt_folder_make(m->store, path.data, &err);
	if (rc < 0 && rc != -EEXIST)
		log_warning("ckpt",
			    "folder may be gone path=\"%s\" reason=\"%s\"",
			    path.data, err.msg);
}

/* ---------------------------------------------------------------------- files --- */

static int remove_file(struct ckpt_mount *m, struct ckpt_node *parent,
		       struct ckpt_node *n, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc;

	if (m->cfg->read_only)
		return -EROFS;
	if (n->is_folder)
		return -EISDIR;
	rc = node_path(n, &path);
	if (rc < 0)
		return rc;
	keep_folder(m, parent);
	AUTO_UNLOCK held = mutex_hold(&n->lock);

	rc = readers_keep(m, n, err);
	if (rc < 0)
		return rc;
	/* Unstored bytes are dropped if the name is removed, and stay with the writers if that
	 * fails. */
	if (n->writing)
		writing_begin_move(n->writing);
	rc = ckpt_remove(m->store, path.data, err);
	if (n->writing)
		writing_end_move(n->writing, rc == 0 || rc == -ENOENT, NULL);
	listed_change(m->listed, path.data);
	/* The file may never have been stored. */
	if (rc == -ENOENT && (n->writing || node_loss(n, NULL) < 0))
		rc = 0;
	if (rc == 0)
		node_forget_loss(n);
	/* The next writer to take the lock finds that the node has no name. */
	if (rc == 0)
		node_detach(n);
	return rc;
}

void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_child(req, parent, name, "unlink", remove_file);
}

/* --------------------------------------------------------------------- rename --- */

struct ops_move {
	struct ckpt_node *parent, *to_parent;
	const char *name, *to_name;
	unsigned int flags;
	bool is_again; /* the previous process had begun it */
};

/* Rename a file in the store. Called with the locks of both nodes held. No commit under either name
 * may come between the last commit and the rename, nor one under the wrong name after it; a failure
 * leaves both as they were. */
static int rename_stored(struct ckpt_mount *m, struct ckpt_node *n,
			 struct ckpt_node *over, const char *from,
			 const char *to, struct error *err)
{
	struct writing *w = n->writing, *o = over ? over->writing : NULL;
	AUTO_FREE char *moved = strdup(to);
	int rc = moved ? 0 : error_nomem(err);

	if (w)
		writing_begin_move(w);
	/* Commit first, so that there is an object to rename. */
	if (rc == 0 && w && node_is_being_changed(n))
		rc = writing_commit_whole(w, err);
	if (rc == 0) {
		if (o)
			writing_begin_move(o);
		begin_folder_change(m);
		rc = ckpt_rename(m->store, from, to, err);
		if (o)
			writing_end_move(o, rc == 0, NULL);
	}
	if (w)
		writing_end_move(w, rc == 0,
				 rc == 0 ? steal_ptr(&moved) : NULL);
	return rc;
}

/* Rename a file; no folder may be renamed meanwhile. `over`, the node with the new name, may be
 * NULL. The two locks cannot deadlock, because the kernel runs one rename at a time on a folder's
 * names. */
static int move_file(struct ckpt_mount *m, const struct ops_move *v,
		     struct ckpt_node *n, struct ckpt_node *over,
		     struct error *err)
{
	AUTO_BUF from = BUF_INIT;
	AUTO_BUF to = BUF_INIT;
	int rc = node_loss(n, err);

	if (rc == 0)
		rc = node_path(n, &from);
	if (rc == 0)
		rc = node_path_below(v->to_parent, v->to_name, &to);
	if (rc < 0)
		return rc;
	keep_folder(m, v->parent);
	AUTO_UNLOCK held = mutex_hold(&n->lock);
	AUTO_UNLOCK held_over = over ? mutex_hold(&over->lock) : NULL;

	if (over)
		rc = readers_keep(m, over, err);
	if (rc == 0)
		rc = rename_stored(m, n, over, from.data, to.data, err);
	listed_change(m->listed, from.data);
	listed_change(m->listed, to.data);
	if (rc == 0 && over)
		node_forget_loss(over);
	if (rc == 0)
		node_rename(n, v->to_parent, v->to_name);
	return rc;
}

/* Is the node below the folder, at any depth? */
static bool is_below(const struct ckpt_node *n, const struct ckpt_node *folder)
{
	while (n && n != folder)
		n = n->parent;
	return n == folder;
}

/* References to the files below a folder that are open for writing, or for reading as their writers
 * had them. */
struct ops_below {
	const struct ckpt_node *folder;
	struct ckpt_node **files;
	size_t n, cap;
	int rc;
};

static void add_file_in_use(void *arg, struct ckpt_node *n)
{
	struct ops_below *b = arg;

	if (b->rc < 0 || !(n->n_writers || n->n_peekers) ||
	    !is_below(n, b->folder))
		return;
	b->rc = array_grow(&b->files, b->n, &b->cap, 16);
	if (b->rc < 0)
		return;
	n->n_users++; /* like node_use(), whose lock is held already */
	b->files[b->n++] = n;
}

static void below_fini(struct ops_below *b)
{
	for (size_t i = 0; i < b->n; i++)
		node_put(b->files[i]);
	free((void *)b->files);
}

/* Find these files. None may still be written, since it would be committed under its old name. A
 * closed one counts as done, even if the kernel has not released it yet. */
static int check_folder_unused(struct ckpt_mount *m, struct ops_below *b,
			       struct error *err)
{
	nodes_each(&m->nodes, NULL, add_file_in_use, b);
	if (b->rc < 0)
		return error_nomem(err);
	for (size_t i = 0; i < b->n; i++)
		if (node_is_changed_now(b->files[i]))
			return error_set(err, EBUSY,
					 "files in the folder are being "
					 "written");
	return 0;
}

/* Give a writing its new path. The rename is done and cannot fail: if memory is short, the file has
 * no name any more, and a later look-up asks the store. Called with the lock held. */
static void move_writing(struct ckpt_mount *m, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(n, &path);

	if (rc < 0 && rc != -ENOENT)
		node_detach(n);
	if (rc != -ENOENT)
		writing_move(n->writing, rc == 0 ? buf_steal(&path) : NULL);
}

/* Give the files below a renamed folder their new paths: a program that opens one before its
 * release shares the writing. */
static void move_writings_below(struct ckpt_mount *m, const struct ops_below *b)
{
	for (size_t i = 0; i < b->n; i++) {
		struct ckpt_node *n = b->files[i];

		AUTO_UNLOCK held = mutex_hold(&n->lock);

		if (n->writing)
			move_writing(m, n);
	}
}

/* Rename a folder, possibly over an empty one; no other name may change meanwhile. */
static int move_unused_folder(struct ckpt_mount *m, const struct ops_move *v,
			      struct ckpt_node *n, struct ckpt_node *over,
			      struct error *err)
{
	struct ops_below b = { .folder = n };
	AUTO_BUF from = BUF_INIT;
	AUTO_BUF to = BUF_INIT;
	int rc = check_folder_unused(m, &b, err);

	if (rc == 0)
		rc = node_path(n, &from);
	if (rc == 0)
		rc = node_path_below(v->to_parent, v->to_name, &to);
	if (rc == 0 && over && over != n && !over->is_folder)
		rc = -ENOTDIR;
	/* On a repeated request the folder's entries are those moved by the first attempt. */
	else if (rc == 0 && over && over != n && !v->is_again)
		rc = remove_folder(m, v->to_parent, over, err);
	if (rc == 0) {
		begin_folder_change(m);
		keep_folder(m, v->parent);
		rc = ckpt_folder_rename(m->store, from.data, to.data, err);
		listed_change_all(m->listed);
	}
	if (rc == 0) {
		node_rename(n, v->to_parent, v->to_name);
		move_writings_below(m, &b);
	}
	below_fini(&b);
	return rc;
}

/* Finish a rename begun by the previous process: if nothing has the old name, the file with the new
 * name is the renamed one. -ENOENT: nothing has the new name. */
static int finish_move(struct ckpt_mount *m, const struct ops_move *v,
		       struct error *err)
{
	AUTO_NODE n = NULL;
	AUTO_NODE moved = NULL;
	int rc = ops_find(m, v->to_parent, v->to_name, &moved, err);

	if (rc < 0)
		return rc;
	/* The previous process may have died before it noted the rename, by which the kernel knows
	 * the node. */
	n = node_find(v->parent, v->name);
	if (n) {
		node_forget_loss(moved);
		node_rename(n, v->to_parent, v->to_name);
	}
	return 0;
}

/* Find the nodes of both names, and check that one may be renamed to the other; no folder may be
 * renamed meanwhile. 0 and no node: the previous process has done the rename. */
static int find_nodes_to_rename(struct ckpt_mount *m, const struct ops_move *v,
				struct ckpt_node **ret,
				struct ckpt_node **ret_over, struct error *err)
{
	int rc = ops_find(m, v->parent, v->name, ret, err);

	if (rc == -ENOENT && v->is_again)
		return finish_move(m, v, err);
	if (rc < 0)
		return rc;
	rc = ops_find(m, v->to_parent, v->to_name, ret_over, err);
	if (rc == -ENOENT)
		return 0;
	if (rc == 0 && (v->flags & RENAME_NOREPLACE) && !v->is_again)
		return -EEXIST;
	if (rc == 0 && (*ret_over)->is_folder && !(*ret)->is_folder)
		return -EISDIR;
	return rc;
}

/* Find a file that is being committed, among those of a folder, the one that is renamed, and the
 * one that it replaces; returns a reference, NULL: none. */
static struct ckpt_node *find_file_being_committed(struct ckpt_mount *m,
						   struct ckpt_node *n,
						   struct ckpt_node *over)
{
	struct ops_below b = { .folder = n };
	struct ckpt_node *c = NULL;

	if (n->is_folder)
		nodes_each(&m->nodes, NULL, add_file_in_use, &b);
	else if (n->n_committing)
		c = n;
	else if (over && over->n_committing)
		c = over;
	for (size_t i = 0; i < b.n; i++)
		if (b.files[i]->n_committing)
			c = b.files[i];
	if (c)
		node_use(c);
	below_fini(&b);
	return c;
}

/* Commit a file before its rename. No folder may be renamed, except during the commit. 1: it was
 * committed, and names may have changed. */
static int store_written(struct ckpt_mount *m, struct ckpt_node *n,
			 struct error *err)
{
	AUTO_UNLOCK held = mutex_hold(&n->lock);
	int rc;

	if (!node_is_being_changed(n) || !writing_is_dirty(n->writing))
		return 0;
	n->n_writers++;
	rc = writers_commit(m, n, true, err);
	return rc < 0 ? rc : 1;
}

/* The nodes of a rename, looked up while no folder is renamed, or for a folder, while no other name
 * changes. Pending commits are waited for without a lock, a few times. */
struct found_names {
	struct ckpt_node *n, *over;
	bool is_alone;
};

/* True: the names must be looked up again; the lock was released. */
static bool must_look_again(struct ckpt_mount *m, struct found_names *f,
			    bool may_wait, int *rc, struct error *err)
{
	AUTO_NODE c =
		may_wait ? find_file_being_committed(m, f->n, f->over) : NULL;
	const bool is_folder = f->n->is_folder;
	/* A closed file must be stored before it is renamed: otherwise the next process would take
	 * it for lost. */
	bool is_late = is_folder ? !f->is_alone
				 : nodes_count_late(&m->nodes, f->n) > 0;

	if (!c && !is_late && !is_folder && may_wait) {
		*rc = store_written(m, f->n, err);
		if (*rc <= 0)
			return false;
	} else if (!c && !is_late) {
		return false;
	}
	*rc = 0;
	(void)pthread_rwlock_unlock(&m->nodes.paths);
	f->is_alone = is_folder;
	if (c)
		(void)nodes_wait_commits(&m->nodes, c, false);
	if (is_late)
		(void)nodes_wait_commits(&m->nodes, is_folder ? NULL : f->n,
					 true);
	node_put(steal_ptr(&f->over));
	node_put(steal_ptr(&f->n));
	return true;
}

static int move_name(struct ckpt_mount *m, struct ops_move *v,
		     struct error *err)
{
	struct found_names f = { .n = NULL };
	int rc;

	v->is_again = was_change_begun(m);
	for (unsigned int i = 0;; i++) {
		if (f.is_alone)
			(void)pthread_rwlock_wrlock(&m->nodes.paths);
		else
			(void)pthread_rwlock_rdlock(&m->nodes.paths);
		rc = find_nodes_to_rename(m, v, &f.n, &f.over, err);
		if (rc < 0 || !f.n ||
		    !must_look_again(m, &f, i < WRITERS_WAITS_MAX, &rc, err))
			break;
	}
	if (rc == 0 && f.n && f.n->is_folder)
		rc = f.n == f.over ? 0
				   : move_unused_folder(m, v, f.n, f.over, err);
	else if (rc == 0 && f.n)
		rc = move_file(m, v, f.n, f.over != f.n ? f.over : NULL, err);
	(void)pthread_rwlock_unlock(&m->nodes.paths);
	node_put(f.over);
	node_put(f.n);
	return rc;
}

void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		fuse_ino_t to_parent, const char *to_name, unsigned int flags)
{
	struct ckpt_mount *m = mount_of(req);
	AUTO_NODE p = node_get(&m->nodes, parent);
	AUTO_NODE to_p = node_get(&m->nodes, to_parent);
	struct ops_move v = { .parent = p,
			      .to_parent = to_p,
			      .name = name,
			      .to_name = to_name,
			      .flags = flags };
	struct error err = ERROR_INIT;
	int rc = 0;

	if (flags & ~(unsigned int)RENAME_NOREPLACE)
		rc = -EINVAL;
	else if (m->cfg->read_only)
		rc = -EROFS;
	else if (!p || !to_p)
		rc = -ESTALE;
	if (rc == 0)
		rc = move_name(m, &v, &err);
	if (rc == 0) {
		node_note_change(p);
		node_note_change(to_p);
	}
	ops_reply(req, NULL, "rename", rc, &err);
	end_folder_change(m);
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
