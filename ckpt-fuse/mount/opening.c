// SPDX-License-Identifier: Apache-2.0
/* What a node's readers and writers have, and when one of them must not see the other. */
#include "ckpt-fuse/mount/opening.h"

#include <errno.h>
#include <fcntl.h>

#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/sizes.h"
#include "common/clock.h"
#include "common/log.h"

/* So often the store is asked again while writers begin and end; then they wait. */
#define LOOKS_MAX 4u

/* -------------------------------------------------------------------- writers --- */

/* A file that is written anew has the extended attributes that it had, and the layout
 * that its folder asks for. */
static int new_writing(struct ckpt_mount *m, struct ckpt_node *n,
		       const char *path, const struct ops_writer *how,
		       struct writing **ret, struct error *err)
{
	struct writing_options o = { .is_new = how->is_new, .attr = how->attr };
	struct ckpt_version version = how->version;
	AUTO_BUF xattrs = BUF_INIT;
	struct ckpt_stat ignored;
	int rc = 0;

	if (o.is_new)
		rc = ops_layout(m, n, &o.columns, err);
	if (rc == 0 && o.is_new && m->writings.compares && !version.is_known)
		rc = ops_look(m, path, &version, &ignored, err);
	if (rc == -ENOENT)
		rc = 0;
	if (rc == 0 && o.is_new && node_stat(n).xattrs_len)
		rc = ckpt_get_xattrs(m->store, path, false, &xattrs, err);
	o.xattrs = &xattrs;
	o.version = &version;
	return rc == 0 ? writing_new(&m->writings, path, &o, ret, err) : rc;
}

int ops_look(struct ckpt_mount *m, const char *path,
	     struct ckpt_version *ret_version, struct ckpt_stat *ret,
	     struct error *err)
{
	*ret_version = (struct ckpt_version){ .is_known = false };
	return m->writings.compares
		       ? ckpt_look(m->store, path, ret_version, ret, err)
		       : ckpt_stat(m->store, path, ret, err);
}

/* A writer is there whom some look at the name was to find. */
static void end_coming(struct ckpt_mount *m, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;

	if (node_path(&m->nodes, n, &path) == 0)
		coming_drop(&m->coming, path.data);
}

int ops_begin_writing(struct ckpt_mount *m, struct ckpt_node *n,
		      const struct ops_writer *o, struct error *err)
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
		rc = node_path(&m->nodes, n, &path);
		if (rc == 0)
			rc = new_writing(m, n, path.data, o, &w, err);
		if (rc == 0)
			node_set_writing(n, w);
	}
	if (rc == 0 && o->is_new)
		node_forget_loss(&m->nodes, n);
	if (rc < 0)
		return rc;
	n->n_writers++;
	n->n_steps++;
	end_coming(m, n);
	return 0;
}

/* With the lock: what was written is nobody's from now on.  What failed was told of. */
static void say_left(struct nodes *t, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;

	if (!writing_is_dirty(n->writing) ||
	    writing_state(n->writing, NULL) < 0)
		return;
	if (node_last_path(t, n, &path) == 0)
		log_warning("ckpt",
			    "not stored path=\"%s\" reason=\"the program that "
			    "wrote it was killed\"",
			    path.data);
}

/* With the lock. */
static void drop_writing(struct nodes *t, struct ckpt_node *n)
{
	struct writing *w = n->writing;

	if (n->n_writers + n->n_peekers)
		return;
	say_left(t, n);
	node_set_writing(n, NULL);
	writing_free(w);
}

/* With the lock: peekers go on with what the writers had; whoever looks the name up has
 * what is in the store.  What was never committed, because its writer was killed, is not to
 * be now. */
static int leave_to_peekers(struct nodes *t, struct ckpt_node *n,
			    struct error *err)
{
	if (!writing_is_dirty(n->writing))
		return writing_keep(n->writing, err);
	say_left(t, n);
	node_detach(t, n);
	writing_move(n->writing, NULL);
	return 0;
}

void ops_end_writing(struct nodes *t, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;
	struct error err = ERROR_INIT;

	n->n_writers--;
	n->n_steps++;
	drop_writing(t, n);
	/* Of what is lost the name says so. */
	if (!n->writing || n->n_writers || node_loss(n, NULL) < 0)
		return;
	if (leave_to_peekers(t, n, &err) < 0)
		log_warning("ckpt",
			    "readers lose their file path=\"%s\" "
			    "reason=\"%s\"",
			    node_path_shown(t, n, &path), err.msg);
}

