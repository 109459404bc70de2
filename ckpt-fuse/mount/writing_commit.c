// SPDX-License-Identifier: Apache-2.0
/* Commits a file that is being written. */
#include <errno.h>

#include "ckpt-fuse/mount/writing_priv.h"
#include "common/clock.h"

#define TRIES 4u /* attempts, if others remove the version to be replaced */

/* Store a file whose bytes are all in memory as a plain object. */
static int commit_plain(struct writing *w, struct ckpt_stat *ret,
			struct error *err)
{
	const struct ckpt_write_options o = {
		.size = w->size,
		.attr = w->attr,
		.version = w->path ? &w->version : NULL,
	};
	AUTO(ckpt_writer) writer = NULL;
	struct staged_unit *x = NULL;
	int rc = 0;

	if (w->size)
		rc = writing_have_unit(w, 0, (size_t)w->size, &x, err);
	if (rc == 0)
		rc = writing_take_slots(w, 1, err);
	if (rc < 0)
		return rc;
	rc = ckpt_write_open(w->all->store, w->path, &o, &writer, err);
	if (rc == 0 && x) {
		staged_set_up_to(x, (size_t)w->size);
		rc = ckpt_write_unit(writer, 0, x->data, err);
	}
	if (rc == 0)
		rc = ckpt_commit(writer, ret, err);
	writing_give_slots(w);
	return rc;
}

/* Complete each changed unit with its stored bytes; `ret_n` is their number. */
static int make_units_whole(struct writing *w, uint64_t *ret_n,
			    struct error *err)
{
	int rc = 0;

	*ret_n = 0;
	for (size_t i = 0; i < w->stage.n && rc == 0; i++) {
		struct staged_unit *x = &w->stage.units[i];

		if (!x->is_dirty)
			continue;
		++*ret_n;
		if (!x->is_whole)
			rc = writing_fill(w, x, err);
	}
	return rc;
}

/* Length of a unit; the last one of a file may be shorter, and is the last of its segment. */
static size_t get_unit_length(const struct writing *w, uint64_t u)
{
	uint64_t left = w->size - u * w->stage.unit;

	return left < w->stage.unit ? (size_t)left : w->stage.unit;
}

/* Enlarge the buffer of unit 0, which may have begun small, to what will be sent. */
static int make_room(struct writing *w, struct error *err)
{
	struct staged_unit *x = unit_stage_find(&w->stage, 0);
	int rc = 0;

	if (x && x->is_dirty && x->size < get_unit_length(w, 0))
		rc = writing_have_unit(w, 0, get_unit_length(w, 0), &x, err);
	return rc;
}

/* A file with only holes gets one unit of zeros, whose segment identifies the version. */
static int stage_zeros_if_only_holes(struct writing *w, struct error *err)
{
	const uint64_t last = (w->size - 1) / w->stage.unit;
	int rc = 0;

	if (!w->size || w->stage.n)
		return 0;
	for (uint64_t u = 0; u <= last; u++)
		if (ckpt_writer_stored(w->sending.writer, u))
			return 0;
	rc = writing_stage_bytes(w, w->size - 1, NULL, 1, err);
	return rc;
}

/* Send the changed units; they stay staged, since they may be written again. */
static int send_staged(struct writing *w, struct error *err)
{
	uint64_t n;
	int rc = stage_zeros_if_only_holes(w, err);

	if (rc == 0)
		rc = make_room(w, err);
	if (rc == 0)
		rc = make_units_whole(w, &n, err);
	if (rc == 0 && n)
		rc = writing_begin_segment(w, n, err);
	for (size_t i = 0; i < w->stage.n && rc == 0; i++) {
		struct staged_unit *x = &w->stage.units[i];
		size_t len = get_unit_length(w, x->u);

		if (!x->is_dirty)
			continue;
		staged_set_up_to(x, len);
		rc = sending_add(&w->sending, x, len, false, err);
	}
	return rc;
}

static int commit_striped(struct writing *w, struct ckpt_stat *ret,
			  struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc = writing_have_writer(w, err);
	struct ckpt_writer *writer = w->sending.writer;

	if (rc == 0)
		rc = send_staged(w, err);
	/* End the segment first: its senders use the path and size. */
	if (rc == 0)
		rc = sending_end_segment(&w->sending, err);
	if (rc == 0)
		rc = ckpt_writer_set_file(writer, w->path, w->size, err);
	if (rc == 0)
		rc = ckpt_writer_set_xattrs(writer, &w->xattrs, err);
	if (rc < 0) {
		if (w->sending.writer)
			(void)!writing_end_sending(w, NULL, &ignored);
		return rc;
	}
	ckpt_writer_set_attr(writer, &w->attr);
	ckpt_writer_set_version(writer, &w->version);
	rc = writing_end_sending(w, ret, err);
	for (size_t i = 0; i < w->stage.n && rc == 0; i++) {
		w->stage.units[i].is_dirty = false;
		w->stage.units[i].n_written = 0;
	}
	return rc;
}

static int commit_once(struct writing *w, struct error *err)
{
	const bool is_plain = w->is_staged_whole && w->size <= w->stage.unit &&
			      !w->xattrs.len;
	struct ckpt_stat st;
	int rc;

	if (!w->has_mtime)
		w->attr.mtime_ns = clock_wall_ns();
	rc = is_plain ? commit_plain(w, &st, err) : commit_striped(w, &st, err);
	if (rc < 0)
		return rc;
	w->generation = st.generation;
	w->bytes_id = st.bytes_id;
	w->is_dirty = false;
	atomic_fetch_add(&w->all->commits, 1);
	return 0;
}

static int commit_locked(struct writing *w, struct error *err)
{
	int rc = w->rc;

	if (rc < 0 && err)
		*err = w->err;
	if (rc < 0 || !w->is_dirty || !w->path)
		return rc;
	rc = -EAGAIN;
	/* Retry a plain file, which is completely staged, if the version to replace was removed. */
	for (unsigned int i = 0; i < TRIES && rc == -EAGAIN; i++)
		rc = commit_once(w, err);
	/* A failure loses the file: sent units cannot be sent again without the writer. */
	(void)writing_lose(w, rc, err);
	listed_change(w->all->listed, w->path);
	return rc;
}

/* Commit, but refuse a torn file. */
int writing_commit_whole(struct writing *w, struct error *err)
{
	if (w->is_dirty && w->is_torn && w->path && w->rc == 0)
		return error_set(err, EIO,
				 "the program that wrote '%.200s' was killed: "
				 "write it anew",
				 w->path);
	return commit_locked(w, err);
}

int writing_commit(struct writing *w, struct error *err)
{
	AUTO_WRITING held = writing_hold(w);

	return commit_locked(w, err);
}

unsigned int writing_n_begun(const struct writing *w)
{
	return w->n_begun;
}

int writing_commit_begun(struct writing *w, unsigned int n_begun,
			 struct error *err)
{
	AUTO_WRITING held = writing_hold(w);

	return n_begun == w->n_begun ? writing_commit_whole(w, err) : 0;
}
