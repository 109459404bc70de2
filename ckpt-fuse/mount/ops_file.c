// SPDX-License-Identifier: Apache-2.0
/* Files that are open. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "ckpt-fuse/mount/closing.h"
#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/sizes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"

#define PLAIN_MODE 0644u

/* A program waited since then. */
static int64_t begin_call(struct ckpt_phase *p)
{
	int64_t now_ns = clock_now_ns();

	ckpt_phase_enter(p, now_ns);
	return now_ns;
}

static void end_call(struct ckpt_phase *p, atomic_uint_fast64_t *ns,
		     int64_t begun_ns)
{
	int64_t now_ns = clock_now_ns();

	atomic_fetch_add(ns, (uint64_t)(now_ns - begun_ns));
	ckpt_phase_leave(p, now_ns);
}

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
	if (rc == 0 && o.is_new && !version.is_known)
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
	} else {
		rc = node_path(&m->nodes, n, &path);
		if (rc == 0)
			rc = new_writing(m, n, path.data, o, &w, err);
		if (rc == 0)
			node_set_writing(n, w);
	}
	if (rc == 0 && o->is_new)
		node_forget_loss(&m->nodes, n);
	n->n_writers += rc == 0;
	return rc;
}

void ops_end_writing(struct ckpt_node *n)
{
	struct writing *w = n->writing;

	if (--n->n_writers)
		return;
	node_set_writing(n, NULL);
	writing_free(w);
}

/* With the lock: a writer that has closed it changes it no more. */
static bool is_being_changed(const struct ckpt_node *n)
{
	return n->writing && n->n_writers > n->n_done;
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
	sizes_set_readers(n, node_stat(n).size);
	return 0;
}

/* With the lock.  A predecessor's readers count as one, which is never closed: the kernel
 * says of no handle that it is the last.  So what they have stays, also when the readers
 * of this process close it. */
static int use_kept(struct ckpt_mount *m, struct ckpt_node *n,
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
	n->n_readers += n->has_kept_use;
	return rc;
}

/* When it cannot be opened now, the version would be gone for good. */
int ops_keep_for_readers(struct ckpt_mount *m, struct ckpt_node *n,
			 struct error *err)
{
	int rc = use_kept(m, n, err);

	/* Nobody can read that, so that it may go. */
	if (rc == -EBADMSG || rc == -ENOTSUP) {
		log_warning("ckpt", "readers lose their file reason=\"%s\"",
			    err->msg);
		return 0;
	}
	return error_wrap(err, rc, "keep it for those that read it");
}

/* To the kernel a file has one size and one set of pages: readers of a version keep
 * theirs when a file that changes is another to it, which the kernel then looks up. */
int ops_leave_to_readers(struct ckpt_mount *m, struct ckpt_node *n,
			 struct error *err)
{
	int rc = ops_keep_for_readers(m, n, err);

	if (rc < 0)
		return rc;
	if (!(n->n_readers || n->is_kept) || is_being_changed(n))
		return 0;
	node_detach(&m->nodes, n);
	return -ESTALE;
}

/* With the lock: who has it open here already knows what is there, unless he has closed
 * it and others may have written it since. */
static bool is_to_be_looked_at(const struct ckpt_node *n,
			       const struct ops_writer *o)
{
	if (n->writing)
		return o->is_new && n->n_writers == n->n_done &&
		       !writing_is_dirty(n->writing);
	return node_loss((struct ckpt_node *)(uintptr_t)n, NULL) == 0;
}

static int open_writer(struct ckpt_mount *m, struct ckpt_node *n, int flags,
		       struct error *err)
{
	struct ops_writer o = { .is_new = flags & O_TRUNC };
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc = 0;

	if (m->cfg->read_only)
		return -EROFS;
	(void)pthread_mutex_lock(&n->lock);
	st = node_stat(n);
	rc = ops_leave_to_readers(m, n, err);
	if (rc == 0 && is_to_be_looked_at(n, &o)) {
		/* Its attributes stay. */
		rc = node_path(&m->nodes, n, &path);
		if (rc == 0)
			rc = ops_look(m, path.data, &o.version, &st, err);
		if (rc == 0)
			node_set_stat(n, &st);
	}
	o.attr = st.attr;
	if (rc == 0)
		rc = ops_begin_writing(m, n, &o, err);
	(void)pthread_mutex_unlock(&n->lock);
	return rc;
}

