// SPDX-License-Identifier: Apache-2.0
/* What an existing file is opened with, to be changed or to go on. */
#include <errno.h>

#include "ckpt-fuse/mount/writing_priv.h"

/* Is it the file that goes on here?  Its attributes may be others. */
static bool is_own_base(struct writing *w)
{
	return ckpt_file_bytes_id(w->base) ==
	       (w->version.is_known ? w->version.bytes_id : w->bytes_id);
}

int writing_open_base(struct writing *w, struct error *err)
{
	int rc;

	if (w->base || tail_start(&w->tail) == 0)
		return 0;
	if (!w->path)
		return error_set(err, EOPNOTSUPP,
				 "a file that was removed cannot go on");
	rc = ckpt_open(w->all->store, w->path, &w->base, err);
	if (rc < 0 || is_own_base(w))
		return rc;
	/* Or the next call would take it for ours. */
	writing_drop_base(w);
	return error_set(err, ESTALE,
			 "'%.200s' was replaced while it was written", w->path);
}

static int load_tail(struct writing *w, uint64_t from, uint64_t to,
		     struct error *err)
{
	int rc = 0;

	tail_init(&w->tail, w->all->budget, WRITING_UNIT, from);
	while (rc == 0 && from < to) {
		size_t len = tail_piece(&w->tail, from, (size_t)(to - from));

		rc = writing_reserve(w, tail_wants(&w->tail, from + len), err);
		if (rc == 0 && tail_write(&w->tail, from, NULL, len) < 0)
			rc = error_nomem(err);
		if (rc == 0)
			rc = ckpt_read(w->base, from,
				       w->tail.units[w->tail.n - 1].data, len,
				       0, err);
		from += len;
	}
	return rc;
}

/* Small files are staged whole, of large ones the last unit that is whole, and what is
 * behind it. */
static int load(struct writing *w, struct error *err)
{
	const struct ckpt_stat *st;
	uint64_t start = 0;
	int rc;

	if (w->is_loaded)
		return 0;
	rc = ckpt_open(w->all->store, w->path, &w->base, err);
	if (rc < 0)
		return rc;
	st = ckpt_file_stat(w->base);
	if (st->size > w->all->tail_most) {
		if (!st->is_striped ||
		    (uint64_t)st->chunk_size * st->unit_chunks !=
			    WRITING_UNIT) {
			writing_drop_base(w);
			return error_set(err, EOPNOTSUPP,
					 "'%.200s' is a large plain object: it "
					 "can be replaced, not changed",
					 w->path);
		}
		start = st->size / WRITING_UNIT * WRITING_UNIT - WRITING_UNIT;
	}
	w->size = st->size;
	w->generation = st->generation;
	w->bytes_id = st->bytes_id;
	if (w->all->compares)
		rc = ckpt_file_version(w->base, &w->version, err);
	if (rc < 0) {
		writing_drop_base(w);
		return rc;
	}
	if (ckpt_file_xattrs(w->base)->len &&
	    buf_append(&w->xattrs, ckpt_file_xattrs(w->base)->data,
		       ckpt_file_xattrs(w->base)->len) < 0) {
		writing_drop_base(w);
		return error_nomem(err);
	}
	rc = load_tail(w, start, st->size, err);
	if (rc < 0) {
		writing_cut_tail(w, start);
		writing_drop_base(w);
		buf_reset(&w->xattrs);
		return rc;
	}
	if (start == 0)
		writing_drop_base(w);
	w->is_loaded = true;
	return 0;
}

int writing_prepare(struct writing *w, struct error *err)
{
	int rc = w->rc;

	if (rc < 0 && err)
		*err = w->err;
	return rc < 0 ? rc : load(w, err);
}