void opening_settle_late(struct ckpt_mount *m, const struct handle *h)
{
	if (!h->is_owned && m->later)
		(void)later_settle(m->later, h->node);
}

void opening_note_write(struct handle *h)
{
	h->n_begun = writing_n_begun(h->node->writing);
	h->has_written = true;
}

void opening_disown(struct handle *h)
{
	struct ckpt_node *n = h->node;

	(void)pthread_mutex_lock(&n->lock);
	if (atomic_exchange(&h->is_owned, false))
		n->n_owned--;
	n->n_steps++;
	(void)pthread_mutex_unlock(&n->lock);
}

/* With the lock: the version that a predecessor's readers have, if it is there still. */
static int open_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_file *f;
	int rc = node_path(&m->nodes, n, &path);

	if (rc == 0)
		rc = ckpt_open(m->store, path.data, &f, err);
	/* Another node has removed it, or made a folder of that name. */
	if (rc == -ENOENT || rc == -EISDIR)
		return 0;
	/* To whoever asks, ESTALE would mean that it is another version. */
	if (rc == -ESTALE)
		return error_set(err, EIO, "'%s' changes all the time",
				 path.data);
	if (rc < 0)
		return rc;
	if (ckpt_file_bytes_id(f) != n->read_version) {
		ckpt_close(f);
		return 0;
	}
	rc = reading_new(&m->readings, f, &n->reading, err);
	if (rc < 0)
		return rc;
	node_set_stat(n, ckpt_file_stat(reading_file(n->reading)));
	return 0;
}

/* A predecessor's readers count as one, which is never closed: the kernel says of no handle
 * that it is the last.  So what they have stays, also when the readers of this process close
 * it. */
int opening_use_kept(struct ckpt_mount *m, struct ckpt_node *n,
		     struct error *err)
{
	int rc = 0;

	if (!n->is_kept || n->has_kept_use)
		return 0;
	if (!n->reading)
		rc = open_kept(m, n, err);
	n->has_kept_use =
		n->reading &&
		ckpt_file_bytes_id(reading_file(n->reading)) == n->read_version;
	if (!n->has_kept_use)
		return rc;
	n->n_readers++;
	n->n_cached++;
	sizes_set_readers(n, ckpt_file_stat(reading_file(n->reading))->size);
	return rc;
}

/* When it cannot be opened now, the version would be gone for good. */
int ops_keep_for_readers(struct ckpt_mount *m, struct ckpt_node *n,
			 struct error *err)
{
	int rc = opening_use_kept(m, n, err);
	AUTO_BUF path = BUF_INIT;

	if (rc == 0 && n->n_peekers)
		rc = writing_keep(n->writing, err);
	/* Another node has replaced it already. */
	if (rc == -ESTALE)
		return 0;
	/* Nobody can read that, so that it may go. */
	if (rc == -EBADMSG || rc == -ENOTSUP) {
		log_warning("ckpt",
			    "readers lose their file path=\"%s\" "
			    "reason=\"%s\"",
			    node_path_shown(&m->nodes, n, &path), err->msg);
		return 0;
	}
	return error_wrap(err, rc, "keep it for those that read it");
}

/* Whoever looks the name up gets another node; a writer is about to. */
static int leave_name(struct ckpt_mount *m, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;

	node_forget_loss(&m->nodes, n);
	if (node_path(&m->nodes, n, &path) == 0)
		coming_add(&m->coming, path.data, clock_now_ns());
	node_detach(&m->nodes, n);
	return -ESTALE;
}

int opening_leave_abandoned(struct ckpt_mount *m, struct ckpt_node *n,
			    bool is_new, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = is_new ? 0 : node_loss(n, err);

	if (rc < 0)
		return rc;
	/* What its readers have is not what has the name. */
	if (n->writing && !node_is_being_changed(n) &&
	    node_path(&m->nodes, n, &path) == -ENOENT)
		return -ESTALE;
	if (!node_is_abandoned(n))
		return 0;
	rc = ops_keep_for_readers(m, n, err);
	return rc < 0 ? rc : leave_name(m, n);
}