static void set_done(struct handle *h, bool is_done)
{
	struct ckpt_node *n = h->node;

	(void)pthread_mutex_lock(&n->lock);
	if (h->is_done != is_done)
		n->n_done += is_done ? 1 : -1u;
	h->is_done = is_done;
	(void)pthread_mutex_unlock(&n->lock);
}

static void reply_writer(fuse_req_t req, struct ckpt_node *n,
			 struct fuse_file_info *fi,
			 const struct fuse_entry_param *e)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_new(&m->handles, HANDLE_WRITER, n, NULL);

	if (!h) {
		(void)pthread_mutex_lock(&n->lock);
		ops_end_writing(n);
		(void)pthread_mutex_unlock(&n->lock);
		node_put(&m->nodes, n);
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = h->id;
	n->writer_pid = fuse_req_ctx(req)->pid;
	/* The kernel keeps no pages of it, so that nobody can map them to be
	 * written in any order. */
	fi->direct_io = 1;
	if (!e) {
		sizes_open(session_of(req), n, SIZE_UNKNOWN);
		(void)fuse_reply_open(req, fi);
		return;
	}
	node_looked_up(&m->nodes, n);
	(void)fuse_reply_create(req, e, fi);
}

/* -------------------------------------------------------------------- readers --- */

struct reader_open {
	struct reading *reading;
	bool is_same;   /* the kernel's pages are of this version */
	bool is_direct; /* and its size is that of a writer */
};

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

/* With the lock: the version that is there now is the node's.  -ESTALE: its readers
 * have another, which is another file to the kernel. */
static int use_version(struct ckpt_mount *m, struct ckpt_node *n,
		       struct ckpt_file *f, struct reader_open *o,
		       struct error *err)
{
	const struct ckpt_stat *st = ckpt_file_stat(f);
	const struct ckpt_stat before = node_stat(n);
	const uint64_t size = st->size;
	int rc;

	o->is_direct = is_being_changed(n);
	o->is_same = st->is_striped && before.is_striped &&
		     st->generation == before.generation &&
		     st->size == before.size &&
		     st->attr.mtime_ns == before.attr.mtime_ns;
	if (n->is_kept && ckpt_file_bytes_id(f) != n->read_version) {
		ckpt_close(f);
		return -ESTALE;
	}
	if (n->reading && ckpt_file_is_same(reading_file(n->reading), f)) {
		ckpt_close(f);
		o->is_same = true;
		if (!o->is_direct)
			sizes_set_readers(n, size);
		return 0;
	}
	if (n->reading && n->n_readers && !o->is_direct) {
		ckpt_close(f);
		return -ESTALE;
	}
	if (!o->is_direct)
		node_set_stat(n, st);
	rc = set_reading(m, n, f, err);
	sizes_set_readers(n, rc == 0 && !o->is_direct ? size : SIZE_UNKNOWN);
	return rc;
}

/* A file that was removed is open still: as its readers have it.  If there are none, the
 * kernel has yet to look up what has the name now. */
static int open_removed(struct ckpt_node *n, struct reader_open *ret)
{
	if (!n->reading)
		return -ESTALE;
	ret->reading = reading_ref(n->reading);
	ret->is_direct = n->writing || n->readers_size == SIZE_UNKNOWN;
	n->n_readers++;
	return 0;
}

static int open_reader(struct ckpt_mount *m, struct ckpt_node *n,
		       struct reader_open *ret, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_file *f;
	int rc = node_path(&m->nodes, n, &path);

	*ret = (struct reader_open){ .reading = NULL };
	if (rc == -ENOENT) {
		(void)pthread_mutex_lock(&n->lock);
		rc = open_removed(n, ret);
		(void)pthread_mutex_unlock(&n->lock);
		return rc;
	}
	if (rc == 0)
		rc = ckpt_open(m->store, path.data, &f, err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&n->lock);
	rc = use_version(m, n, f, ret, err);
	if (rc == 0) {
		ret->reading = reading_ref(n->reading);
		n->n_readers++;
	}
	(void)pthread_mutex_unlock(&n->lock);
	if (rc == -ESTALE)
		node_detach(&m->nodes, n);
	return rc;
}

