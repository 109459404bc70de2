// SPDX-License-Identifier: Apache-2.0
/* Manages writers of a node's file from open to release, and its commits. ops_file.c decides which
 * close stores it. */
#include "ckpt-fuse/mount/writers.h"

#include <errno.h>
#include <fcntl.h>

#include "ckpt-fuse/mount/readers.h"
#include "common/clock.h"
#include "common/log.h"

/* Make a writing. A file that is overwritten keeps its extended attributes. */
static int new_writing(struct ckpt_mount *m, struct ckpt_node *n,
		       const char *path, const struct writers_how *how,
		       struct writing **ret, struct error *err)
{
	struct writing_options o = { .is_new = how->is_new, .attr = how->attr };
	struct ckpt_version version = how->version;
	AUTO_BUF xattrs = BUF_INIT;
	struct ckpt_stat ignored;
	int rc = 0;

	if (o.is_new && m->writings.compares && !version.is_known)
		rc = writers_look(m, path, &version, &ignored, err);
	if (rc == -ENOENT)
		rc = 0;
	if (rc == 0 && o.is_new && node_stat(n).xattrs_len)
		rc = ckpt_get_xattrs(m->store, path, false, &xattrs, err);
	o.xattrs = &xattrs;
	o.version = &version;
	return rc == 0 ? writing_new(&m->writings, path, &o, ret, err) : rc;
}

int writers_look(struct ckpt_mount *m, const char *path,
		 struct ckpt_version *ret_version, struct ckpt_stat *ret,
		 struct error *err)
{
	*ret_version = (struct ckpt_version){ .is_known = false };
	return m->writings.compares
		       ? ckpt_look(m->store, path, ret_version, ret, err)
		       : ckpt_stat(m->store, path, ret, err);
}

/* The writer that was expected (m->coming) has opened the file: drop the name from the list. */
static void forget_expected_writer(struct ckpt_mount *m, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;

	if (node_path(n, &path) == 0)
		(void)recent_names_take(&m->coming, 0, path.data, 0);
}

int writers_begin(struct ckpt_mount *m, struct ckpt_node *n,
		  const struct writers_how *o, struct error *err)
{
	const struct ckpt_version *v = o->version.is_known ? &o->version : NULL;
	AUTO_BUF path = BUF_INIT;
	struct writing *w;
	int rc = o->is_new ? 0 : node_loss(n, err);

	if (rc < 0)
		return rc;
	if (n->writing) {
		rc = o->is_new ? writing_begin_anew(n->writing, v, err) : 0;
		if (o->now)
			writing_go_on(n->writing, o->now);
	} else {
		rc = node_path(n, &path);
		if (rc == 0)
			rc = new_writing(m, n, path.data, o, &w, err);
		if (rc == 0)
			node_set_writing(n, w);
	}
	if (rc == 0 && o->is_new)
		node_forget_loss(n);
	if (rc < 0)
		return rc;
	n->n_writers++;
	n->n_steps++;
	forget_expected_writer(m, n);
	return 0;
}

/* Log that written bytes are dropped; a failed file was logged before. Called with the lock
 * held. */
static void log_dropped_bytes(struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;

	if (!writing_is_dirty(n->writing) ||
	    writing_state(n->writing, NULL) < 0)
		return;
	if (node_last_path(n, &path) == 0)
		log_warning("ckpt",
			    "not stored path=\"%s\" reason=\"the program that "
			    "wrote it was killed\"",
			    path.data);
}

/* With the lock. */
static void drop_writing(struct ckpt_node *n)
{
	struct writing *w = n->writing;

	if (n->n_writers + n->n_peekers)
		return;
	log_dropped_bytes(n);
	node_set_writing(n, NULL);
	writing_free(w);
}

/* Keep the written bytes for peekers only; a new look-up gets the store's version. A file that was
 * never committed, because its writer was killed, must not be committed now. Called with the lock
 * held. */
