// SPDX-License-Identifier: Apache-2.0
/* The state of a written file: its initial version, memory for its units, and the choice of units
 * to send; sending.c sends them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "ckpt-fuse/mount/writing_priv.h"
#include "ckpt-fuse/parts.h"
#include "common/clock.h"
#include "fuse/fuse.h"

#define COLUMNS_USUAL 8u
/* Up to this size more columns gain nothing, because the file is staged completely. */
#define STRIPED_SIZE (64 * MIB)
/* Interval between attempts to get memory: other files may have filled units meanwhile. */
#define ASK_AGAIN_NS (NS_PER_S / 2)
#define NO_MEMORY \
	"files that are written at the same time have all the memory%s: give the mount " \
	"more, or write fewer"

/* ------------------------------------------------------------------------ lock --- */

struct writing *writing_hold(struct writing *w)
{
	(void)pthread_mutex_lock(&w->op);
	return w;
}

void writing_show(struct writing *w)
{
	AUTO_UNLOCK held = mutex_hold(&w->seen_lock);

	w->seen = (struct writing_seen){ .size = w->size,
					 .attr = w->attr,
					 .is_known = w->is_loaded,
					 .is_dirty = w->is_dirty && w->path,
					 .is_torn = w->is_dirty && w->is_torn,
					 .rc = w->rc };
	if (w->rc < 0)
		w->seen.err = w->err;
}

void writing_unlock(struct writing *w)
{
	writing_show(w);
	(void)pthread_mutex_unlock(&w->op);
}

void writing_drop_reader(struct writing *w)
{
	reading_unref(w->reader);
	w->reader = NULL;
}

void writing_drop_units(struct writing *w, uint64_t from)
{
	while (w->stage.n && w->stage.units[w->stage.n - 1].u >= from)
		budget_give(w->all->budget,
			    unit_stage_drop(&w->stage,
					    &w->stage.units[w->stage.n - 1]));
}

/* -------------------------------------------------------------------- sending --- */

void writing_give_slots(struct writing *w)
{
	if (w->n_slots > 1)
		budget_give_ahead(&w->all->slots, w->n_slots);
	else
		budget_give(&w->all->slots, w->n_slots);
	w->n_slots = 0;
}

/* Wait for memory, without blocking a thread of the mount that the files holding it may need. */
static bool wait_for_budget(struct budget *b, uint64_t bytes,
			    int64_t deadline_ns)
{
	bool is_had = budget_take(b, bytes);

	if (is_had)
		return true;
	session_begin_wait();
	is_had = budget_wait(b, bytes, deadline_ns);
	session_end_wait();
	return is_had;
}

/* A file other than `me` that has columns and sends nothing, held; NULL: none. */
static struct writing *find_idle_columns(struct writing *me)
{
	struct writings *all = me->all;
	struct writing *w;
	AUTO_UNLOCK held = mutex_hold(&all->lock);

	TAILQ_FOREACH(w, &all->list, link)
	{
		if (w == me || pthread_mutex_trylock(&w->op) != 0)
			continue;
		if (w->n_slots && sending_is_idle(&w->sending))
			return w;
		(void)pthread_mutex_unlock(&w->op);
	}
	return NULL;
}

/* End the segment of a file that sends nothing now, and may never again, so that its columns are
 * free. Its next unit begins another segment. */
static bool relieve_columns(struct writing *me)
{
	struct writing *w = find_idle_columns(me);
	struct error err = ERROR_INIT;

	if (!w)
		return false;
	(void)writing_lose(w, sending_end_segment(&w->sending, &err), &err);
	writing_give_slots(w);
	writing_unlock(w);
	return true;
}

/* Wait for one column. False: there is none before the deadline. */
static bool wait_for_slot(struct writing *w, int64_t deadline_ns)
{
	int64_t until;

	do {
		until = clock_now_ns() + ASK_AGAIN_NS;
		if (wait_for_budget(&w->all->slots, 1,
				    until < deadline_ns ? until : deadline_ns))
			return true;
	} while (relieve_columns(w) || clock_now_ns() < deadline_ns);
	return false;
}

/* Reserve as many columns as are free, leaving some to other files; waits for the first.
 * -ENOBUFS */
