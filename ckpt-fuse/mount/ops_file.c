// SPDX-License-Identifier: Apache-2.0
/* Handles reads and writes of open files, and decides when they are stored. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "ckpt-fuse/mount/closing.h"
#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/readers.h"
#include "ckpt-fuse/mount/writers.h"
#include "common/log.h"

/* ---------------------------------------------------------------------- bytes --- */

/* Open the file again for a handle of the previous process, unless another version has replaced
 * it. */
static int reopen_reader(struct ckpt_mount *m, fuse_ino_t ino, uint64_t fh,
			 struct reading **ret, struct error *err)
{
	AUTO_NODE n = node_get(&m->nodes, ino);
	int rc;

	if (!n)
		return -ESTALE;
	AUTO_UNLOCK held = mutex_hold(&n->lock);

	rc = readers_use_kept(m, n, err);
	if (rc == 0 && n->reading && handle_is_of(fh, n->reading))
		*ret = reading_ref(n->reading);
	else if (rc == 0)
		rc = ops_is_gone(err);
	return rc;
}

/* The buffers of the answer to a read. */
struct read_answer {
	/* the reading of `loan`, with a reference: the file may be closed as soon as the kernel has
	 * the answer */
	struct reading *reading;
	struct reading_loan loan;
	char *copy; /* bytes of a file that is being written */
};

static void answer_fini(struct read_answer *a)
{
	if (a->reading)
		reading_return(a->reading, &a->loan);
	reading_unref(a->reading);
	free(a->copy);
}

static int64_t read_written(struct handle *h, uint64_t off, size_t size,
			    struct read_answer *a, struct error *err)
{
	int64_t n;

	a->copy = malloc(size ? size : 1);
	if (!a->copy)
		return error_nomem(err);
	n = writing_read(h->node->writing, off, a->copy, size, err);
	a->loan.n = 1;
	a->loan.parts[0] = (struct iovec){ .iov_base = a->copy,
					   .iov_len = n > 0 ? (size_t)n : 0 };
	return n;
}

static int64_t read_handle(struct ckpt_mount *m, fuse_ino_t ino, uint64_t fh,
			   uint64_t off, size_t size, struct read_answer *a,
			   struct error *err)
{
	struct handle *h = handle_get(&m->handles, fh);
	int rc = 0;

	if (h && h->kind != HANDLE_READER)
		return read_written(h, off, size, a, err);
	if (!h && handle_kind_of(fh) != HANDLE_READER)
		return error_set(err, EIO,
				 "what was written was lost when "
				 "the mount was restarted");
	if (h && h->is_fresh)
		readers_have_pages(h);
	if (h)
		a->reading = reading_ref(h->reading);
	else
		rc = reopen_reader(m, ino, fh, &a->reading, err);
	if (rc < 0)
		return rc;
	return reading_lend(a->reading, off, size, &a->loan, err);
}

static struct ckpt_node *node_of_handle(struct ckpt_mount *m, uint64_t fh)
{
	struct handle *h = handle_get(&m->handles, fh);

	return h ? h->node : NULL;
}

void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
	      struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	int64_t begun_ns = ckpt_phase_begin_call(&m->loads);
	struct read_answer a = { .reading = NULL };
	struct error err = ERROR_INIT;
	int64_t n;

	if (size > SESSION_DATA_MAX)
		size = SESSION_DATA_MAX;
	n = read_handle(m, ino, fi->fh, (uint64_t)off, size, &a, &err);
	ckpt_phase_end_call(&m->loads, &m->load_ns, begun_ns);
	if (n < 0)
		ops_reply(req, node_of_handle(m, fi->fh), "read", (int)n, &err);
	else
		(void)fuse_reply_iov(req, a.loan.parts, (int)a.loan.n);
	answer_fini(&a);
}

static struct writing *writer_of(fuse_req_t req, uint64_t fh, struct error *err)
{
	struct handle *h = handle_get(&mount_of(req)->handles, fh);

	if (h && h->kind == HANDLE_WRITER)
		return h->node->writing;
	error_set(err, EIO,
		  "what was written was lost when the mount was restarted");
	return NULL;
}

void ops_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	       off_t off, struct fuse_file_info *fi)
{
	struct error err = ERROR_INIT;
	struct writing *w = writer_of(req, fi->fh, &err);
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);
	/* With O_APPEND, `off` is the end that the kernel last knew, which may have moved. */
	uint64_t at = fi->flags & O_APPEND ? WRITING_AT_END : (uint64_t)off;
	int64_t begun_ns = ckpt_phase_begin_call(&m->saves);
	int rc;

	if (w)
		writers_settle_late(m, h);
	rc = w ? writing_write(w, at, data, size, &err) : -EIO;
	if (w)
		writers_note_write(h);
	ckpt_phase_end_call(&m->saves, &m->save_ns, begun_ns);
	if (rc < 0)
		ops_reply(req, h ? h->node : NULL, "write", rc, &err);
	else
		(void)fuse_reply_write(req, size);
}

