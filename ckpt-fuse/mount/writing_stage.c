// SPDX-License-Identifier: Apache-2.0
/* Memory for what is written, and units of it that leave; on their way they are
 * sending.c's. */
#include <errno.h>
#include <inttypes.h>

#include "ckpt-fuse/mount/writing_priv.h"
#include "common/clock.h"
#include "fuse/fuse.h"

#define COLUMNS_USUAL 8u
/* Of a file that is small enough to be staged whole, more columns gain nothing. */
#define STRIPED_SIZE (64 * MIB)
/* Zeros are sent as all bytes are: so many in one call, or one user of the mount, who
 * names a far place, has its threads, and the store's room, for hours. */
#define HOLE_MAX (16 * GIB)
/* Memory is asked for again this often: others may have filled units meanwhile. */
#define ASK_AGAIN_NS (NS_PER_S / 2)

/* -------------------------------------------------------------------- sending --- */

void writing_give_slots(struct writing *w)
{
	if (w->n_slots > 1)
		budget_give_ahead(&w->all->slots, w->n_slots);
	else
		budget_give(&w->all->slots, w->n_slots);
	w->n_slots = 0;
}

/* Who has it may have to be served by the same threads of the mount. */
static bool wait_for(struct budget *b, uint64_t bytes, int64_t deadline_ns)
{
	bool is_had = budget_take(b, bytes);

	if (is_had)
		return true;
	session_begin_wait();
	is_had = budget_wait(b, bytes, deadline_ns);
	session_end_wait();
	return is_had;
}

/* As many columns as are free, and leave some to other files; the first is waited for.
 * -ENOBUFS */
static int take_slots(struct writing *w, uint32_t most, struct error *err)
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
		if (!wait_for(&all->slots, 1,
			      clock_now_ns() + all->patience_ns))
			return error_set(err, ENOBUFS,
					 "files that are written at the same "
					 "time have all the memory of the "
					 "store: give the mount more, or write "
					 "fewer");
	}
	w->n_slots = (uint32_t)share;
	return 0;
}

/* Of a file that has so many bytes, or is going to have more. */
static uint32_t columns_of(const struct writing *w, uint64_t size)
{
	if (w->columns)
		return w->columns;
	return size > STRIPED_SIZE ? COLUMNS_USUAL : 1;
}

int writing_begin_sending(struct writing *w, uint64_t size, struct error *err)
{
	struct ckpt_write_options o = { .size = size, .attr = w->attr };
	int rc;

	/* A plain object has no place for them, nor for a mode. */
	if (writing_needs_manifest(w))
		o.size = CKPT_SIZE_UNKNOWN;

	if (w->sending.writer)
		return 0;
	rc = writing_open_base(w, err);
	if (rc < 0)
		return rc;
	rc = take_slots(w, columns_of(w, size), err);
	if (rc < 0)
		return rc;
	o.columns = w->n_slots;
	if (w->path)
		o.version = &w->version;
	o.base = w->base;
	o.base_size = tail_start(&w->tail);
	/* A name is asked for; that of a removed file is never committed. */
	rc = sending_begin(&w->sending, w->all->store,
			   w->path ? w->path : "removed", &o, err);
	if (rc < 0)
		writing_give_slots(w);
	return rc;
}

int writing_end_sending(struct writing *w, struct ckpt_stat *ret,
			struct error *err)
{
	int rc = sending_end(&w->sending, ret, err);

	writing_give_slots(w);
	return rc;
}

/* Bytes that were taken are gone. */
int writing_lose(struct writing *w, int rc, const struct error *err)
{
	if (rc < 0 && w->rc == 0) {
		w->rc = rc;
		w->err = err ? *err : (struct error)ERROR_INIT;
		atomic_fetch_add(&w->all->failures, 1);
	}
	return rc;
}