static int take_slots(struct writing *w, uint32_t most, int64_t deadline_ns,
		      struct error *err)
{
	struct writings *all = w->all;
	unsigned int n = atomic_load(&all->n);
	uint64_t share = all->slots.most / (n ? n : 1);

	if (share > most)
		share = most;
	for (; share > 1; share--)
		if (budget_take_ahead(&all->slots, share))
			break;
	if (share <= 1) {
		share = 1;
		if (!wait_for_slot(w, deadline_ns))
			return error_set(err, ENOBUFS, NO_MEMORY,
					 " of the store");
	}
	w->n_slots = (uint32_t)share;
	return 0;
}

int writing_take_slots(struct writing *w, uint32_t most, struct error *err)
{
	return take_slots(w, most, clock_now_ns() + w->all->patience_ns, err);
}

/* Number of columns for a segment of `units` units; 0 units: for a file that still grows. */
static uint32_t columns_of(const struct writing *w, uint64_t units)
{
	uint32_t n = w->all->columns;

	if (!n)
		n = units && w->size <= STRIPED_SIZE ? 1 : COLUMNS_USUAL;
	return units && units < n ? (uint32_t)units : n;
}

static int begin_segment(struct writing *w, uint64_t units, int64_t deadline_ns,
			 struct error *err)
{
	int rc = writing_have_writer(w, err);

	if (rc < 0 || ckpt_writer_in_segment(w->sending.writer))
		return rc;
	rc = take_slots(w, columns_of(w, units), deadline_ns, err);
	if (rc < 0)
		return rc;
	rc = sending_begin_segment(&w->sending, w->n_slots, err);
	if (rc < 0)
		writing_give_slots(w);
	return rc;
}

int writing_begin_segment(struct writing *w, uint64_t units, struct error *err)
{
	return begin_segment(w, units, clock_now_ns() + w->all->patience_ns,
			     err);
}

int writing_end_sending(struct writing *w, struct ckpt_stat *ret,
			struct error *err)
{
	int rc = sending_end(&w->sending, ret, err);

	writing_give_slots(w);
	return rc;
}

int writing_lose(struct writing *w, int rc, const struct error *err)
{
	if (rc < 0 && w->rc == 0) {
		w->rc = rc;
		w->err = err ? *err : (struct error)ERROR_INIT;
		atomic_fetch_add(&w->all->failures, 1);
	}
	return rc;
}

/* Send a complete unit to its column. */
static int send_unit(struct writing *w, struct staged_unit *x,
		     struct error *err)
{
	struct staged_unit unit;
	int rc = writing_begin_segment(w, 0, err);

	if (rc < 0)
		return rc;
	staged_set_up_to(x, w->stage.unit);
	unit = *x;
	unit_stage_take(&w->stage, x);
	return sending_add(&w->sending, &unit, w->stage.unit, true, err);
}

/* --------------------------------------------------------------------- memory --- */

/* Can the unit be dropped (it is unchanged) or sent (it is complete and has full length)? */
static bool can_unit_leave_memory(const struct writing *w,
				  const struct staged_unit *x)
{
	return !x->is_dirty || (x->is_whole && x->size == w->stage.unit &&
				(x->u + 1) * w->stage.unit <= w->size);
}

static bool is_dirty_unit_full(const struct writing *w,
			       const struct staged_unit *x)
{
	return x->is_dirty && staged_is_full(&w->stage, x);
}

static size_t count_full_units(const struct writing *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->stage.n; i++)
		n += is_dirty_unit_full(w, &w->stage.units[i]);
	return n;
}

enum unit_kind { UNIT_ANY, UNIT_FULL, UNIT_CLEAN };

static bool is_unit_of_kind(const struct writing *w,
			    const struct staged_unit *x, enum unit_kind kind)
{
	return kind == UNIT_ANY ||
	       (kind == UNIT_FULL ? is_dirty_unit_full(w, x) : !x->is_dirty);
}

/* The least recently used unit that can leave; NULL: none. */
static struct staged_unit *find_oldest_unit(struct writing *w, uint64_t keep,
					    enum unit_kind kind)
{
	struct staged_unit *best = NULL;