/* To the kernel a file has one size and one set of pages: readers of a version keep
 * theirs when a file that changes is another to it, which the kernel then looks up.  So do
 * those that read what its writers had. */
int ops_leave_to_readers(struct ckpt_mount *m, struct ckpt_node *n, bool is_new,
			 struct error *err)
{
	int rc = is_new ? 0 : node_loss(n, err);

	if (rc == 0)
		rc = ops_keep_for_readers(m, n, err);
	if (rc < 0)
		return rc;
	if (!(n->n_cached || n->n_peekers || n->is_kept) ||
	    node_is_being_changed(n))
		return opening_leave_abandoned(m, n, is_new, err);
	return leave_name(m, n);
}

/* With the lock: who has it open here already knows what is there, unless he has closed
 * it and others may have written it since. */
static bool is_to_be_looked_at(const struct ckpt_node *n)
{
	if (n->writing)
		return !node_is_being_changed(n);
	return node_loss((struct ckpt_node *)(uintptr_t)n, NULL) == 0;
}

/* With the lock: what is there now, in *st, too. */
static int look_at(struct ckpt_mount *m, struct ckpt_node *n,
		   struct ckpt_version *ret_version, struct ckpt_stat *st,
		   struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(&m->nodes, n, &path);

	if (rc < 0)
		return rc;
	rc = ops_look(m, path.data, ret_version, st, err);
	if (rc == 0)
		node_set_stat(n, st);
	/* Another node has removed it, and the name is not its writers' any more. */
	if (rc == -ENOENT && n->writing) {
		listed_change(m->listed, path.data);
		node_detach(&m->nodes, n);
	}
	return rc;
}

int opening_begin_writing(struct ckpt_mount *m, struct ckpt_node *n,
			  bool is_new, struct error *err)
{
	struct ops_writer o = { .is_new = is_new };
	struct ckpt_stat st = node_stat(n);
	int rc = ops_leave_to_readers(m, n, is_new, err);

	/* Its attributes stay. */
	if (rc == 0 && is_to_be_looked_at(n)) {
		rc = look_at(m, n, &o.version, &st, err);
		o.now = is_new ? NULL : &st;
	}
	o.attr = st.attr;
	return rc == 0 ? ops_begin_writing(m, n, &o, err) : rc;
}

/* The commit of what was closed would be of half a file.  Each may take minutes: a folder that
 * is to be renamed, and all that wait for that, do not wait for it. */
struct paths_stay opening_lock_settled(struct ckpt_mount *m,
				       struct ckpt_node *n, unsigned int wants)
{
	for (unsigned int i = 0;; i++) {
		const struct paths_stay stay = paths_stay(&m->nodes);
		bool is_late, is_committed;

		(void)pthread_mutex_lock(&n->lock);
		is_late = (wants & OPENING_STORED) && m->later &&
			  later_has(m->later, n);
		is_committed = (wants & OPENING_IDLE) && n->n_committing &&
			       i < OPENING_WAITS_MAX;
		if (!is_late && !is_committed)
			return stay;
		(void)pthread_mutex_unlock(&n->lock);
		cleanup_paths_stay(&stay);
		if (is_late)
			(void)later_settle(m->later, n);
		else
			node_wait_commits(&m->nodes, n);
	}
}

int opening_commit(struct ckpt_mount *m, struct ckpt_node *n, bool has_paths,
		   struct error *err)
{
	const unsigned int n_begun = writing_n_begun(n->writing);
	int rc;

	node_begin_commit(&m->nodes, n);
	(void)pthread_mutex_unlock(&n->lock);
	if (has_paths)
		(void)pthread_rwlock_unlock(&m->nodes.paths);
	/* It stays: its writers have one that is not released.  Who begins it anew meanwhile
	 * commits that. */
	rc = writing_commit_begun(n->writing, n_begun, err);
	if (has_paths)
		(void)pthread_rwlock_rdlock(&m->nodes.paths);
	(void)pthread_mutex_lock(&n->lock);
	ops_end_writing(&m->nodes, n);
	node_end_commit(&m->nodes, n);
	return rc;
}