static int leave_writing_to_peekers(struct ckpt_node *n, struct error *err)
{
	if (!writing_is_dirty(n->writing))
		return writing_keep(n->writing, err);
	log_dropped_bytes(n);
	node_detach(n);
	writing_move(n->writing, NULL);
	return 0;
}

void writers_end(struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;
	struct error err = ERROR_INIT;

	n->n_writers--;
	n->n_steps++;
	drop_writing(n);
	/* Keep the node of a lost file, which holds the error. */
	if (!n->writing || n->n_writers || node_loss(n, NULL) < 0)
		return;
	if (leave_writing_to_peekers(n, &err) < 0)
		log_warning("ckpt",
			    "readers lose their file path=\"%s\" "
			    "reason=\"%s\"",
			    node_path_shown(n, &path), err.msg);
}

void writers_end_peeker(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->lock);

	n->n_peekers--;
	drop_writing(n);
}

void writers_settle_late(struct ckpt_mount *m, const struct handle *h)
{
	if (!h->is_owned)
		(void)nodes_wait_commits(&m->nodes, h->node, true);
}

void writers_note_write(struct handle *h)
{
	h->n_begun = writing_n_begun(h->node->writing);
	h->has_written = true;
}

void writers_own(struct ckpt_node *n)
{
	n->n_open++;
	n->n_owned++;
}

void writers_release(struct ckpt_node *n, bool is_owned)
{
	n->n_open--;
	n->n_owned -= is_owned;
}

void writers_disown(struct handle *h)
{
	struct ckpt_node *n = h->node;
	AUTO_UNLOCK held = mutex_hold(&n->lock);

	if (atomic_exchange(&h->is_owned, false))
		n->n_owned--;
	n->n_steps++;
}

/* Detach the node's name: look-ups get another node, for which a writer is expected soon. */
static int detach_name(struct ckpt_mount *m, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;

	node_forget_loss(n);
	if (node_path(n, &path) == 0)
		recent_names_add(&m->coming, 0, path.data, clock_now_ns());
	node_detach(n);
	return -ESTALE;
}

/* Before a file changes, leave its node to the readers of the old version: for the kernel a file
 * has one size and one set of pages, so the changed file must become another node, which the kernel
 * looks up. The same for readers of what the writers had. */
int writers_leave(struct ckpt_mount *m, struct ckpt_node *n, bool is_new,
		  bool to_readers, struct error *err)
{
	const bool is_read = to_readers && !node_is_being_changed(n) &&
			     (n->n_cached || n->n_peekers || n->is_kept);
	AUTO_BUF path = BUF_INIT;
	int rc = is_new ? 0 : node_loss(n, err);

	if (rc == 0 && (to_readers || node_is_abandoned(n)))
		rc = readers_keep(m, n, err);
	if (rc < 0)
		return rc;
	/* The node's version no longer has the name. */
	if (!is_read && n->writing && !node_is_being_changed(n) &&
	    node_path(n, &path) == -ENOENT)
		return -ESTALE;
	return is_read || node_is_abandoned(n) ? detach_name(m, n) : 0;
}

/* Must the store be asked for the current version? Not while the file is open for writing here,
 * unless it was closed and others may have written it since. Called with the lock held. */
static bool must_ask_store(const struct ckpt_node *n)
{
	if (n->writing)
		return !node_is_being_changed(n);
	return node_loss((struct ckpt_node *)(uintptr_t)n, NULL) == 0;
}

/* Get the current version and its attributes from the store. Called with the lock held. */
static int get_current_version(struct ckpt_mount *m, struct ckpt_node *n,
			       struct ckpt_version *ret_version,
			       struct ckpt_stat *st, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(n, &path);

	if (rc < 0)
		return rc;
	rc = writers_look(m, path.data, ret_version, st, err);
	if (rc == 0)
		node_set_stat(n, st);
	/* Another node has removed the file, so its writers lose the name. */
	if (rc == -ENOENT && n->writing) {
		listed_change(m->listed, path.data);
		node_detach(n);
	}
	return rc;
}