	for (size_t i = 0; i < w->stage.n; i++) {
		struct staged_unit *x = &w->stage.units[i];

		if (x->u == keep || !can_unit_leave_memory(w, x) ||
		    !is_unit_of_kind(w, x, kind))
			continue;
		if (!best || x->used < best->used)
			best = x;
	}
	return best;
}

static int send_or_drop_unit(struct writing *w, struct staged_unit *x,
			     struct error *err)
{
	if (x->is_dirty)
		return send_unit(w, x, err);
	budget_give(w->all->budget, unit_stage_drop(&w->stage, x));
	return 0;
}

/* Complete the oldest partly written unit with its stored bytes, in the memory that it has, so that
 * it can be sent. False: there is none. */
static bool fill_oldest_partial_unit(struct writing *w, uint64_t keep,
				     int *ret_rc, struct error *err)
{
	struct staged_unit *best = NULL;

	for (size_t i = 0; i < w->stage.n; i++) {
		struct staged_unit *x = &w->stage.units[i];

		if (x->u != keep && !x->is_whole &&
		    (!best || x->used < best->used))
			best = x;
	}
	if (best)
		*ret_rc = writing_fill(w, best, err);
	return best != NULL;
}

/* Send units. A file keeps --tail bytes of full ones; of partly written ones at most a quarter of
 * the memory, so that other files get some. */
int writing_send_full(struct writing *w, struct error *err)
{
	const uint64_t tail = w->all->tail_most,
		       part = w->all->budget->most / 4;
	const uint64_t most = part > tail ? part : tail;
	struct staged_unit *x;
	int rc = 0;

	while (rc == 0 && w->stage.n * w->stage.unit > tail &&
	       count_full_units(w) * w->stage.unit > tail - w->stage.unit &&
	       (x = find_oldest_unit(w, WRITING_NO_UNIT, UNIT_FULL)))
		rc = send_or_drop_unit(w, x, err);
	while (rc == 0 && w->stage.n * w->stage.unit > most) {
		x = find_oldest_unit(w, WRITING_NO_UNIT, UNIT_ANY);
		if (x)
			rc = send_or_drop_unit(w, x, err);
		else if (!fill_oldest_partial_unit(w, WRITING_NO_UNIT, &rc,
						   err))
			break;
	}
	return rc;
}

/* A unit leaves, if that waits for no columns.  When the rest of a unit cannot be read, it stays:
 * nothing is lost. */
static void free_one_unit(struct writing *w)
{
	struct error err = ERROR_INIT;
	struct staged_unit *x = find_oldest_unit(w, WRITING_NO_UNIT, UNIT_ANY);
	int rc;

	if (!x && fill_oldest_partial_unit(w, WRITING_NO_UNIT, &rc, &err))
		x = find_oldest_unit(w, WRITING_NO_UNIT, UNIT_ANY);
	if (x && x->is_dirty && begin_segment(w, 0, 0, &err) < 0)
		x = find_oldest_unit(w, WRITING_NO_UNIT, UNIT_CLEAN);
	if (x)
		(void)writing_lose(w, send_or_drop_unit(w, x, &err), &err);
}

/* Send units of other files that need not be read before and wait for no columns.  Returns the file
 * that has most staged all the same, held; NULL: none has more than a unit. */
static struct writing *free_units_of_others(struct writing *me)
{
	struct writings *all = me->all;
	struct writing *w, *largest = NULL;
	AUTO_UNLOCK held = mutex_hold(&all->lock);

	TAILQ_FOREACH(w, &all->list, link)
	{
		struct error err = ERROR_INIT;
		struct writing *other = w;
		struct staged_unit *x;
		int rc = 0;

		if (w == me || pthread_mutex_trylock(&w->op) != 0)
			continue;
		while (rc == 0 && w->is_dirty && w->sending.writer &&
		       ckpt_writer_in_segment(w->sending.writer) &&
		       (x = find_oldest_unit(w, WRITING_NO_UNIT, UNIT_ANY)))
			rc = writing_lose(w, send_or_drop_unit(w, x, &err),
					  &err);
		if (w->path && w->rc == 0 &&
		    w->stage.n > (largest ? largest->stage.n : 1)) {
			other = largest;
			largest = w;
		}
		if (other)
			writing_unlock(other);
	}
	return largest;
}

