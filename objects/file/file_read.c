// SPDX-License-Identifier: Apache-2.0
/* Reads ranges of a file: adjacent ranges are one operation with several buffers; long aligned
 * ones bypass the page cache. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/cond.h"
#include "objects/file/file_path.h"

struct file_object {
	struct object base;
	int fd;
	int direct_fd; /* -1: reads go through the page cache */
};

/* Pieces of one read in flight, because bounce buffers take memory. */
#define WINDOW 16u

struct file_read;

struct file_piece {
	struct file_op op;
	struct file_read *read;
	struct iovec iov[FILE_OP_IOV];
	bool is_direct, wants_bounce;

	/* If memory or offsets are not aligned, bytes go through an aligned bounce buffer,
	 * which costs less than the page cache. */
	char *bounce; /* NULL: no bounce buffer */
	size_t bounce_size, bounce_align;
	struct iovec to[FILE_OP_IOV]; /* destination of the bytes */
	unsigned int n_to;
	uint64_t off, end;
};

/* State of one call of object_read(). */
struct file_read {
	struct file_object *object;
	struct file_piece *pieces;
	size_t n_pieces;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t ended;
	size_t n_open;
	int rc;
};

int file_store_open_object(struct object_store *s, const char *name,
			   struct object **ret, struct error *err)
{
	struct file_store *f = file_store_of(s);
	struct file_object *o = calloc(1, sizeof(*o));
	struct stat st;
	int rc;

	if (!o)
		return error_nomem(err);
	o->fd = o->direct_fd = -1;
	rc = store_object_init(&o->base, s, name, err);
	if (rc == 0) {
		/* O_NONBLOCK: opening a FIFO would block */
		o->fd = file_path_open(f, name, O_RDONLY | O_NONBLOCK, 0);
		if (o->fd < 0 || fstat(o->fd, &st) < 0)
			rc = file_error(f, file_is_none(errno) ? ENOENT : errno,
					"open", name, err);
		else if (!S_ISREG(st.st_mode))
			rc = error_set(err, ENOENT, "%s/%s is not a file",
				       f->path, name);
		/* Clear it again: with io_uring it means "now or never". */
		else if (fcntl(o->fd, F_SETFL, 0) < 0)
			rc = file_error(f, errno, "open", name, err);
	}
	if (rc < 0) {
		file_store_close(&o->base);
		return rc;
	}
	file_stat_fill(&st, &o->base.stat);
	if (f->may_direct && o->base.stat.size >= FILE_DIRECT_MIN) {
		char path[32];

		/* Reopen the same file, whatever its name now means. */
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", o->fd);
		o->direct_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	}
	*ret = &o->base;
	return 0;
}

void file_store_close(struct object *base)
{
	struct file_object *o = container_of(base, struct file_object, base);

	fd_close(o->direct_fd);
	fd_close(o->fd);
	store_object_fini(base);
	free(o);
}

/* ------------------------------------------------------------------- pieces --- */

static bool is_aligned(const struct file_piece *p, size_t align)
{
	if (p->op.off % align)
		return false;
	for (unsigned int i = 0; i < p->op.n_iov; i++)
		if ((uintptr_t)p->iov[i].iov_base % align ||
		    p->iov[i].iov_len % align)
			return false;
	return true;
}

static void piece_done(struct file_op *op);

static void submit_piece(struct file_piece *p)
{
	struct file_object *o = p->read->object;
	struct file_store *f = file_store_of(o->base.store);

	atomic_fetch_add(&f->base.count.n_requests, 1);
	p->op.fd = p->is_direct ? o->direct_fd : o->fd;
	file_engine_submit(f->engine, &p->op);
}

/* Copy the bytes out of the bounce buffer; at the end of the file fewer came than it holds. */
static void finish_bounce(struct file_piece *p)
{
	struct store_memory *m = p->read->object->base.store->memory;
	const char *from = p->bounce + (p->off & (p->bounce_align - 1));

	if (p->op.off >= p->end)
		p->op.rc = 0;
	for (unsigned int i = 0; i < p->n_to && p->op.rc == 0; i++) {
		memcpy(p->to[i].iov_base, from, p->to[i].iov_len);
		from += p->to[i].iov_len;
	}
	store_memory_give(m, p->bounce, p->bounce_size);
	p->bounce = NULL;
}