/* Log the program's name, so that its user can configure it not to call fallocate() in this way. */
static int refuse_fallocate(pid_t thread, int mode, struct error *err)
{
	char name[CLOSING_NAME_MAX];

	closing_name(thread, name);
	return error_set(
		err, EOPNOTSUPP,
		"fallocate(2) of mode %#x by '%s' (%d): holes are not "
		"made, nor bytes moved; have it write zeros, or run "
		"without (rsync --no-preallocate, fio --fallocate=none)",
		(unsigned int)mode, name, (int)thread);
}

/* Make the file longer without reserving space: a lack of space is reported when the bytes are
 * stored. */
void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
		   off_t len, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);
	const pid_t thread = fuse_req_ctx(req)->pid;
	struct error err = ERROR_INIT;
	struct writing *w = writer_of(req, fi->fh, &err);
	int rc = w ? 0 : -EIO;

	if (w && (mode & ~FALLOC_FL_KEEP_SIZE))
		rc = refuse_fallocate(thread, mode, &err);
	if (rc == 0 && !mode) {
		writers_settle_late(m, h);
		rc = writing_grow(w, (uint64_t)off + (uint64_t)len, &err);
		writers_note_write(h);
	}
	ops_reply(req, h ? h->node : NULL, "fallocate", rc, &err);
}

/* --------------------------------------------------------------------- commit --- */

static void reply_result(fuse_req_t req, struct ckpt_node *n, const char *what,
			 int rc, const struct error *err)
{
	AUTO_BUF path = BUF_INIT;

	/* Another node's file has replaced this one: log it. */
	if (rc == -ESTALE)
		log_warning("ckpt", "%s failed path=\"%s\" reason=\"%s\"", what,
			    n ? node_path_shown(n, &path) : "?", err->msg);
	ops_reply(req, n, what, rc, err);
}

/* `n_begun`: see writing_commit_begun(). */
static int commit_handle(fuse_req_t req, uint64_t fh, unsigned int n_begun,
			 struct error *err)
{
	struct ckpt_mount *m = mount_of(req);
	struct writing *w = writer_of(req, fh, err);
	int64_t begun_ns = ckpt_phase_begin_call(&m->saves);
	struct handle *h = handle_get(&m->handles, fh);
	struct node_commit c = { .n = h ? h->node : NULL };
	int rc = -EIO;

	if (w) {
		node_begin_commit(&c);
		rc = writing_commit_begun(w, n_begun, err);
		node_end_commit(&c);
	}
	/* Also wait for the commit of an earlier close: otherwise the next process would take the
	 * file for lost. */
	if (rc == 0)
		(void)nodes_wait_commits(&m->nodes, h->node, true);
	ckpt_phase_end_call(&m->saves, &m->save_ns, begun_ns);
	return rc < 0 ? rc : node_loss(h->node, err);
}

/* With --close=buffered, a close only waits until the bytes are staged. False: commit now. */
static bool close_buffered(struct ckpt_mount *m, struct handle *h,
			   unsigned int n_begun, struct error *err, int *ret_rc)
{
	struct ckpt_node *n = h->node;

	if (!m->later)
		return false;
	AUTO_UNLOCK held = mutex_hold(&n->lock);

	*ret_rc = writing_state(n->writing, err);
	if (*ret_rc < 0 || !writing_is_dirty(n->writing) ||
	    n_begun != writing_n_begun(n->writing))
		return true;
	return !writing_is_torn(n->writing) && later_commit(m->later, n);
}

/* Is the file closed by another process than the one that opened it? A process that is not visible
 * counts as the same one: then the file is stored before close returns 0. */
static bool is_closed_by_other(const struct handle *h, const struct closer *c)
{
	const bool is_unknown = c->thread && !c->group;

	return h->owner && !is_unknown && c->group != h->owner;
}

/* Has the process another copy of the descriptor that it closes? Each other handle that it owns has
 * at least one descriptor of its own. */
static bool has_other_descriptor(fuse_req_t req, const struct handle *h,
				 struct closer *c)
{
	const unsigned int n =
		closing_count_open(c, session_device(session_of(req)),
				   h->node->id);

	return n > h->n_before &&
	       n > h->n_before + handles_count_owned(&mount_of(req)->handles, h,
						     c->group);
}

/* Mark the file as torn if the process was killed, also if it may have been the owner earlier. */
static void mark_torn_if_killed(struct handle *h, const struct closer *c)
{
	if (!c->is_killed || !h->has_written ||
	    !(h->is_owned || c->group == h->owner))
		return;
	writing_tear(h->node->writing, h->n_begun);
	h->is_left = false;
}