/* Take bytes of the mount's memory, if necessary by sending complete units except `keep`.
 * -ENOBUFS */
static int writing_reserve(struct writing *w, uint64_t bytes, uint64_t keep,
			   struct error *err)
{
	struct writings *all = w->all;
	int64_t deadline = clock_now_ns() + all->patience_ns;
	int rc = 0;

	while (rc == 0 && !budget_take(all->budget, bytes)) {
		int64_t until = clock_now_ns() + ASK_AGAIN_NS;
		struct staged_unit *x = find_oldest_unit(w, keep, UNIT_ANY);
		struct writing *other;

		if (x) {
			rc = send_or_drop_unit(w, x, err);
			continue;
		}
		if (fill_oldest_partial_unit(w, keep, &rc, err) ||
		    readings_shrink(all->readings))
			continue;
		other = free_units_of_others(w);
		if (other) {
			free_one_unit(other);
			writing_unlock(other);
		}
		if (wait_for_budget(all->budget, bytes,
				    until < deadline ? until : deadline))
			break;
		if (clock_now_ns() >= deadline)
			return error_set(err, ENOBUFS, NO_MEMORY, "");
	}
	return rc;
}

/* -------------------------------------------------------------------- staging --- */

int writing_have_unit(struct writing *w, uint64_t u, size_t need,
		      struct staged_unit **ret, struct error *err)
{
	int rc = writing_reserve(w, unit_stage_wants(&w->stage, u, need), u,
				 err);

	if (rc < 0)
		return rc;
	return unit_stage_have(&w->stage, u, need, ret) < 0 ? error_nomem(err)
							    : 0;
}

/* Read a unit from the store. A sent unit can be read only after its segment was ended. */
static int read_unit_from_store(struct writing *w, uint64_t u, void *buf,
				struct error *err)
{
	int rc = 0;

	if (!ckpt_writer_can_read(w->sending.writer, u)) {
		rc = sending_end_segment(&w->sending, err);
		writing_give_slots(w);
	}
	return rc < 0 ? rc : ckpt_writer_read(w->sending.writer, u, buf, err);
}

int writing_fill(struct writing *w, struct staged_unit *x, struct error *err)
{
	size_t len = w->sending.writer
			     ? ckpt_writer_stored(w->sending.writer, x->u)
			     : 0;
	AUTO_FREE char *stored = malloc(len ? len : 1);
	int rc = stored ? 0 : error_nomem(err);

	if (rc == 0 && len)
		rc = read_unit_from_store(w, x->u, stored, err);
	if (rc == 0)
		staged_fill(x, stored, len);
	return rc;
}

int writing_stage_bytes(struct writing *w, uint64_t off, const char *data,
			size_t len, struct error *err)
{
	const uint64_t u = off / w->stage.unit;
	const size_t at = (size_t)(off % w->stage.unit);
	struct staged_unit *x = unit_stage_find(&w->stage, u);
	size_t stored = 0, need = at + len;
	int rc = x ? 0 : writing_have_map(w, err);

	if (rc < 0)
		return rc;
	if (!x && w->sending.writer)
		stored = ckpt_writer_stored(w->sending.writer, u);
	/* The unit's other bytes will be read from the store when needed: make room for all. */
	if (stored)
		need = w->stage.unit;
	rc = writing_have_unit(w, u, need, &x, err);
	if (rc < 0)
		return rc;
	if (stored)
		x->is_whole = at == 0 && len >= stored;
	if (!staged_can_write(x, at, len))
		rc = writing_fill(w, x, err);
	if (rc == 0)
		staged_write(&w->stage, x, at, data, len);
	return rc;
}

/* Clear bytes behind the end in the last unit, left from a truncation or from when the file was
 * longer. */
