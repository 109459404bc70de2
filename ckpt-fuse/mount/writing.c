// SPDX-License-Identifier: Apache-2.0
/* Writes, truncations and commits of a file; what is on its way is in sending.c. */
#include "ckpt-fuse/mount/writing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt-fuse/mount/sending.h"
#include "ckpt-fuse/mount/tail.h"
#include "common/bytes.h"
#include "common/clock.h"

#define UNIT (4 * MIB)
#define COLUMNS_USUAL 8u
/* Of a file that is small enough to be staged whole, more columns gain nothing. */
#define STRIPED_SIZE (64 * MIB)
/* Zeros are sent as all bytes are: so many in one call, or one user of the mount, who
 * names a far place, has its threads, and the store's room, for hours. */
#define HOLE_MAX (16 * GIB)
/* Memory is asked for again this often: others may have filled units meanwhile. */
#define ASK_AGAIN_NS (NS_PER_S / 2)
#define TRIES 4u /* while others remove what is to be replaced */

struct writing {
	TAILQ_ENTRY(writing) link; /* writings.lock */
	struct writings *all;
	pthread_mutex_t op; /* all below; held over what the store is asked */
	char *path;         /* NULL: it has none any more */
	struct tail tail;
	struct sending sending;
	struct ckpt_file
		*base; /* the bytes before the tail, while none are sent */
	struct ckpt_file *reader;    /* what was committed, to be read */
	uint64_t size;               /* beyond the tail's end are zeros */
	uint64_t generation;         /* of what was committed */
	struct ckpt_version version; /* that the next commit replaces */
	uint32_t n_slots; /* columns that are being written, at most */
	struct ckpt_attr attr;
	struct buf xattrs;
	uint32_t columns; /* that were asked for; 0: by the size */
	bool has_mtime;   /* it was set, and is not that of the last write */
	bool is_loaded;   /* `size` and the tail are known */
	bool is_dirty;
	int rc; /* bytes were lost: so all that follows fails */
	struct error err;
	/* Of the above, as it was when `op` was last given back. */
	pthread_mutex_t seen_lock;
	struct writing_seen {
		uint64_t size;
		struct ckpt_attr attr;
		bool is_known, is_dirty;
		int rc;
		struct error err;
	} seen;
};

static int64_t wall_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void lock_op(struct writing *w)
{
	(void)pthread_mutex_lock(&w->op);
}

static void show(struct writing *w)
{
	(void)pthread_mutex_lock(&w->seen_lock);
	w->seen = (struct writing_seen){ .size = w->size,
					 .attr = w->attr,
					 .is_known = w->is_loaded,
					 .is_dirty = w->is_dirty && w->path,
					 .rc = w->rc };
	if (w->rc < 0)
		w->seen.err = w->err;
	(void)pthread_mutex_unlock(&w->seen_lock);
}

static void unlock_op(struct writing *w)
{
	show(w);
	(void)pthread_mutex_unlock(&w->op);
}

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
	w->columns = o->columns;
	w->is_loaded = w->is_dirty = o->is_new;
	if (o->version)
		w->version = *o->version;
	tail_init(&w->tail, all->budget, UNIT, 0);
	(void)pthread_mutex_init(&w->op, NULL);
	(void)pthread_mutex_init(&w->seen_lock, NULL);
	show(w);
	sending_init(&w->sending, all->budget, all->jobs);
	(void)pthread_mutex_lock(&all->lock);
	TAILQ_INSERT_TAIL(&all->list, w, link);
	(void)pthread_mutex_unlock(&all->lock);
	atomic_fetch_add(&all->n, 1);
	*ret = w;
	return 0;
}

static void drop_reader(struct writing *w)
{
	ckpt_close(w->reader);
	w->reader = NULL;
}

static void drop_base(struct writing *w)
{
	ckpt_close(w->base);
	w->base = NULL;
}

static void cut_tail(struct writing *w, uint64_t end)
{
	budget_give(w->all->budget, tail_cut(&w->tail, end));
}

static void give_slots(struct writing *w)
{
	if (w->n_slots > 1)
		budget_give_ahead(&w->all->slots, w->n_slots);
	else
		budget_give(&w->all->slots, w->n_slots);
	w->n_slots = 0;
}