int writers_begin_now(struct ckpt_mount *m, struct ckpt_node *n, bool is_new,
		      struct error *err)
{
	struct writers_how o = { .is_new = is_new };
	struct ckpt_stat st = node_stat(n);
	int rc = writers_leave(m, n, is_new, true, err);

	/* An overwritten file keeps its attributes, so look at the current version. */
	if (rc == 0 && must_ask_store(n)) {
		rc = get_current_version(m, n, &o.version, &st, err);
		o.now = is_new ? NULL : &st;
	}
	o.attr = st.attr;
	return rc == 0 ? writers_begin(m, n, &o, err) : rc;
}

/* Wait for pending commits, which would otherwise store half of the new writes. A commit may take
 * minutes, so no locks are held meanwhile: the rename of a folder and requests that wait for it are
 * not delayed. */
struct nodes *writers_lock_settled(struct ckpt_mount *m, struct ckpt_node *n,
				   unsigned int wants)
{
	for (unsigned int i = 0;; i++) {
		struct nodes *stay = paths_stay(&m->nodes);
		bool is_late, is_committed;

		(void)pthread_mutex_lock(&n->lock);
		is_late = (wants & WRITERS_STORED) &&
			  nodes_count_late(&m->nodes, n);
		is_committed = (wants & WRITERS_IDLE) && n->n_committing &&
			       i < WRITERS_WAITS_MAX;
		if (!is_late && !is_committed)
			return stay;
		(void)pthread_mutex_unlock(&n->lock);
		cleanup_paths_stay(&stay);
		(void)nodes_wait_commits(&m->nodes, n, is_late);
	}
}

int writers_commit(struct ckpt_mount *m, struct ckpt_node *n, bool has_paths,
		   struct error *err)
{
	const unsigned int n_begun = writing_n_begun(n->writing);
	struct node_commit c = { .n = n };
	int rc;

	node_begin_commit(&c);
	(void)pthread_mutex_unlock(&n->lock);
	if (has_paths)
		(void)pthread_rwlock_unlock(&m->nodes.paths);
	/* The writing stays valid without the lock, because its writers are not released. If a
	 * writer begins anew meanwhile, that writer commits. */
	rc = writing_commit_begun(n->writing, n_begun, err);
	if (has_paths)
		(void)pthread_rwlock_rdlock(&m->nodes.paths);
	(void)pthread_mutex_lock(&n->lock);
	writers_end(n);
	node_end_commit(&c);
	return rc;
}

void writers_leave_successor(struct ckpt_mount *m, struct ckpt_node *n,
			     bool is_new)
{
	AUTO_NODE now = node_successor(n);
	struct error ignored = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;

	if (node_last_path(n, &path) == 0)
		recent_names_add(&m->coming, 0, path.data, clock_now_ns());
	if (!now)
		return;
	AUTO_UNLOCK held = mutex_hold(&now->lock);

	/* An error is reported by the next open. */
	(void)!writers_leave(m, now, is_new, true, &ignored);
}

int writers_open(struct ckpt_mount *m, struct ckpt_node *n, int flags,
		 struct error *err)
{
	int rc;

	if (m->cfg->read_only)
		return -EROFS;

	/* Only an open that truncates has to wait for open files. */
	AUTO_PATHS_STAY stay =
		writers_lock_settled(m, n,
				     WRITERS_STORED |
					     (flags & O_TRUNC ? WRITERS_IDLE
							      : 0));

	rc = writers_begin_now(m, n, flags & O_TRUNC, err);
	if (rc == 0)
		writers_own(n);
	(void)pthread_mutex_unlock(&n->lock);
	if (rc == -ESTALE || rc == -ENOENT)
		writers_leave_successor(m, n, flags & O_TRUNC);
	return rc;
}