static void close_reader(struct ckpt_mount *m, struct ckpt_node *n)
{
	(void)pthread_mutex_lock(&n->lock);
	if (n->n_readers && --n->n_readers == 0) {
		reading_unref(n->reading);
		n->reading = NULL;
		sizes_set_readers(n, SIZE_UNKNOWN);
		node_set_read_version(&m->nodes, n, 0);
	}
	(void)pthread_mutex_unlock(&n->lock);
}

static void reply_reader(fuse_req_t req, struct ckpt_node *n,
			 const struct reader_open *o, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h =
		handle_new(&m->handles, HANDLE_READER, n, o->reading);

	if (!h) {
		reading_unref(o->reading);
		close_reader(m, n);
		node_put(&m->nodes, n);
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = h->id;
	fi->keep_cache = o->is_same && !o->is_direct;
	fi->direct_io = o->is_direct;
	if (!o->is_direct)
		sizes_open(session_of(req), n,
			   ckpt_file_stat(reading_file(o->reading))->size);
	(void)fuse_reply_open(req, fi);
}

/* What was closed here is what is read here, though it is on its way yet. */
static int settle(struct ckpt_mount *m, struct ckpt_node *n, struct error *err)
{
	return m->later && later_settle(m->later, n) ? node_loss(n, err) : 0;
}

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *n = node_get(&m->nodes, ino);
	bool is_writer =
		(fi->flags & O_ACCMODE) != O_RDONLY || (fi->flags & O_TRUNC);
	struct error err = ERROR_INIT;
	struct reader_open o = { .reading = NULL };
	int rc = n ? 0 : -ESTALE;

	if (rc == 0 && !is_writer) {
		int64_t begun_ns = begin_call(&m->loads);

		rc = node_loss(n, &err);
		if (rc == 0)
			rc = settle(m, n, &err);
		if (rc == 0)
			rc = open_reader(m, n, &o, &err);
		/* A new file that nobody has committed yet is read by way of
		 * its writer. */
		is_writer = rc == -ENOENT && node_is_written(n);
		end_call(&m->loads, &m->load_ns, begun_ns);
	}
	if (n && is_writer)
		rc = open_writer(m, n, fi->flags, &err);
	rc = ops_of_node(m, n, rc);
	if (rc < 0) {
		node_put(&m->nodes, n);
		ops_fail(req, "open", rc, &err);
	} else if (is_writer) {
		reply_writer(req, n, fi, NULL);
	} else {
		reply_reader(req, n, &o, fi);
	}
}

/* Nobody else can have such a name, as the store says by the same check. */
static int check_name(struct ckpt_mount *m, struct ckpt_node *parent,
		      const char *name, struct ckpt_version *ret_version,
		      struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc = node_path_below(&m->nodes, parent, name, &path);

	if (rc == 0)
		rc = ops_look(m, path.data, ret_version, &st, err);
	return rc == -ENOENT ? 0 : rc;
}

static int create(fuse_req_t req, struct ckpt_node *parent, const char *name,
		  mode_t mode, struct ckpt_node **ret, struct error *err)
{
	struct ckpt_mount *m = mount_of(req);
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct ops_writer o = { .is_new = true,
				.attr = { .mode = mode & 07777,
					  .uid = ctx->uid,
					  .gid = ctx->gid } };
	struct ckpt_node *n;
	int rc = m->cfg->read_only
			 ? -EROFS
			 : check_name(m, parent, name, &o.version, err);

	if (rc < 0)
		return rc;
	n = node_make(&m->nodes, parent, name, false);
	if (!n)
		return error_nomem(err);
	(void)pthread_mutex_lock(&n->lock);
	rc = ops_begin_writing(m, n, &o, err);
	(void)pthread_mutex_unlock(&n->lock);
	if (rc < 0)
		node_put(&m->nodes, n);
	else
		*ret = n;
	return rc;
}

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name,
		mode_t mode, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *p = node_get(&m->nodes, parent), *n = NULL;
	struct error err = ERROR_INIT;
	struct fuse_entry_param e;
	int rc = p ? create(req, p, name, mode, &n, &err) : -ESTALE;

	node_put(&m->nodes, p);
	if (rc == 0)
		rc = ops_entry(m, n, &e, &err);
	if (rc < 0)
		ops_fail(req, "create", rc, &err);
	else
		reply_writer(req, n, fi, &e);
}

