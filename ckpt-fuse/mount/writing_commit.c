// SPDX-License-Identifier: Apache-2.0
/* The commit of a file that is written. */
#include <errno.h>

#include "ckpt-fuse/mount/writing_priv.h"
#include "common/clock.h"

#define TRIES 4u /* while others remove what is to be replaced */

/* All that is staged is sent, and stays staged: it may be written again. */
static int send_staged(struct writing *w, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < w->tail.n && rc == 0; i++)
		rc = sending_add(&w->sending, w->tail.first + i,
				 &w->tail.units[i], false, err);
	return rc;
}

static int commit_once(struct writing *w, struct error *err)
{
	bool is_whole = !w->sending.writer && tail_start(&w->tail) == 0;
	struct ckpt_stat st;
	struct error ignored = ERROR_INIT;
	int rc = writing_stage_zeros(w, w->size, err);

	is_whole = is_whole && tail_start(&w->tail) == 0;
	if (rc == 0)
		rc = writing_begin_sending(w,
					   is_whole ? w->size
						    : CKPT_SIZE_UNKNOWN,
					   err);
	if (rc < 0)
		return rc;
	if (!w->has_mtime)
		w->attr.mtime_ns = clock_wall_ns();
	ckpt_writer_set_attr(w->sending.writer, &w->attr);
	rc = ckpt_writer_set_xattrs(w->sending.writer, &w->xattrs, err);
	if (rc == 0 && (!is_whole || writing_needs_manifest(w)))
		rc = ckpt_writer_grow(w->sending.writer, w->size, err);
	if (rc == 0)
		rc = send_staged(w, err);
	if (rc < 0) {
		(void)!writing_end_sending(w, NULL, &ignored);
		return rc;
	}
	rc = writing_end_sending(w, &st, err);
	if (rc < 0)
		return rc;
	writing_drop_base(w);
	w->generation = st.generation;
	w->bytes_id = st.bytes_id;
	w->is_dirty = false;
	atomic_fetch_add(&w->all->commits, 1);
	return 0;
}

int writing_store(struct writing *w, struct error *err)
{
	int rc = -EAGAIN;

	/* A plain file, all of which is staged, whose version before is gone. */
	for (unsigned int i = 0; i < TRIES && rc == -EAGAIN; i++)
		rc = commit_once(w, err);
	return rc;
}

int writing_commit_locked(struct writing *w, struct error *err)
{
	int rc = w->rc;

	if (rc < 0 && err)
		*err = w->err;
	if (rc < 0 || !w->is_dirty || !w->path)
		return rc;
	rc = writing_check_hole(w, w->size, err);
	if (rc < 0)
		return rc;
	/* What was sent cannot be sent again: with the writer it is gone. */
	rc = writing_lose(w, writing_store(w, err), err);
	listed_change(w->all->listed, w->path);
	return rc;
}

int writing_commit(struct writing *w, struct error *err)
{
	int rc;

	writing_lock(w);
	rc = writing_commit_locked(w, err);
	writing_unlock(w);
	return rc;
}

unsigned int writing_n_begun(const struct writing *w)
{
	return w->n_begun;
}

int writing_commit_begun(struct writing *w, unsigned int n_begun,
			 struct error *err)
{
	int rc;

	writing_lock(w);
	rc = n_begun == w->n_begun ? writing_commit_locked(w, err) : 0;
	writing_unlock(w);
	return rc;
}
