// SPDX-License-Identifier: Apache-2.0
/* Writes, truncates and reads a file that is being written. writing_stage.c has the staging of
 * units, sending.c their sending. */
#include "ckpt-fuse/mount/writing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/mount/writing_priv.h"
#include "common/clock.h"

int writing_new(struct writings *all, const char *path,
		const struct writing_options *o, struct writing **ret,
		struct error *err)
{
	struct writing *w = calloc(1, sizeof(*w));

	if (!w)
		return error_nomem(err);
	w->path = strdup(path);
	if (!w->path ||
	    (o->xattrs && o->xattrs->len &&
	     buf_append(&w->xattrs, o->xattrs->data, o->xattrs->len) < 0)) {
		free(w->path);
		free(w);
		return error_nomem(err);
	}
	w->all = all;
	w->attr = o->attr;
	w->is_loaded = w->is_dirty = o->is_new;
	if (o->version)
		w->version = *o->version;
	w->is_staged_whole = o->is_new;
	unit_stage_init(&w->stage, all->budget);
	(void)pthread_mutex_init(&w->op, NULL);
	(void)pthread_mutex_init(&w->seen_lock, NULL);
	writing_show(w);
	sending_init(&w->sending, all->budget, all->pool);
	(void)pthread_mutex_lock(&all->lock);
	TAILQ_INSERT_TAIL(&all->list, w, link);
	(void)pthread_mutex_unlock(&all->lock);
	atomic_fetch_add(&all->n, 1);
	*ret = w;
	return 0;
}

void writing_free(struct writing *w)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->all->lock);
	TAILQ_REMOVE(&w->all->list, w, link);
	(void)pthread_mutex_unlock(&w->all->lock);
	atomic_fetch_sub(&w->all->n, 1);
	/* Another file that needs memory may be relieving this one. */
	writing_unlock(writing_hold(w));
	sending_fini(&w->sending);
	writing_give_slots(w);
	writing_drop_units(w, 0);
	unit_stage_fini(&w->stage);
	writing_drop_reader(w);
	(void)pthread_mutex_destroy(&w->op);
	(void)pthread_mutex_destroy(&w->seen_lock);
	buf_fini(&w->xattrs);
	free(w->path);
	free(w);
}

/* --------------------------------------------------------------------- writes --- */

static void mark_file_changed(struct writing *w)
{
	w->is_dirty = true;
	w->is_torn = false;
	w->has_mtime = false;
	/* Set the current time: clean-up tools remove old files, and this one may be written for
	 * hours. */
	w->attr.mtime_ns = clock_wall_ns();
	writing_drop_reader(w);
}

/* Number of the bytes that lie within the unit of `off`. */
static size_t get_length_within_unit(const struct writing *w, uint64_t off,
				     size_t len)
{
	const size_t left = w->stage.unit - (size_t)(off % w->stage.unit);

	return len < left ? len : left;
}

static int write_pieces(struct writing *w, uint64_t off, const char *data,
			size_t len, struct error *err)
{
	int rc = writing_extend(w, off, err);

	while (len && rc == 0) {
		const size_t n = get_length_within_unit(w, off, len);

		rc = writing_extend(w, off + n, err);
		if (rc == 0)
			rc = writing_stage_bytes(w, off, data, n, err);
		if (rc < 0)
			return rc;
		off += n;
		data += n;
		len -= n;
		if (off > w->size)
			w->size = off;
		rc = writing_send_full(w, err);
	}
	return rc;
}

int writing_write(struct writing *w, uint64_t off, const void *data, size_t len,
		  struct error *err)
{
	AUTO_WRITING held = writing_hold(w);
	int rc = writing_prepare(w, err);

	if (off == WRITING_AT_END)
		off = w->size;
	if (rc == 0) {
		mark_file_changed(w);
		rc = write_pieces(w, off, data, len, err);
	}
	if (rc == 0)
		atomic_fetch_add(&w->all->bytes_written, len);
	/* A failed write makes the whole file fail: many programs ignore the result of write(), and
	 * committing the incomplete file would replace a good one. */
	(void)writing_lose(w, rc, err);
	return rc;
}