/* An empty file: tar(1) makes one first, for its extended attributes. */
void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       dev_t dev)
{
	struct ckpt_mount *m = mount_of(req);
	struct ckpt_node *p = node_get(&m->nodes, parent), *n = NULL;
	struct error err = ERROR_INIT;
	int rc = p ? 0 : -ESTALE;

	(void)dev;
	if (rc == 0 && !S_ISREG(mode))
		rc = -EPERM;
	if (rc == 0)
		rc = create(req, p, name, mode, &n, &err);
	node_put(&m->nodes, p);
	if (rc == 0) {
		(void)pthread_mutex_lock(&n->lock);
		rc = writing_commit(n->writing, &err);
		ops_end_writing(n);
		(void)pthread_mutex_unlock(&n->lock);
		if (rc < 0)
			node_put(&m->nodes, n);
	}
	if (rc < 0)
		ops_fail(req, "mknod", rc, &err);
	else
		ops_reply_entry(req, m, n);
}

/* ---------------------------------------------------------------------- bytes --- */

/* A handle that a predecessor gave: the file is opened for it again, unless another is
 * in its place. */
static int reopen(struct ckpt_mount *m, fuse_ino_t ino, uint64_t fh,
		  struct reading **ret, struct error *err)
{
	struct ckpt_node *n = node_get(&m->nodes, ino);
	int rc;

	if (!n)
		return -ESTALE;
	(void)pthread_mutex_lock(&n->lock);
	rc = use_kept(m, n, err);
	if (rc == 0 && n->reading && handle_is_of(fh, n->reading))
		*ret = reading_ref(n->reading);
	else if (rc == 0)
		rc = ops_is_gone(err);
	(void)pthread_mutex_unlock(&n->lock);
	node_put(&m->nodes, n);
	return rc;
}

/* What a read is answered from. */
struct read_answer {
	struct reading *reading; /* of `loan`, with a reference: as soon as the
	                          * kernel has the answer, the file may be closed */
	struct reading_loan loan;
	char *copy; /* of what is being written */
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

	if (h && h->kind == HANDLE_WRITER)
		return read_written(h, off, size, a, err);
	if (!h && handle_kind_of(fh) == HANDLE_WRITER)
		return error_set(err, EIO,
				 "what was written was lost when "
				 "the mount was restarted");
	if (h)
		a->reading = reading_ref(h->reading);
	else
		rc = reopen(m, ino, fh, &a->reading, err);
	if (rc < 0)
		return rc;
	return reading_lend(a->reading, off, size, &a->loan, err);
}

void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
	      struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	int64_t begun_ns = begin_call(&m->loads);
	struct read_answer a = { .reading = NULL };
	struct error err = ERROR_INIT;
	int64_t n;

	if (size > SESSION_DATA_MAX)
		size = SESSION_DATA_MAX;
	n = read_handle(m, ino, fi->fh, (uint64_t)off, size, &a, &err);
	end_call(&m->loads, &m->load_ns, begun_ns);
	if (n < 0)
		ops_fail(req, "read", (int)n, &err);
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
	/* Where the kernel takes the end for is where it was when it asked last. */
	uint64_t at = fi->flags & O_APPEND ? WRITING_AT_END : (uint64_t)off;
	int64_t begun_ns = begin_call(&m->saves);
	int rc;

	if (w) {
		h->node->writer_pid = fuse_req_ctx(req)->pid;
		if (h->is_done)
			set_done(h, false);
	}
	rc = w ? writing_write(w, at, data, size, &err) : -EIO;
	end_call(&m->saves, &m->save_ns, begun_ns);
	if (rc < 0)
		ops_fail(req, "write", rc, &err);
	else
		(void)fuse_reply_write(req, size);
}

/* --------------------------------------------------------------------- commit --- */