/* Give up the bounce buffer: read through the page cache instead. */
static void drop_bounce(struct file_piece *p)
{
	store_memory_give(p->read->object->base.store->memory, p->bounce,
			  p->bounce_size);
	p->bounce = NULL;
	memcpy(p->iov, p->to, sizeof(p->to));
	p->op.iov = p->iov;
	p->op.n_iov = p->n_to;
	p->op.off = p->off;
}

static void piece_done(struct file_op *op)
{
	struct file_piece *p = container_of(op, struct file_piece, op);
	struct file_read *r = p->read;

	/* O_DIRECT was accepted at open() but not here, or a transfer stopped at an unaligned
	 * byte */
	if (op->rc == -EINVAL && p->is_direct &&
	    (!p->bounce || op->off < p->end)) {
		p->is_direct = false;
		if (p->bounce)
			drop_bounce(p);
		submit_piece(p);
		return;
	}
	if (p->bounce)
		finish_bounce(p);
	(void)pthread_mutex_lock(&r->lock);
	if (op->rc < 0 && r->rc == 0)
		r->rc = op->rc;
	r->n_open--;
	(void)pthread_cond_signal(&r->ended);
	(void)pthread_mutex_unlock(&r->lock);
}

/* Position while ranges are cut into pieces. */
struct cut {
	const struct object_range *ranges;
	/* Number of ranges; present range, and byte in it. */
	size_t n, i, at;
	size_t last_i, last_at; /* end of the last piece */
};

/* Fill in the next piece; false: there is none. */
static bool next_piece(struct cut *c, struct file_piece *p)
{
	uint64_t len = 0;

	p->op = (struct file_op){ .iov = p->iov, .done = piece_done };
	while (c->i < c->n) {
		const struct object_range *r = &c->ranges[c->i];
		uint64_t off = r->off + c->at;
		size_t left = r->len - c->at;

		if (left == 0) {
			c->i++;
			c->at = 0;
			continue;
		}
		if (p->op.n_iov == 0)
			p->op.off = off;
		if (len == FILE_PIECE || p->op.n_iov == FILE_OP_IOV ||
		    off != p->op.off + len)
			break;
		if (left > FILE_PIECE - len)
			left = (size_t)(FILE_PIECE - len);
		p->iov[p->op.n_iov++] =
			(struct iovec){ .iov_base = (char *)r->buf + c->at,
					.iov_len = left };
		c->at += left;
		len += left;
		c->last_i = c->i;
		c->last_at = c->at;
	}
	return p->op.n_iov > 0;
}

/* Cut off the unaligned end of a piece (such as the end of a file), so that the rest can bypass
 * the page cache. */
static bool cut_tail(struct file_piece *p, struct cut *c, size_t align)
{
	struct iovec *last = &p->iov[p->op.n_iov - 1];
	size_t tail = last->iov_len % align;

	if (tail == 0 || last->iov_len < FILE_DIRECT_MIN)
		return false;
	last->iov_len -= tail;
	if (is_aligned(p, align)) {
		c->i = c->last_i;
		c->at = c->last_at - tail;
		return true;
	}
	last->iov_len += tail;
	return false;
}

static void take_bounce(struct file_piece *p)
{
	size_t align = file_store_of(p->read->object->base.store)->align;
	uint64_t from = p->op.off & ~((uint64_t)align - 1);

	p->off = p->op.off;
	p->end = p->off + file_op_left(&p->op);
	p->bounce_align = align;
	p->bounce_size = (size_t)(round_up(p->end, align) - from);
	/* Do not wait for memory of other reads: without it, read through the page cache. */
	p->bounce = store_memory_take(p->read->object->base.store->memory,
				      p->bounce_size, 0);
	if (!p->bounce)
		return;
	memcpy(p->to, p->iov, sizeof(p->to));
	p->n_to = p->op.n_iov;
	p->iov[0] = (struct iovec){ .iov_base = p->bounce,
				    .iov_len = p->bounce_size };
	p->op.n_iov = 1;
	p->op.off = from;
	p->is_direct = true;
}

