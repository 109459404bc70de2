// SPDX-License-Identifier: Apache-2.0
/* Opening of an existing file, to be changed or to go on. */
#include <errno.h>

#include "ckpt-fuse/mount/writing_priv.h"

/* A plain object is staged whole, and dirty: no writer knows of it.  So is a small file that is
 * striped for its attributes alone, and may become plain with others. */
static int stage_whole(struct writing *w, struct ckpt_file *f,
		       struct error *err)
{
	const uint64_t size = ckpt_file_stat(f)->size;
	struct staged_unit *x;
	int rc = 0;

	if (size > w->all->tail_most)
		return error_set(err, EOPNOTSUPP,
				 "'%.200s' is a large plain object: it can be "
				 "replaced, not changed",
				 w->path);
	for (uint64_t at = 0; at < size && rc == 0; at += WRITING_UNIT) {
		size_t len = size - at < WRITING_UNIT ? (size_t)(size - at)
						      : STAGE_UNIT;

		rc = writing_have_unit(w, at / WRITING_UNIT, len, &x, err);
		if (rc == 0)
			rc = ckpt_read(f, at, x->data, len, 0, err);
		if (rc < 0)
			break;
		x->set = len;
		x->is_dirty = true;
	}
	w->is_staged_whole = rc == 0;
	if (rc < 0)
		writing_drop_units(w, 0);
	return rc;
}

static int use_file(struct writing *w, struct ckpt_file *f, struct error *err)
{
	const struct ckpt_stat *st = ckpt_file_stat(f);

	return st->is_striped && st->size > WRITING_UNIT
		       ? sending_begin(&w->sending, w->all->store, w->path, f,
				       err)
		       : stage_whole(w, f, err);
}

/* Is it the file that goes on here?  Its attributes may be others. */
static bool is_own(const struct writing *w, const struct ckpt_file *f)
{
	return ckpt_file_bytes_id(f) ==
	       (w->version.is_known ? w->version.bytes_id : w->bytes_id);
}

int writing_have_map(struct writing *w, struct error *err)
{
	struct ckpt_file *f;
	int rc;

	if (w->sending.writer || w->is_staged_whole)
		return 0;
	if (!w->path)
		return error_set(err, EOPNOTSUPP,
				 "a file that was removed cannot go on");
	rc = ckpt_open(w->all->store, w->path, &f, err);
	if (rc < 0)
		return rc;
	rc = is_own(w, f) ? use_file(w, f, err)
			  : error_set(err, ESTALE,
				      "'%.200s' was replaced while it was "
				      "written",
				      w->path);
	ckpt_close(f);
	return rc;
}

int writing_have_writer(struct writing *w, struct error *err)
{
	int rc = writing_have_map(w, err);

	if (rc < 0 || w->sending.writer)
		return rc;
	/* A name is asked for; that of a removed file is never committed. */
	rc = sending_begin(&w->sending, w->all->store,
			   w->path ? w->path : "removed", NULL, err);
	if (rc == 0)
		w->is_staged_whole = false;
	return rc;
}

static int load_file(struct writing *w, struct ckpt_file *f, struct error *err)
{
	const struct ckpt_stat *st = ckpt_file_stat(f);
	const struct buf *xattrs = ckpt_file_xattrs(f);
	int rc = 0;

	if (w->all->compares)
		rc = ckpt_file_version(f, &w->version, err);
	buf_reset(&w->xattrs);
	if (rc == 0 && xattrs->len &&
	    buf_append(&w->xattrs, xattrs->data, xattrs->len) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = use_file(w, f, err);
	if (rc < 0)
		return rc;
	w->size = st->size;
	w->generation = st->generation;
	w->bytes_id = st->bytes_id;
	w->is_loaded = true;
	return 0;
}

static int load_all(struct writing *w, struct error *err)
{
	struct ckpt_file *f;
	int rc;

	if (w->is_loaded)
		return 0;
	rc = ckpt_open(w->all->store, w->path, &f, err);
	if (rc < 0)
		return rc;
	rc = load_file(w, f, err);
	ckpt_close(f);
	return rc;
}

int writing_prepare(struct writing *w, struct error *err)
{
	int rc = w->rc;

	if (rc < 0 && err)
		*err = w->err;
	return rc < 0 ? rc : load_all(w, err);
}