static void reply(fuse_req_t req, const char *what, int rc,
		  const struct error *err)
{
	/* Another node's file is where this one was to be. */
	if (rc == -ESTALE)
		log_warning("ckpt", "%s failed reason=\"%s\"", what, err->msg);
	if (rc < 0)
		ops_fail(req, what, rc, err);
	else
		(void)fuse_reply_err(req, 0);
}

static int commit(fuse_req_t req, uint64_t fh, struct error *err)
{
	struct ckpt_mount *m = mount_of(req);
	struct writing *w = writer_of(req, fh, err);
	int64_t begun_ns = begin_call(&m->saves);
	struct handle *h = handle_get(&m->handles, fh);
	int rc = w ? writing_commit(w, err) : -EIO;

	/* An earlier close's: a successor would take the file for lost. */
	if (rc == 0 && m->later)
		later_settle(m->later, h->node);
	end_call(&m->saves, &m->save_ns, begun_ns);
	return rc < 0 ? rc : node_loss(h->node, err);
}

/* With --close=buffered what was written is staged, and that is all a close waits for.
 * False: it is to be committed here and now. */
static bool stage(struct ckpt_mount *m, struct handle *h, struct error *err,
		  int *ret_rc)
{
	struct ckpt_node *n = h->node;
	bool is_staged = true;

	if (!m->later)
		return false;
	(void)pthread_mutex_lock(&n->lock);
	*ret_rc = writing_state(n->writing, err);
	if (*ret_rc == 0 && writing_is_dirty(n->writing))
		is_staged = later_commit(m->later, n);
	(void)pthread_mutex_unlock(&n->lock);
	return is_staged;
}

/* Each descriptor that is closed comes here, copies for a child's redirections, too:
 * the file is done when whoever wrote it has no other. */
static bool is_last_close(const struct handle *h, pid_t pid)
{
	const struct ckpt_node *n = h->node;
	int writer = n->writer_pid;

	return !closing_has_open(pid, n->id, node_name(n)) &&
	       (writer == pid ||
		!closing_has_open(writer, n->id, node_name(n)));
}

void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_get(&mount_of(req)->handles, fi->fh);
	pid_t pid = fuse_req_ctx(req)->pid;
	struct error err = ERROR_INIT;
	int rc = 0;

	if (h && h->kind == HANDLE_WRITER) {
		h->is_killed = closing_is_killed(pid);
		if (h->is_killed || !is_last_close(h, pid)) {
			(void)fuse_reply_err(req, 0);
			return;
		}
	}
	if (handle_kind_of(fi->fh) == HANDLE_WRITER &&
	    !(h && stage(mount_of(req), h, &err, &rc)))
		rc = commit(req, fi->fh, &err);
	if (rc == 0 && h && h->kind == HANDLE_WRITER)
		set_done(h, true);
	reply(req, "close", rc, &err);
}

void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	       struct fuse_file_info *fi)
{
	struct handle *h = handle_get(&mount_of(req)->handles, fi->fh);
	struct error err = ERROR_INIT;
	int rc = 0;

	if (handle_kind_of(fi->fh) == HANDLE_WRITER)
		rc = commit(req, fi->fh, &err);
	else if (h)
		rc = node_loss(h->node, &err);
	reply(req, "fsync", rc, &err);
}

/* Where it was not seen which close was the last; nobody waits for this one. */
static void commit_late(struct ckpt_mount *m, const struct handle *h)
{
	struct ckpt_node *n = h->node;
	struct error err = ERROR_INIT;

	if (n->n_writers != 1 || h->is_killed || !writing_is_dirty(n->writing))
		return;
	if (m->later && later_commit(m->later, n))
		return;
	if (writing_commit(n->writing, &err) < 0)
		log_warning("ckpt", "lost reason=\"%s\"", err.msg);
}

void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ckpt_mount *m = mount_of(req);
	struct handle *h = handle_get(&m->handles, fi->fh);

	if (h && h->kind == HANDLE_WRITER) {
		(void)pthread_mutex_lock(&h->node->lock);
		commit_late(m, h);
		h->node->n_done -= h->is_done;
		ops_end_writing(h->node);
		(void)pthread_mutex_unlock(&h->node->lock);
	} else if (h) {
		close_reader(m, h->node);
	}
	if (h)
		handle_free(&m->handles, &m->nodes, h);
	(void)fuse_reply_err(req, 0);
}