static void choose_piece(struct file_piece *p, struct cut *c)
{
	struct file_object *o = p->read->object;
	size_t align = file_store_of(o->base.store)->align;
	size_t len = file_op_left(&p->op);

	if (o->direct_fd < 0 || len < FILE_DIRECT_MIN / 4)
		return;
	p->is_direct = is_aligned(p, align) || cut_tail(p, c, align);
	p->wants_bounce = !p->is_direct && len >= FILE_DIRECT_MIN;
}

static int plan_pieces(struct file_read *r, const struct object_range *ranges,
		       size_t n)
{
	struct cut c = { .ranges = ranges, .n = n };
	size_t max = n;

	for (size_t i = 0; i < n; i++)
		max += 2 * (ranges[i].len / FILE_PIECE + 1);
	r->pieces = calloc(max, sizeof(*r->pieces));
	if (!r->pieces)
		return -ENOMEM;
	while (r->n_pieces < max) {
		struct file_piece *p = &r->pieces[r->n_pieces];

		p->read = r;
		if (!next_piece(&c, p))
			break;
		choose_piece(p, &c);
		r->n_pieces++;
	}
	return 0;
}

/* -------------------------------------------------------------------- read --- */

static bool piece_is_of_read(const struct file_op *op, void *arg)
{
	const struct file_piece *p =
		(const void *)((const char *)op -
			       offsetof(struct file_piece, op));

	return op->done == piece_done && p->read == arg;
}

/* Wait until fewer than `n` pieces are in flight. The kernel writes into the buffers, so pieces
 * that began must end; at the deadline, pieces that have not begun are taken back. */
static void pieces_wait_below(struct file_read *r, size_t n,
			      int64_t deadline_ns)
{
	struct file_store *f = file_store_of(r->object->base.store);

	(void)pthread_mutex_lock(&r->lock);
	while (r->n_open >= n) {
		if (!deadline_ns || r->rc == -ETIMEDOUT) {
			(void)pthread_cond_wait(&r->ended, &r->lock);
		} else if (!cond_wait_until(&r->ended, &r->lock, deadline_ns)) {
			r->rc = -ETIMEDOUT;
			(void)pthread_mutex_unlock(&r->lock);
			file_engine_cancel(f->engine, piece_is_of_read, r);
			(void)pthread_mutex_lock(&r->lock);
		}
	}
	(void)pthread_mutex_unlock(&r->lock);
}

/* Start one more piece; false: the read has failed. */
static bool piece_start(struct file_read *r, struct file_piece *p)
{
	bool ok;

	(void)pthread_mutex_lock(&r->lock);
	ok = r->rc == 0;
	r->n_open += ok;
	(void)pthread_mutex_unlock(&r->lock);
	if (!ok)
		return false;
	if (p->wants_bounce)
		take_bounce(p);
	submit_piece(p);
	return true;
}

static void init_sync(struct file_read *r)
{

	(void)pthread_mutex_init(&r->lock, NULL);
	cond_init(&r->ended);
}

int file_store_read(struct object *base, const struct object_range *ranges,
		    size_t n, int64_t deadline_ns, struct error *err)
{
	struct file_object *o = container_of(base, struct file_object, base);
	struct file_store *f = file_store_of(base->store);
	struct file_read r = { .object = o };
	int rc;

	if (plan_pieces(&r, ranges, n) < 0)
		return error_nomem(err);
	init_sync(&r);
	for (size_t i = 0; i < r.n_pieces && piece_start(&r, &r.pieces[i]); i++)
		pieces_wait_below(&r, WINDOW, deadline_ns);
	pieces_wait_below(&r, 1, deadline_ns);
	rc = r.rc;
	(void)pthread_cond_destroy(&r.ended);
	(void)pthread_mutex_destroy(&r.lock);
	free(r.pieces);
	if (rc == -ENODATA)
		return error_set(err, ESTALE,
				 "%s/%s became shorter while it was read: "
				 "objects must not be changed in place",
				 f->path, base->name);
	if (rc == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT, "the deadline is over");
	return rc < 0 ? file_error(f, -rc, "read", base->name, err) : 0;
}