void opening_leave_successor(struct ckpt_mount *m, struct ckpt_node *n,
			     bool is_new)
{
	struct ckpt_node *now = node_successor(&m->nodes, n);
	struct error ignored = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;

	if (node_last_path(&m->nodes, n, &path) == 0)
		coming_add(&m->coming, path.data, clock_now_ns());
	if (!now)
		return;
	(void)pthread_mutex_lock(&now->lock);
	/* What it fails with now, the next open says. */
	(void)!ops_leave_to_readers(m, now, is_new, &ignored);
	(void)pthread_mutex_unlock(&now->lock);
	node_put(&m->nodes, now);
}

int opening_writer(struct ckpt_mount *m, struct ckpt_node *n, int flags,
		   struct error *err)
{
	int rc;

	if (m->cfg->read_only)
		return -EROFS;

	/* Only what begins anew has to wait for one that is open. */
	AUTO_PATHS_STAY stay =
		opening_lock_settled(m, n,
				     OPENING_STORED |
					     (flags & O_TRUNC ? OPENING_IDLE
							      : 0));

	rc = opening_begin_writing(m, n, flags & O_TRUNC, err);
	if (rc == 0)
		opening_own(n);
	(void)pthread_mutex_unlock(&n->lock);
	if (rc == -ESTALE || rc == -ENOENT)
		opening_leave_successor(m, n, flags & O_TRUNC);
	return rc;
}

void opening_own(struct ckpt_node *n)
{
	n->n_open++;
	n->n_owned++;
}

void opening_end_owner(struct ckpt_node *n, bool is_owned)
{
	n->n_open--;
	n->n_owned -= is_owned;
}

/* -------------------------------------------------------------------- readers --- */

/* With the lock.  Takes `f`. */
static int set_reading(struct ckpt_mount *m, struct ckpt_node *n,
		       struct ckpt_file *f, struct error *err)
{
	const uint64_t version = ckpt_file_bytes_id(f);
	int rc;

	reading_unref(n->reading);
	n->reading = NULL;
	rc = reading_new(&m->readings, f, &n->reading, err);
	node_set_read_version(&m->nodes, n, rc == 0 ? version : 0);
	return rc;
}

/* With the lock.  Takes `f`.  Who reads while it is changed has no pages of the kernel's,
 * and goes on with what the store has now. */
static int use_directly(struct ckpt_mount *m, struct ckpt_node *n,
			struct ckpt_file *f, struct reader_open *o,
			struct error *err)
{
	int rc;

	if (n->reading && ckpt_file_is_same(reading_file(n->reading), f)) {
		ckpt_close(f);
		o->reading = reading_ref(n->reading);
		return 0;
	}
	/* A successor is to know the version that the kernel has pages of. */
	if (n->n_cached)
		return reading_new(&m->readings, f, &o->reading, err);
	rc = set_reading(m, n, f, err);
	if (rc == 0)
		o->reading = reading_ref(n->reading);
	return rc;
}

/* With the lock.  Takes `f`.  -ESTALE: its readers have another version, which is another
 * file to the kernel. */
static int use_cached(struct ckpt_mount *m, struct ckpt_node *n,
		      struct ckpt_file *f, struct reader_open *o,
		      struct error *err)
{
	const struct ckpt_stat st = *ckpt_file_stat(f);
	const uint64_t id = ckpt_file_bytes_id(f);
	int rc = 0;

	/* The tag of a plain object may be the same when its bytes are not, so that only
	 * those that have it open believe it. */
	o->is_same = n->pages_id == id && (st.is_striped || n->n_cached);
	if (n->reading && ckpt_file_is_same(reading_file(n->reading), f))
		ckpt_close(f);
	else if (n->n_cached)
		rc = -ESTALE;
	else
		rc = set_reading(m, n, f, err);
	if (rc == -ESTALE)
		ckpt_close(f);
	if (rc < 0)
		return rc;
	node_set_stat(n, &st);
	/* The kernel drops the pages that it has when it gets to the answer: until this
	 * one, or another of its version, reads, others are to have it do that, too. */
	if (!o->is_same)
		n->pages_id = 0;
	n->n_cached++;
	sizes_set_readers(n, st.size);
	o->reading = reading_ref(n->reading);
	return 0;
}

/* With the lock.  Takes `f`, the version that is there now. */
static int use_version(struct ckpt_mount *m, struct ckpt_node *n,
		       const char *path, struct ckpt_file *f,
		       struct reader_open *o, struct error *err)
{
	int rc;