/* Store the file at its close; with --close=buffered, staging it is enough. */
static int store_closed(fuse_req_t req, struct handle *h, unsigned int n_begun,
			struct error *err)
{
	struct writing *w = h->node->writing;
	int rc = 0;

	/* Other descriptors write the file, and this one has no unstored writes. */
	if (!h->has_written && h->node->n_open > 1 && !writing_is_torn(w)) {
		rc = writing_state(w, err);
		return rc < 0 ? rc : node_loss(h->node, err);
	}
	/* Reset before storing, so that writes during the commit are stored by a later close. */
	h->has_written = false;
	if (!close_buffered(mount_of(req), h, n_begun, err, &rc))
		rc = commit_handle(req, h->id, n_begun, err);
	return rc;
}

/* Implements "A close is the commit" of docs/checkpoints.md. The kernel reports each closed
 * descriptor, copies and those of children too. /proc shows whether the closing process is the
 * owner, has another copy, or was killed. */
static int close_writer(fuse_req_t req, struct handle *h, struct error *err)
{
	const unsigned int n_begun = writing_n_begun(h->node->writing);
	struct closer c = closing_look(fuse_req_ctx(req)->pid);
	const bool is_childs = h->is_owned && is_closed_by_other(h, &c);
	const bool is_copy = !is_childs && has_other_descriptor(req, h, &c);

	/* The process may have been killed with the file half written, so store nothing; a live
	 * process sees the error. */
	if (c.is_unread) {
		h->is_left = true;
		return error_set(err, EMFILE,
				 "not stored: no descriptor is left to see who "
				 "closes it; give bootseer-ckpt a higher "
				 "LimitNOFILE=, or ulimit -n");
	}
	if (is_childs) {
		h->is_left = c.is_killed || closing_look(h->owner).is_killed;
		return 0;
	}
	h->is_left = c.is_killed;
	if (is_copy)
		return 0;
	mark_torn_if_killed(h, &c);
	/* Disown before the commit: a child that writes and closes during it must store its own
	 * bytes. */
	writers_disown(h);
	return c.is_killed ? 0 : store_closed(req, h, n_begun, err);
}

void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_get(&mount_of(req)->handles, fi->fh);
	struct error err = ERROR_INIT;
	int rc = 0;

	if (h && h->kind == HANDLE_WRITER)
		rc = close_writer(req, h, &err);
	else if (handle_kind_of(fi->fh) == HANDLE_WRITER)
		rc = commit_handle(req, fi->fh, 0, &err);
	reply_result(req, h ? h->node : NULL, "close", rc, &err);
}

void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	       struct fuse_file_info *fi)
{
	struct handle *h = handle_get(&mount_of(req)->handles, fi->fh);
	struct error err = ERROR_INIT;
	int rc = 0;

	if (handle_kind_of(fi->fh) == HANDLE_WRITER)
		rc = commit_handle(req, fi->fh,
				   h ? writing_n_begun(h->node->writing) : 0,
				   &err);
	else if (h)
		rc = node_loss(h->node, &err);
	reply_result(req, h ? h->node : NULL, "fsync", rc, &err);
}

/* Commit at the release of the last descriptor, if no close stored the file; no process waits for
 * it. Called with the node's lock held, and releases it meanwhile. True: the writer has ended too,
 * so that other writers that are released meanwhile leave nothing to this one. */
static bool commit_late(struct ckpt_mount *m, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;
	struct error err = ERROR_INIT;

	if (n->n_open || !writing_is_pending(n->writing))
		return false;
	if (m->later &&
	    (node_has_unsettled(n, NULL) || later_commit(m->later, n)))
		return false;
	if (writers_commit(m, n, false, &err) < 0)
		log_error("ckpt", "lost path=\"%s\" reason=\"%s\"",
			  node_path_shown(n, &path), err.msg);
	return true;
}

/* Check now whether the owner was killed: some kernels close the files of an exiting process in
 * another thread. */
static void mark_torn_if_left(struct handle *h)
{
	struct closer c = { .thread = 0 };

	if (!h->has_written)
		return;
	if (h->is_owned && h->owner)
		c = closing_look(h->owner);
	if (h->is_left || c.is_killed || c.is_unread)
		writing_tear(h->node->writing, h->n_begun);
}

void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);

	if (h && h->kind == HANDLE_WRITER) {
		mark_torn_if_left(h);
		(void)pthread_mutex_lock(&h->node->lock);
		writers_release(h->node, h->is_owned);
		if (!commit_late(m, h->node))
			writers_end(h->node);
		(void)pthread_mutex_unlock(&h->node->lock);
	} else if (h && h->kind == HANDLE_PEEKER) {
		writers_end_peeker(h->node);
	} else if (h) {
		readers_end(h->node, h);
	}
	if (h)
		handle_free(&m->handles, h);
	(void)fuse_reply_err(req, 0);
}