void writing_free(struct writing *w)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->all->lock);
	TAILQ_REMOVE(&w->all->list, w, link);
	(void)pthread_mutex_unlock(&w->all->lock);
	atomic_fetch_sub(&w->all->n, 1);
	sending_fini(&w->sending);
	give_slots(w);
	cut_tail(w, tail_start(&w->tail));
	tail_fini(&w->tail);
	drop_reader(w);
	drop_base(w);
	(void)pthread_mutex_destroy(&w->op);
	(void)pthread_mutex_destroy(&w->seen_lock);
	buf_fini(&w->xattrs);
	free(w->path);
	free(w);
}

/* -------------------------------------------------------------------- sending --- */

/* Is it the file that goes on here?  Its attributes may be others. */
static bool is_own_base(struct writing *w)
{
	struct ckpt_version v = ckpt_file_opened(w->base);

	return w->version.is_known
		       ? v.bytes_id == w->version.bytes_id
		       : ckpt_file_stat(w->base)->generation == w->generation;
}

static int open_base(struct writing *w, struct error *err)
{
	int rc;

	if (w->base || tail_start(&w->tail) == 0)
		return 0;
	if (!w->path)
		return error_set(err, EOPNOTSUPP,
				 "a file that was removed cannot go on");
	rc = ckpt_open(w->all->store, w->path, &w->base, err);
	if (rc == 0 && !is_own_base(w))
		rc = error_set(err, ESTALE,
			       "'%.200s' was replaced while it was written",
			       w->path);
	return rc;
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
		if (!budget_wait(&all->slots, 1,
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

/* Have a writer to send to; `size` is the whole file's, or CKPT_SIZE_UNKNOWN. */
static int begin(struct writing *w, uint64_t size, struct error *err)
{
	struct ckpt_write_options o = { .size = size, .attr = w->attr };
	int rc;

	/* A plain object has no place for them. */
	if (w->xattrs.len)
		o.size = CKPT_SIZE_UNKNOWN;

	if (w->sending.writer)
		return 0;
	rc = open_base(w, err);
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
		give_slots(w);
	return rc;
}

/* The writer's end, with a commit when `ret` is not NULL. */
static int end_sending(struct writing *w, struct ckpt_stat *ret,
		       struct error *err)
{
	int rc = sending_end(&w->sending, ret, err);

	give_slots(w);
	return rc;
}

/* The oldest unit, which is whole, leaves for its column. */
static int send_oldest(struct writing *w, struct error *err)
{
	uint64_t u = w->tail.first;
	struct tail_unit unit;
	int rc = begin(w, CKPT_SIZE_UNKNOWN, err);

	if (rc == 0)
		rc = ckpt_writer_grow(w->sending.writer, (u + 1) * UNIT, err);
	if (rc < 0)
		return rc;
	tail_pop(&w->tail, &unit);
	return sending_add(&w->sending, u, &unit, true, err);
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
		unlock_op(w);
	}
	(void)pthread_mutex_unlock(&all->lock);
}

static int reserve(struct writing *w, uint64_t bytes, struct error *err)
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
		if (all->shrink(all->arg))
			continue;
		relieve(w);
		if (budget_wait(all->budget, bytes,
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

/* ------------------------------------------------------------------- existing --- */

static int load_tail(struct writing *w, uint64_t from, uint64_t to,
		     struct error *err)
{
	int rc = 0;

	tail_init(&w->tail, w->all->budget, UNIT, from);
	while (rc == 0 && from < to) {
		size_t len = tail_piece(&w->tail, from, (size_t)(to - from));

		rc = reserve(w, tail_wants(&w->tail, from + len), err);
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
		    (uint64_t)st->chunk_size * st->unit_chunks != UNIT) {
			drop_base(w);
			return error_set(err, EOPNOTSUPP,
					 "'%.200s' is a large plain object: it "
					 "can be replaced, not changed",
					 w->path);
		}
		start = st->size / UNIT * UNIT - UNIT;
	}
	w->size = st->size;
	w->generation = st->generation;
	if (w->all->compares)
		rc = ckpt_file_version(w->base, &w->version, err);
	if (rc < 0) {
		drop_base(w);
		return rc;
	}
	if (ckpt_file_xattrs(w->base)->len &&
	    buf_append(&w->xattrs, ckpt_file_xattrs(w->base)->data,
		       ckpt_file_xattrs(w->base)->len) < 0) {
		drop_base(w);
		return error_nomem(err);
	}
	rc = load_tail(w, start, st->size, err);
	if (rc < 0) {
		cut_tail(w, start);
		drop_base(w);
		buf_reset(&w->xattrs);
		return rc;
	}
	if (start == 0)
		drop_base(w);
	w->is_loaded = true;
	return 0;
}

/* Before each change: is there what it would change? */
static int prepare(struct writing *w, struct error *err)
{
	int rc = w->rc;

	if (rc < 0 && err)
		*err = w->err;
	return rc < 0 ? rc : load(w, err);
}

static void note_change(struct writing *w)
{
	w->is_dirty = true;
	w->has_mtime = false;
	drop_reader(w);
}

/* Bytes that were taken are gone. */
static int lose(struct writing *w, int rc, const struct error *err)
{
	if (rc < 0 && w->rc == 0) {
		w->rc = rc;
		w->err = err ? *err : (struct error)ERROR_INIT;
		atomic_fetch_add(&w->all->failures, 1);
	}
	return rc;
}

/* --------------------------------------------------------------------- writes --- */

/* `data` NULL: zeros. */
static int stage(struct writing *w, uint64_t off, const char *data, size_t len,
		 struct error *err)
{
	while (len) {
		size_t n = tail_piece(&w->tail, off, len);
		int rc = reserve(w, tail_wants(&w->tail, off + n), err);

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
				return lose(w, rc, err);
		}
	}
	return 0;
}

static int stage_zeros(struct writing *w, uint64_t to, struct error *err)
{
	int rc = 0;

	while (rc == 0 && w->tail.end < to) {
		uint64_t n = to - w->tail.end;

		rc = stage(w, w->tail.end, NULL, n < UNIT ? (size_t)n : UNIT,
			   err);
	}
	return rc;
}

static int check_hole(const struct writing *w, uint64_t to, struct error *err)
{
	if (to <= w->tail.end || to - w->tail.end <= HOLE_MAX)
		return 0;
	return error_set(err, EFBIG,
			 "'%.200s' would have %" PRIu64
			 " GiB that nobody wrote: %" PRIu64 " are taken",
			 w->path ? w->path : "", (to - w->tail.end) / GIB,
			 (uint64_t)(HOLE_MAX / GIB));
}

static int refuse_old(const struct writing *w, uint64_t off, struct error *err)
{
	return error_set(err, EOPNOTSUPP,
			 "byte %" PRIu64 " of '%.200s' was sent already: only "
			 "the last %" PRIu64 " MiB can be written again",
			 off, w->path ? w->path : "", w->all->tail_most / MIB);
}

int writing_write(struct writing *w, uint64_t off, const void *data, size_t len,
		  struct error *err)
{
	int rc;

	lock_op(w);
	rc = prepare(w, err);
	if (rc == 0 && off < tail_start(&w->tail))
		rc = refuse_old(w, off, err);
	if (rc == 0)
		rc = check_hole(w, off, err);
	if (rc == 0) {
		note_change(w);
		rc = stage_zeros(w, off, err);
	}
	if (rc == 0)
		rc = stage(w, off, data, len, err);
	if (rc == 0) {
		if (off + len > w->size)
			w->size = off + len;
		atomic_fetch_add(&w->all->bytes_written, len);
	}
	unlock_op(w);
	return rc;
}

/* ----------------------------------------------------------------- truncation --- */

/* What is at the path now is what the next commit replaces. */
static int look_again(struct writing *w, struct ckpt_version *ret,
		      struct error *err)
{
	int rc = ckpt_look(w->all->store, w->path, ret, NULL, err);

	return rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
}

/* From nothing: what was sent is not wanted. */
static int restart(struct writing *w, struct error *err)
{
	struct error ignored = ERROR_INIT;
	int rc = 0;

	/* Whoever begins anew after a failure was told of what was there. */
	if (w->all->compares && w->path && (!w->version.is_known || w->rc < 0))
		rc = look_again(w, &w->version, err);
	if (rc < 0)
		return rc;
	if (w->sending.writer)
		(void)!end_sending(w, NULL, &ignored);
	cut_tail(w, tail_start(&w->tail));
	tail_fini(&w->tail);
	tail_init(&w->tail, w->all->budget, UNIT, 0);
	drop_base(w);
	w->size = 0;
	w->rc = 0;
	w->is_loaded = true;
	note_change(w);
	return 0;
}

static int truncate_to(struct writing *w, uint64_t size, struct error *err)
{
	int rc = prepare(w, err);

	if (rc < 0 || size == w->size)
		return rc;
	if (size < tail_start(&w->tail))
		return refuse_old(w, size, err);
	note_change(w);
	cut_tail(w, size);
	w->size = size;
	return 0;
}

int writing_truncate(struct writing *w, uint64_t size, struct error *err)
{
	int rc;

	lock_op(w);
	rc = size == 0 ? restart(w, err) : truncate_to(w, size, err);
	unlock_op(w);
	return rc;
}

int writing_begin_anew(struct writing *w, const struct ckpt_version *version,
		       struct error *err)
{
	int rc;

	lock_op(w);
	if (version && !w->is_dirty)
		w->version = *version;
	rc = restart(w, err);
	unlock_op(w);
	return rc;
}

/* --------------------------------------------------------------------- commit --- */

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
	int rc = stage_zeros(w, w->size, err);

	is_whole = is_whole && tail_start(&w->tail) == 0;
	if (rc == 0)
		rc = begin(w, is_whole ? w->size : CKPT_SIZE_UNKNOWN, err);
	if (rc < 0)
		return rc;
	if (!w->has_mtime)
		w->attr.mtime_ns = wall_now_ns();
	ckpt_writer_set_attr(w->sending.writer, &w->attr);
	rc = ckpt_writer_set_xattrs(w->sending.writer, &w->xattrs, err);
	if (rc == 0 && (!is_whole || w->xattrs.len))
		rc = ckpt_writer_grow(w->sending.writer, w->size, err);
	if (rc == 0)
		rc = send_staged(w, err);
	if (rc < 0) {
		(void)!end_sending(w, NULL, &ignored);
		return rc;
	}
	rc = end_sending(w, &st, err);
	if (rc < 0)
		return rc;
	drop_base(w);
	w->generation = st.generation;
	w->is_dirty = false;
	atomic_fetch_add(&w->all->commits, 1);
	return 0;
}

static int commit(struct writing *w, struct error *err)
{
	int rc = -EAGAIN;

	/* A plain file, all of which is staged, whose version before is gone. */
	for (unsigned int i = 0; i < TRIES && rc == -EAGAIN; i++)
		rc = commit_once(w, err);
	return rc;
}

int writing_commit(struct writing *w, struct error *err)
{
	int rc;

	lock_op(w);
	rc = w->rc;
	if (rc < 0 && err)
		*err = w->err;
	if (rc == 0 && w->is_dirty && w->path)
		rc = check_hole(w, w->size, err);
	/* What was sent cannot be sent again: with the writer it is gone. */
	if (rc == 0 && w->is_dirty && w->path) {
		rc = lose(w, commit(w, err), err);
		listed_change(w->all->listed, w->path);
	}
	unlock_op(w);
	return rc;
}

/* ---------------------------------------------------------------------- reads --- */

static int64_t read_staged(const struct writing *w, uint64_t off, char *dst,
			   size_t len)
{
	size_t done = 0;

	while (done < len) {
		size_t n = tail_piece(&w->tail, off + done, len - done);

		if (off + done >= w->tail.end) {
			memset(dst + done, 0, n);
		} else {
			if (n > w->tail.end - off - done)
				n = (size_t)(w->tail.end - off - done);
			tail_read(&w->tail, off + done, dst + done, n);
		}
		done += n;
	}
	return (int64_t)len;
}

static int read_sent(struct writing *w, uint64_t off, void *buf, size_t len,
		     struct error *err)
{
	int rc = 0;

	if (!w->path && !w->reader)
		return error_set(err, EOPNOTSUPP,
				 "bytes of a file that was removed, and that "
				 "left for the store");
	if (w->is_dirty)
		rc = check_hole(w, w->size, err);
	if (rc == 0 && w->is_dirty)
		rc = lose(w, commit(w, err), err);
	if (rc == 0 && !w->reader)
		rc = ckpt_open(w->all->store, w->path, &w->reader, err);
	return rc < 0 ? rc : ckpt_read(w->reader, off, buf, len, 0, err);
}

int64_t writing_read(struct writing *w, uint64_t off, void *buf, size_t len,
		     struct error *err)
{
	int64_t n;

	lock_op(w);
	n = prepare(w, err);
	if (n == 0 && off < w->size) {
		if (len > w->size - off)
			len = (size_t)(w->size - off);
		if (off >= tail_start(&w->tail))
			n = read_staged(w, off, buf, len);
		else
			n = read_sent(w, off, buf, len, err);
		if (n == 0)
			n = (int64_t)len;
	}
	unlock_op(w);
	return n;
}

/* --------------------------------------------------------------------- the rest --- */

/* The file has another name, and its objects other tags.  What is not our file, because
 * another wrote the name in that moment, stays another version than ours. */
static void follow(struct writing *w)
{
	struct error ignored = ERROR_INIT;
	struct ckpt_version now;
	bool is_ours;

	if (look_again(w, &now, &ignored) < 0)
		return;
	is_ours = *w->version.striped
			  ? *now.striped && now.bytes_id == w->version.bytes_id
			  : !*now.striped;
	if (is_ours)
		w->version = now;
}

int writing_move(struct writing *w, const char *path, struct error *err)
{
	char *copy = path ? strdup(path) : NULL;

	if (path && !copy)
		return error_nomem(err);
	lock_op(w);
	free(w->path);
	w->path = copy;
	if (w->path && w->version.is_known)
		follow(w);
	unlock_op(w);
	return 0;
}

int writing_change_xattr(struct writing *w, const struct xattr_change *c,
			 struct error *err)
{
	int rc;

	lock_op(w);
	rc = prepare(w, err);
	if (rc == 0)
		rc = xattrs_change(&w->xattrs, c, err);
	/* The time of its bytes is what it was. */
	if (rc == 0) {
		w->has_mtime = w->has_mtime || !w->is_dirty;
		w->is_dirty = true;
		drop_reader(w);
	}
	unlock_op(w);
	return rc;
}

int writing_get_xattrs(struct writing *w, struct buf *ret, struct error *err)
{
	int rc;

	lock_op(w);
	rc = prepare(w, err);
	buf_reset(ret);
	if (rc == 0 && w->xattrs.len &&
	    buf_append(ret, w->xattrs.data, w->xattrs.len) < 0)
		rc = error_nomem(err);
	unlock_op(w);
	return rc;
}

bool writing_is_dirty(struct writing *w)
{
	bool is_dirty;

	(void)pthread_mutex_lock(&w->seen_lock);
	is_dirty = w->seen.is_dirty;
	(void)pthread_mutex_unlock(&w->seen_lock);
	return is_dirty;
}

bool writing_stat(struct writing *w, uint64_t *ret_size,
		  struct ckpt_attr *ret_attr)
{
	bool is_known;

	(void)pthread_mutex_lock(&w->seen_lock);
	is_known = w->seen.is_known;
	*ret_size = w->seen.size;
	*ret_attr = w->seen.attr;
	(void)pthread_mutex_unlock(&w->seen_lock);
	return is_known;
}

int writing_state(struct writing *w, struct error *err)
{
	int rc;

	(void)pthread_mutex_lock(&w->seen_lock);
	rc = w->seen.rc;
	if (rc < 0 && err)
		*err = w->seen.err;
	(void)pthread_mutex_unlock(&w->seen_lock);
	return rc;
}

void writing_set_attr(struct writing *w, const struct ckpt_attr *attr,
		      bool has_mtime)
{
	lock_op(w);
	w->attr = *attr;
	w->has_mtime = w->has_mtime || has_mtime;
	unlock_op(w);
}