/* ----------------------------------------------------------------- truncation --- */

/* Get the path's current version, which the next commit replaces. */
static int get_replaced_version(struct writing *w, struct ckpt_version *ret,
				struct error *err)
{
	int rc = ckpt_look(w->all->store, w->path, ret, NULL, err);

	return rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
}

/* Drop the staged units, and those already sent. */
static void forget_staged(struct writing *w)
{
	struct error ignored = ERROR_INIT;

	if (w->sending.writer)
		(void)!writing_end_sending(w, NULL, &ignored);
	writing_drop_units(w, 0);
	w->stage.unit = STAGE_UNIT;
	writing_drop_reader(w);
	w->is_staged_whole = false;
}

/* Begin anew with an empty file; sent units are dropped. */
static int restart_empty(struct writing *w, struct error *err)
{
	int rc = 0;

	/* After a failure the program was told that another version exists, so it replaces that. */
	if (w->all->compares && w->path && (!w->version.is_known || w->rc < 0))
		rc = get_replaced_version(w, &w->version, err);
	if (rc < 0)
		return rc;
	forget_staged(w);
	w->is_staged_whole = true;
	w->size = 0;
	w->n_begun++;
	w->rc = 0;
	w->is_loaded = true;
	mark_file_changed(w);
	return 0;
}

static int truncate_to(struct writing *w, uint64_t size, struct error *err)
{
	int rc = writing_prepare(w, err);

	if (rc < 0 || size == w->size)
		return rc;
	mark_file_changed(w);
	if (size > w->size) {
		rc = writing_extend(w, size, err);
	} else {
		/* Clear the bytes behind the end in the last unit: they must read as zeros if the
		 * file grows again. */
		const uint64_t n = (size + w->stage.unit - 1) / w->stage.unit;

		rc = writing_have_map(w, err);
		writing_drop_units(w, n);
		if (w->sending.writer)
			ckpt_writer_cut(w->sending.writer, n);
	}
	if (rc == 0)
		w->size = size;
	return rc;
}

int writing_truncate(struct writing *w, uint64_t size, struct error *err)
{
	AUTO_WRITING held = writing_hold(w);
	int rc = size == 0 ? restart_empty(w, err) : truncate_to(w, size, err);

	(void)writing_lose(w, rc, err);
	return rc;
}

int writing_grow(struct writing *w, uint64_t size, struct error *err)
{
	AUTO_WRITING held = writing_hold(w);
	int rc = writing_prepare(w, err);

	if (rc == 0 && size > w->size)
		rc = truncate_to(w, size, err);
	(void)writing_lose(w, rc, err);
	return rc;
}

int writing_begin_anew(struct writing *w, const struct ckpt_version *version,
		       struct error *err)
{
	AUTO_WRITING held = writing_hold(w);

	if (version && !w->is_dirty)
		w->version = *version;
	return restart_empty(w, err);
}

void writing_go_on(struct writing *w, const struct ckpt_stat *now)
{
	AUTO_WRITING held = writing_hold(w);

	if (w->is_loaded && !w->is_dirty &&
	    (now->bytes_id != w->bytes_id ||
	     now->generation != w->generation)) {
		forget_staged(w);
		buf_reset(&w->xattrs);
		w->attr = now->attr;
		w->has_mtime = w->is_loaded = false;
	}
}

/* ---------------------------------------------------------------------- reads --- */

/* Open our committed version; another writer may have replaced it. */
static int open_committed(struct writing *w, struct error *err)
{
	struct ckpt_file *f = NULL;
	int rc;

	if (w->reader)
		return 0;
	rc = w->path ? ckpt_open(w->all->store, w->path, &f, err) : -ENOENT;
	if (rc == -ENOENT ||
	    (rc == 0 && ckpt_file_bytes_id(f) != w->bytes_id)) {
		ckpt_close(f);
		return error_set(err, ESTALE,
				 "'%.200s' was replaced or removed since it "
				 "was opened here: open it again",
				 w->path ? w->path : "");
	}
	if (rc == 0)
		rc = reading_new(w->all->readings, f, &w->reader, err);
	/* No read-ahead, since the next write drops this reading. */
	if (rc == 0)
		reading_stay(w->reader);
	return rc;
}

