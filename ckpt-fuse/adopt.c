// SPDX-License-Identifier: Apache-2.0
/* Rewrites a file in the other layout (striped or plain): reads and writes in parallel, then
 * commits once. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "ckpt-fuse/writer.h"
#include "common/bytes.h"
#include "common/mutex.h"
#include "common/side_by_side.h"

#define ALIGNMENT 4096u
/* threads that read a file that becomes plain; units are written in their order */
#define READERS 8u
#define PLAIN_MODE 0644u

struct file_adoption {
	struct ckpt_file *file;
	struct ckpt_writer *writer;
	uint64_t size, unit, n_units;
	const struct ckpt_progress *progress;
	/* protects the members below and calls of `progress` */
	pthread_mutex_t lock;
	pthread_cond_t turn;
	/* next unit to read, and to write, of a file that becomes plain */
	uint64_t next_read, next_written;
	uint64_t done;
	bool has_failed;
};

static uint64_t unit_bytes(const struct file_adoption *a, uint64_t u)
{
	uint64_t left = a->size - u * a->unit;

	return left < a->unit ? left : a->unit;
}

static void report_copied_bytes(struct file_adoption *a, uint64_t len)
{
	(void)pthread_mutex_lock(&a->lock);
	a->done += len;
	if (a->progress && a->progress->fn)
		a->progress->fn(a->progress->arg, a->done, a->size);
	(void)pthread_mutex_unlock(&a->lock);
}

static void note_failure(struct file_adoption *a)
{
	(void)pthread_mutex_lock(&a->lock);
	a->has_failed = true;
	(void)pthread_cond_broadcast(&a->turn);
	(void)pthread_mutex_unlock(&a->lock);
}

static bool has_failed(struct file_adoption *a)
{
	AUTO_UNLOCK held = mutex_hold(&a->lock);

	return a->has_failed;
}

static void *buffer_new(const struct file_adoption *a, struct error *err)
{
	void *data = NULL;

	if (posix_memalign(&data, ALIGNMENT, round_up(a->unit, ALIGNMENT))) {
		(void)error_nomem(err);
		return NULL;
	}
	return data;
}

/* Copy the units of one column in their order. */
static int copy_column_units(void *arg, unsigned int c, struct error *err)
{
	struct file_adoption *a = arg;
	AUTO_FREE char *data = buffer_new(a, err);
	int rc = data ? 0 : -ENOMEM;

	for (uint64_t u = 0; rc == 0 && u < a->n_units && !has_failed(a); u++) {
		uint64_t len = unit_bytes(a, u);

		if (ckpt_writer_column(a->writer, u) != c)
			continue;
		rc = ckpt_read(a->file, u * a->unit, data, len, 0, err);
		if (rc == 0)
			rc = ckpt_write_unit(a->writer, u, data, err);
		if (rc == 0)
			report_copied_bytes(a, len);
	}
	if (rc < 0)
		note_failure(a);
	return rc;
}

/* ----------------------------------------------------------------------- plain --- */

/* Take the next unit to read. False: none is left, or another reader failed. */
static bool take_unit(struct file_adoption *a, uint64_t *ret)
{
	bool is_there;

	(void)pthread_mutex_lock(&a->lock);
	is_there = !a->has_failed && a->next_read < a->n_units;
	if (is_there)
		*ret = a->next_read++;
	(void)pthread_mutex_unlock(&a->lock);
	return is_there;
}

/* Wait until unit `u` may be written. False: a unit before it failed. */
static bool wait_for_earlier_units(struct file_adoption *a, uint64_t u)
{
	bool is_ours;

	(void)pthread_mutex_lock(&a->lock);
	while (a->next_written != u && !a->has_failed)
		(void)pthread_cond_wait(&a->turn, &a->lock);
	is_ours = !a->has_failed;
	(void)pthread_mutex_unlock(&a->lock);
	return is_ours;
}

static void give_turn(struct file_adoption *a)
{
	(void)pthread_mutex_lock(&a->lock);
	a->next_written++;
	(void)pthread_cond_broadcast(&a->turn);
	(void)pthread_mutex_unlock(&a->lock);
}