static int clear_bytes_behind_end(struct writing *w, struct error *err)
{
	const uint64_t u = w->size / w->stage.unit;
	const size_t at = (size_t)(w->size % w->stage.unit);
	struct staged_unit *x = unit_stage_find(&w->stage, u);
	int rc = x && x->is_whole ? 0 : writing_have_map(w, err);
	bool has_stored;

	if (rc < 0)
		return rc;
	/* A plain object is staged already. */
	x = unit_stage_find(&w->stage, u);
	has_stored = w->sending.writer &&
		     ckpt_writer_stored(w->sending.writer, u) > at;
	if (x ? x->set <= at && (x->is_whole || !has_stored) : !has_stored)
		return 0;
	if (!x) {
		rc = writing_have_unit(w, u, w->stage.unit, &x, err);
		if (rc < 0)
			return rc;
		x->is_whole = false;
	}
	if (!x->is_whole)
		rc = writing_fill(w, x, err);
	if (rc == 0) {
		x->set = at;
		x->is_dirty = true;
	}
	return rc;
}

int writing_extend(struct writing *w, uint64_t size, struct error *err)
{
	if (size > CKPT_SIZE_MAX)
		return error_set(err, EFBIG,
				 "'%.200s' would have %" PRIu64 " TiB: %" PRIu64
				 " are the most",
				 w->path ? w->path : "", size / (1024 * GIB),
				 (uint64_t)CKPT_SIZE_MAX / (1024 * GIB));
	if (size <= w->size || w->size % w->stage.unit == 0)
		return 0;
	return clear_bytes_behind_end(w, err);
}

/* ------------------------------------------------ what it is opened with --- */

/* Stage the whole file and mark it dirty, since no writer knows its units: a plain object; a small
 * file that is striped only for its attributes, and may become plain; and a file that a group wrote
 * in smaller units than a writer uses. */
static int stage_whole_file(struct writing *w, struct ckpt_file *f,
			    struct error *err)
{
	const uint64_t size = ckpt_file_stat(f)->size;
	struct staged_unit *x;
	int rc = 0;

	if (size > w->all->tail_most)
		return error_set(err, EOPNOTSUPP,
				 "'%.200s' is a large object of others: it can "
				 "be replaced, not changed",
				 w->path);
	for (uint64_t at = 0; at < size && rc == 0; at += w->stage.unit) {
		size_t len = size - at < w->stage.unit ? (size_t)(size - at)
						       : w->stage.unit;

		x = unit_stage_find(&w->stage, at / w->stage.unit);
		if (!x) {
			rc = writing_have_unit(w, at / w->stage.unit, len, &x,
					       err);
			if (rc == 0)
				rc = ckpt_read(f, at, x->data, len, 0, err);
			if (rc < 0)
				break;
			x->set = len;
		}
		x->is_dirty = true;
	}
	w->is_staged_whole = rc == 0;
	if (rc < 0)
		writing_drop_units(w, 0);
	return rc;
}

/* A striped file goes on in the units that it has, so that a change stages those alone. */
static int stage_existing_file(struct writing *w, struct ckpt_file *f,
			       struct error *err)
{
	const struct ckpt_stat *st = ckpt_file_stat(f);
	const uint64_t unit = ckpt_file_unit(f);

	if (!st->is_striped || st->size <= unit || unit > CKPT_PART_UNIT ||
	    st->chunk_size != CKPT_PART_CHUNK)
		return stage_whole_file(w, f, err);
	w->stage.unit = unit;
	return sending_begin(&w->sending, w->all->store, w->path, f, unit, err);
}

/* Is it the version that is being changed? Its attributes may differ. */
static bool is_version_being_changed(const struct writing *w,
				     const struct ckpt_file *f)
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
	rc = is_version_being_changed(w, f)
		     ? stage_existing_file(w, f, err)
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
	/* A path is required; that of a removed file is never committed. */
	rc = sending_begin(&w->sending, w->all->store,
			   w->path ? w->path : "removed", NULL, w->stage.unit,
			   err);
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
		rc = stage_existing_file(w, f, err);
	if (rc < 0)
		return rc;
	w->size = st->size;
	w->generation = st->generation;
	w->bytes_id = st->bytes_id;
	w->is_loaded = true;
	return 0;
}

static int load_whole_file(struct writing *w, struct error *err)
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
	return rc < 0 ? rc : load_whole_file(w, err);
}