int writing_keep(struct writing *w, struct error *err)
{
	int rc = 0;
	AUTO_WRITING held = writing_hold(w);

	if (w->is_loaded && !w->is_dirty && !w->is_staged_whole)
		rc = open_committed(w, err);
	return rc;
}

/* Read through blocks, which the next read finds again: writers have no cached pages in the kernel,
 * and tar reads 10 KiB at a time. */
static int64_t read_committed(struct writing *w, uint64_t off, char *dst,
			      size_t len, struct error *err)
{
	struct reading_loan loan = { .n = 0 };
	int64_t n = reading_lend(w->reader, off, len, &loan, err);

	if (n < 0)
		return n;
	for (size_t i = 0; i < loan.n; i++) {
		memcpy(dst, loan.parts[i].iov_base, loan.parts[i].iov_len);
		dst += loan.parts[i].iov_len;
	}
	reading_return(w->reader, &loan);
	return n;
}

/* Read bytes of one unit, staged or from the store. */
static int read_piece(struct writing *w, uint64_t off, char *dst, size_t len,
		      struct error *err)
{
	const uint64_t u = off / w->stage.unit;
	const size_t at = (size_t)(off % w->stage.unit);
	struct staged_unit *x = unit_stage_find(&w->stage, u);
	int rc = x ? 0 : writing_have_map(w, err);

	if (!x)
		x = unit_stage_find(&w->stage, u);
	if (rc == 0 && !x &&
	    (!w->sending.writer || !ckpt_writer_stored(w->sending.writer, u))) {
		memset(dst, 0, len);
		return 0;
	}
	if (rc == 0 && !x) {
		rc = writing_have_unit(w, u, w->stage.unit, &x, err);
		if (rc == 0)
			x->is_whole = false;
	}
	if (rc == 0 && !staged_has(x, at, len))
		rc = writing_fill(w, x, err);
	/* Drop a unit that could not be read, or readers would get zeros. */
	if (rc < 0 && x && !x->is_dirty && !x->is_whole)
		budget_give(w->all->budget, unit_stage_drop(&w->stage, x));
	if (rc < 0)
		return rc;
	x->used = ++w->stage.clock;
	staged_read(x, at, dst, len);
	return 0;
}

static int64_t read_pieces(struct writing *w, uint64_t off, char *dst,
			   size_t len, struct error *err)
{
	size_t done = 0;
	int rc = 0;

	while (done < len && rc == 0) {
		const size_t n =
			get_length_within_unit(w, off + done, len - done);

		rc = read_piece(w, off + done, dst + done, n, err);
		done += n;
		if (rc == 0)
			rc = writing_send_full(w, err);
	}
	return rc < 0 ? rc : (int64_t)len;
}

/* Are all of the bytes in memory? */
static bool are_bytes_staged(struct writing *w, uint64_t off, size_t len)
{
	while (len) {
		const size_t n = get_length_within_unit(w, off, len);
		const struct staged_unit *x =
			unit_stage_find(&w->stage, off / w->stage.unit);

		if (!x || !staged_has(x, (size_t)(off % w->stage.unit), n))
			return false;
		off += n;
		len -= n;
	}
	return true;
}

int64_t writing_read(struct writing *w, uint64_t off, void *buf, size_t len,
		     struct error *err)
{
	AUTO_WRITING held = writing_hold(w);
	int64_t n = writing_prepare(w, err);

	if (n == 0 && off < w->size) {
		if (len > w->size - off)
			len = (size_t)(w->size - off);
		if (!w->is_dirty && !w->is_staged_whole &&
		    (w->path || w->reader) && !are_bytes_staged(w, off, len)) {
			n = open_committed(w, err);
			n = n < 0 ? n : read_committed(w, off, buf, len, err);
		} else {
			n = read_pieces(w, off, buf, len, err);
		}
	}
	return n;
}