static int adopt_in_turn(void *arg, unsigned int index, struct error *err)
{
	struct file_adoption *a = arg;
	AUTO_FREE char *data = buffer_new(a, err);
	int rc = data ? 0 : -ENOMEM;
	uint64_t u;

	while (rc == 0 && take_unit(a, &u)) {
		uint64_t len = unit_bytes(a, u);

		rc = ckpt_read(a->file, u * a->unit, data, len, 0, err);
		if (rc < 0 || !wait_for_earlier_units(a, u))
			break;
		rc = ckpt_write_unit(a->writer, u, data, err);
		give_turn(a);
		if (rc == 0)
			report_copied_bytes(a, len);
	}
	if (rc < 0)
		note_failure(a);
	return rc;
}

/* ------------------------------------------------------------------------- both --- */

static int copy_units(struct file_adoption *a, bool to_plain, struct error *err)
{
	unsigned int n = to_plain ? READERS : ckpt_writer_columns(a->writer);
	int rc;

	(void)pthread_mutex_init(&a->lock, NULL);
	(void)pthread_cond_init(&a->turn, NULL);
	rc = side_by_side(n, to_plain ? adopt_in_turn : copy_column_units, a,
			  err);
	(void)pthread_cond_destroy(&a->turn);
	(void)pthread_mutex_destroy(&a->lock);
	return rc;
}

static int rewrite_in_other_layout(struct object_store *s, const char *path,
				   struct ckpt_file *f,
				   const struct ckpt_adopt *a,
				   const struct ckpt_progress *progress,
				   struct error *err)
{
	struct file_adoption c = { .file = f,
				   .size = ckpt_file_stat(f)->size,
				   .progress = progress };
	struct ckpt_version version;
	struct ckpt_write_options o = {
		.size = c.size,
		.layout = a->to_plain ? CKPT_LAYOUT_PLAIN : CKPT_LAYOUT_STRIPED,
		.columns = a->columns,
		.attr = ckpt_file_stat(f)->attr,
		.version = &version,
	};
	AUTO(ckpt_writer) w = NULL;
	int rc = ckpt_file_version(f, &version, err);

	if (!ckpt_file_stat(f)->is_striped) {
		o.attr.uid = a->uid;
		o.attr.gid = a->gid;
	}
	if (rc == 0)
		rc = ckpt_write_open(s, path, &o, &w, err);
	if (rc == 0)
		rc = writer_open_puts(w, err);
	if (rc < 0)
		return rc;
	c.writer = w;
	c.unit = ckpt_writer_unit(w);
	c.n_units = (c.size + c.unit - 1) / c.unit;
	rc = copy_units(&c, a->to_plain, err);
	if (rc == 0)
		rc = ckpt_commit(w, NULL, err);
	return rc == -EAGAIN ? -ESTALE : rc;
}

static int check_attr(const char *path, const struct ckpt_file *f,
		      const struct ckpt_adopt *a, struct error *err)
{
	const struct ckpt_stat *st = ckpt_file_stat(f);

	if (a->may_lose)
		return 0;
	if (st->xattrs_len)
		return error_set(err, ENOTSUP,
				 "'%.200s' has extended attributes, which a "
				 "plain object cannot keep",
				 path);
	if (st->attr.mode != PLAIN_MODE || st->attr.uid != a->uid ||
	    st->attr.gid != a->gid)
		return error_set(err, ENOTSUP,
				 "'%.200s' has permissions %04" PRIo32
				 " and owner %" PRIu32 ":%" PRIu32
				 ", which a plain object cannot keep",
				 path, st->attr.mode, st->attr.uid,
				 st->attr.gid);
	return 0;
}

int ckpt_adopt(struct object_store *s, const char *path, struct ckpt_adopt *a,
	       const struct ckpt_progress *progress, struct error *err)
{
	const struct ckpt_stat *st;
	struct ckpt_file *f;
	int rc = ckpt_open(s, path, &f, err);

	if (rc < 0)
		return rc;
	st = ckpt_file_stat(f);
	a->size = st->size;
	a->is_changed = a->to_plain ? st->is_striped
				    : !st->is_striped && st->size &&
					      st->size > a->threshold;
	if (a->is_changed && a->to_plain)
		rc = check_attr(path, f, a, err);
	if (rc == 0 && a->is_changed && !a->dry_run)
		rc = rewrite_in_other_layout(s, path, f, a, progress, err);
	ckpt_close(f);
	return rc;
}