/* The oldest unit, which is whole, leaves for its column. */
static int send_oldest(struct writing *w, struct error *err)
{
	uint64_t u = w->tail.first;
	struct tail_unit unit;
	int rc = writing_begin_sending(w, CKPT_SIZE_UNKNOWN, err);

	if (rc == 0)
		rc = ckpt_writer_grow(w->sending.writer, (u + 1) * WRITING_UNIT,
				      err);
	/* Another has the file: that stays so. */
	if (rc < 0)
		return rc == -ESTALE ? writing_lose(w, rc, err) : rc;
	tail_pop(&w->tail, &unit);
	return writing_lose(w, sending_add(&w->sending, u, &unit, true, err),
			    err);
}

/* --------------------------------------------------------------------- memory --- */

/* Files that are written have whole units staged, which can leave now. */
static void relieve(struct writing *me)
{
	struct writings *all = me->all;
	struct writing *w;

	(void)pthread_mutex_lock(&all->lock);
	TAILQ_FOREACH(w, &all->list, link)
	{
		struct error ignored = ERROR_INIT; /* its next write has it */

		if (w == me || pthread_mutex_trylock(&w->op) != 0)
			continue;
		while (w->is_dirty && w->sending.writer &&
		       tail_has_whole(&w->tail))
			if (send_oldest(w, &ignored) < 0)
				break;
		writing_unlock(w);
	}
	(void)pthread_mutex_unlock(&all->lock);
}

int writing_reserve(struct writing *w, uint64_t bytes, struct error *err)
{
	struct writings *all = w->all;
	int64_t deadline = clock_now_ns() + all->patience_ns;

	while (!budget_take(all->budget, bytes)) {
		int64_t until = clock_now_ns() + ASK_AGAIN_NS;

		if (tail_has_whole(&w->tail)) {
			int rc = send_oldest(w, err);

			if (rc < 0)
				return rc;
			continue;
		}
		if (readings_shrink(all->readings))
			continue;
		relieve(w);
		if (wait_for(all->budget, bytes,
			     until < deadline ? until : deadline))
			break;
		if (clock_now_ns() >= deadline)
			return error_set(err, ENOBUFS,
					 "files that are written at the same "
					 "time have all the memory: give the "
					 "mount more, or write fewer");
	}
	return 0;
}

/* ------------------------------------------------------------------- staging --- */

int writing_stage_bytes(struct writing *w, uint64_t off, const char *data,
			size_t len, struct error *err)
{
	while (len) {
		size_t n = tail_piece(&w->tail, off, len);
		int rc = writing_reserve(w, tail_wants(&w->tail, off + n), err);

		if (rc < 0)
			return rc;
		if (tail_write(&w->tail, off, data, n) < 0)
			return error_nomem(err);
		off += n;
		len -= n;
		if (data)
			data += n;
		while (tail_has_whole(&w->tail) &&
		       w->tail.end - tail_start(&w->tail) > w->all->tail_most) {
			rc = send_oldest(w, err);
			if (rc < 0)
				return writing_lose(w, rc, err);
		}
	}
	return 0;
}

int writing_stage_zeros(struct writing *w, uint64_t to, struct error *err)
{
	int rc = 0;

	while (rc == 0 && w->tail.end < to) {
		uint64_t n = to - w->tail.end;

		rc = writing_stage_bytes(w, w->tail.end, NULL,
					 n < WRITING_UNIT ? (size_t)n
							  : WRITING_UNIT,
					 err);
	}
	return rc;
}

int writing_check_hole(const struct writing *w, uint64_t to, struct error *err)
{
	if (to <= w->tail.end || to - w->tail.end <= HOLE_MAX)
		return 0;
	return error_set(err, EFBIG,
			 "'%.200s' would have %" PRIu64
			 " GiB that nobody wrote: %" PRIu64 " are taken",
			 w->path ? w->path : "", (to - w->tail.end) / GIB,
			 (uint64_t)(HOLE_MAX / GIB));
}