/* --------------------------------------------------------------------- the rest --- */

/* After a rename the objects have other tags: update the version. If another writer replaced the
 * file at that moment, the version stays different from ours. */
static void update_version_after_rename(struct writing *w)
{
	struct error ignored = ERROR_INIT;
	struct ckpt_version now;
	bool is_ours;

	if (get_replaced_version(w, &now, &ignored) < 0)
		return;
	is_ours = *w->version.striped
			  ? *now.striped && now.bytes_id == w->version.bytes_id
			  : !*now.striped;
	if (is_ours)
		w->version = now;
}

void writing_begin_move(struct writing *w)
{
	(void)writing_hold(w);
}

void writing_end_move(struct writing *w, bool is_moved, char *path)
{
	if (is_moved) {
		free(w->path);
		w->path = path;
	}
	if (is_moved && w->path && w->version.is_known)
		update_version_after_rename(w);
	writing_unlock(w);
}

void writing_move(struct writing *w, char *path)
{
	writing_begin_move(w);
	writing_end_move(w, true, path);
}

int writing_change_xattr(struct writing *w, const struct xattr_change *c,
			 struct error *err)
{
	AUTO_WRITING held = writing_hold(w);
	int rc = writing_prepare(w, err);

	if (rc == 0)
		rc = xattrs_change(&w->xattrs, c, err);
	/* The change of an attribute does not change the file's time. */
	if (rc == 0) {
		w->has_mtime = w->has_mtime || !w->is_dirty;
		w->is_dirty = true;
		writing_drop_reader(w);
	}
	return rc;
}

int writing_get_xattrs(struct writing *w, struct buf *ret, struct error *err)
{
	AUTO_WRITING held = writing_hold(w);
	int rc = writing_prepare(w, err);

	buf_reset(ret);
	if (rc == 0 && w->xattrs.len &&
	    buf_append(ret, w->xattrs.data, w->xattrs.len) < 0)
		rc = error_nomem(err);
	return rc;
}

void writing_tear(struct writing *w, unsigned int n_begun)
{
	AUTO_WRITING held = writing_hold(w);

	w->is_torn = w->is_dirty && (w->is_torn || n_begun == w->n_begun);
}

static struct writing_seen get_writing_seen(struct writing *w)
{
	AUTO_UNLOCK held = mutex_hold(&w->seen_lock);

	return w->seen;
}

bool writing_is_torn(struct writing *w)
{
	return get_writing_seen(w).is_torn;
}

bool writing_is_pending(struct writing *w)
{
	const struct writing_seen seen = get_writing_seen(w);

	return seen.is_dirty && !seen.is_torn && !seen.rc;
}

bool writing_is_dirty(struct writing *w)
{
	return get_writing_seen(w).is_dirty;
}

bool writing_stat(struct writing *w, uint64_t *ret_size,
		  struct ckpt_attr *ret_attr)
{
	const struct writing_seen seen = get_writing_seen(w);

	*ret_size = seen.size;
	*ret_attr = seen.attr;
	return seen.is_known;
}

int writing_state(struct writing *w, struct error *err)
{
	const struct writing_seen seen = get_writing_seen(w);

	if (seen.rc < 0 && err)
		*err = seen.err;
	return seen.rc;
}

int writing_keep_attr(struct writing *w, const struct ckpt_attr *attr,
		      struct error *err)
{
	AUTO_WRITING held = writing_hold(w);
	int rc = writing_prepare(w, err);

	if (rc == 0) {
		w->attr = *attr;
		w->has_mtime = w->is_dirty = true;
		writing_drop_reader(w);
	}
	return rc;
}

void writing_set_attr(struct writing *w, const struct ckpt_attr *attr,
		      bool has_mtime)
{
	AUTO_WRITING held = writing_hold(w);

	w->attr = *attr;
	w->has_mtime = w->has_mtime || has_mtime;
}