	o->is_direct = node_is_being_changed(n) ||
		       coming_has(&m->coming, path, clock_now_ns());
	if (n->is_kept && ckpt_file_bytes_id(f) != n->read_version) {
		ckpt_close(f);
		return -ESTALE;
	}
	rc = o->is_direct ? use_directly(m, n, f, o, err)
			  : use_cached(m, n, f, o, err);
	n->n_readers += rc == 0;
	return rc;
}

/* With the lock.  What has the name now is another node's, which the kernel would look up
 * for ESTALE, but only once: that may have lost the name, too, when the open comes. */
static int use_successor(struct ckpt_mount *m, struct ckpt_node *n,
			 struct reader_open *o, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_file *f;
	int rc = node_last_path(&m->nodes, n, &path);

	if (rc == 0)
		rc = ckpt_open(m->store, path.data, &f, err);
	if (rc == 0)
		rc = use_version(m, n, path.data, f, o, err);
	return rc == -ENOENT || rc == -EISDIR ? -ESTALE : rc;
}

/* With the lock.  A file that was removed is open still: as its readers have it.  If there
 * are none, the kernel had its name, and has asked to open that. */
static int use_removed(struct ckpt_mount *m, struct ckpt_node *n,
		       struct reader_open *o, struct error *err)
{
	if (!n->reading)
		return n->writing ? -ESTALE : use_successor(m, n, o, err);
	o->reading = reading_ref(n->reading);
	o->is_direct = n->writing || !n->n_cached;
	n->n_cached += !o->is_direct;
	n->n_readers++;
	return 0;
}

/* One look at the store, with the lock when it `waits` for writers; else -EAGAIN: some of
 * them began or ended meanwhile, so that it may be of the version before. */
static int look_and_use(struct ckpt_mount *m, struct ckpt_node *n,
			const char *path, bool waits, struct reader_open *o,
			struct error *err)
{
	const unsigned int steps = n->n_steps;
	struct ckpt_file *f;
	int rc;

	if (waits)
		(void)pthread_mutex_lock(&n->lock);
	rc = ckpt_open(m->store, path, &f, err);
	if (!waits)
		(void)pthread_mutex_lock(&n->lock);
	if (n->n_steps != steps && !waits) {
		if (rc == 0)
			ckpt_close(f);
		rc = -EAGAIN;
	}
	if (rc == 0)
		rc = use_version(m, n, path, f, o, err);
	if (rc == -ESTALE)
		node_detach(&m->nodes, n);
	/* What nobody has committed yet is read by way of its writer. */
	o->is_peeker = rc == -ENOENT && n->writing;
	if (o->is_peeker) {
		n->n_peekers++;
		rc = 0;
	}
	(void)pthread_mutex_unlock(&n->lock);
	return rc;
}

int opening_reader(struct ckpt_mount *m, struct ckpt_node *n,
		   struct reader_open *ret, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int rc = node_path(&m->nodes, n, &path);

	*ret = (struct reader_open){ .reading = NULL };
	if (rc == -ENOENT) {
		(void)pthread_mutex_lock(&n->lock);
		rc = use_removed(m, n, ret, err);
		(void)pthread_mutex_unlock(&n->lock);
		return rc;
	}
	if (rc < 0)
		return rc;
	rc = -EAGAIN;
	for (unsigned int i = 1; i <= LOOKS_MAX && rc == -EAGAIN; i++)
		rc = look_and_use(m, n, path.data, i == LOOKS_MAX, ret, err);
	return rc;
}

void opening_end_reader(struct ckpt_mount *m, struct ckpt_node *n,
			bool is_cached)
{
	(void)pthread_mutex_lock(&n->lock);
	if (is_cached && --n->n_cached == 0)
		sizes_set_readers(n, SIZE_UNKNOWN);
	if (--n->n_readers == 0) {
		reading_unref(n->reading);
		n->reading = NULL;
		node_set_read_version(&m->nodes, n, 0);
	}
	(void)pthread_mutex_unlock(&n->lock);
}

void opening_has_pages(struct handle *h)
{
	h->is_fresh = false;
	h->node->pages_id = ckpt_file_bytes_id(reading_file(h->reading));
}

void opening_end_peeker(struct nodes *t, struct ckpt_node *n)
{
	(void)pthread_mutex_lock(&n->lock);
	n->n_peekers--;
	drop_writing(t, n);
	(void)pthread_mutex_unlock(&n->lock);
}
