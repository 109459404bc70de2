// SPDX-License-Identifier: Apache-2.0
#include "objects/file/file_io.h"

#include <errno.h>
#include <pthread.h>

#include "common/thread.h"
#include "objects/file/file_ring.h"

#define DEPTH 16u

struct file_engine {
	struct file_ring *ring; /* io_uring; NULL: a pool is used */
	struct pool *pool;
	struct store_memory *memory;
	struct thread reaper;

	pthread_mutex_t
		lock; /* protects the members below, and pushes to `ring` */
	bool is_registered;
	unsigned int depth, n_flying;
	/* Operations that wait for room in the kernel. */
	struct file_op *first, **last;
};

size_t file_op_left(const struct file_op *op)
{
	size_t sum = 0;

	for (unsigned int i = 0; i < op->n_iov; i++)
		sum += op->iov[i].iov_len;
	return sum;
}

/* Note that `n` bytes were transferred; true when none is left. */
static bool file_op_advance(struct file_op *op, size_t n)
{
	op->off += n;
	while (op->n_iov && n >= op->iov->iov_len) {
		n -= op->iov->iov_len;
		op->iov++;
		op->n_iov--;
	}
	if (op->n_iov) {
		op->iov->iov_base = (char *)op->iov->iov_base + n;
		op->iov->iov_len -= n;
	}
	return op->n_iov == 0;
}

/* Take the result `n` of a transfer into the operation. True: the operation is over, and
 * op->rc is set. */
static bool note_transfer(struct file_op *op, ssize_t n)
{
	if (n == -EINTR || n == -EAGAIN)
		return false;
	if (n > 0)
		return file_op_advance(op, (size_t)n);
	op->rc = n < 0 ? (int)n : op->is_write ? -EIO : -ENODATA;
	return true;
}

static void file_op_run(struct work *w)
{
	struct file_op *op = container_of(w, struct file_op, work);
	ssize_t n;

	do {
		n = op->is_write ? pwritev(op->fd, op->iov, (int)op->n_iov,
					   (off_t)op->off)
				 : preadv(op->fd, op->iov, (int)op->n_iov,
					  (off_t)op->off);
	} while (!note_transfer(op, n < 0 ? -errno : n));
	op->done(op);
}

/* Start waiting operations while there is room. Called with the lock held. */
static void push_more(struct file_engine *e)
{
	while (e->first && e->n_flying < e->depth) {
		struct file_op *op = e->first;

		e->first = op->next;
		if (!e->first)
			e->last = &e->first;
		e->n_flying++;
		file_ring_push(e->ring, op);
	}
}

static void *reap_main(void *arg)
{
	struct file_engine *e = arg;
	struct file_op *op;
	int n;

	while ((op = file_ring_wait(e->ring, &n))) {
		bool over;

		/* The lock also orders this after the submission. */
		(void)pthread_mutex_lock(&e->lock);
		over = note_transfer(op, n);
		if (over) {
			e->n_flying--;
			push_more(e);
		} else {
			file_ring_push(e->ring, op);
		}
		(void)pthread_mutex_unlock(&e->lock);
		if (over)
			op->done(op);
	}
	return NULL;
}

int file_engine_new(bool is_plain, struct store_memory *memory,
		    struct file_engine **ret, struct error *err)
{
	struct file_engine *e = calloc(1, sizeof(*e));
	int rc = 0;

	if (!e)
		return error_nomem(err);
	e->memory = memory;
	e->depth = DEPTH;
	e->last = &e->first;
	(void)pthread_mutex_init(&e->lock, NULL);
	/* Just try io_uring: a kernel version does not tell what a container allows. */
	if (!is_plain && file_ring_new(FILE_DEPTH_MAX, &e->ring) == 0 &&
	    thread_start(&e->reaper, reap_main, e, NULL) < 0) {
		file_ring_free(e->ring);
		e->ring = NULL;
	}
	if (!e->ring)
		rc = pool_new_lazy(DEPTH, &e->pool, err);
	if (rc < 0)
		file_engine_free(e);
	else
		*ret = e;
	return rc;
}

void file_engine_free(struct file_engine *e)
{
	if (!e)
		return;
	if (e->ring) {
		(void)pthread_mutex_lock(&e->lock);
		file_ring_wake(e->ring);
		(void)pthread_mutex_unlock(&e->lock);
		thread_join(&e->reaper);
		file_ring_free(e->ring);
	}
	pool_free(e->pool);
	(void)pthread_mutex_destroy(&e->lock);
	free(e);
}

bool file_engine_is_uring(const struct file_engine *e)
{
	return e->ring != NULL;
}

unsigned int file_engine_depth(const struct file_engine *e)
{
	return e->depth;
}

void file_engine_set_depth(struct file_engine *e, unsigned int depth)
{
	(void)pthread_mutex_lock(&e->lock);
	e->depth = depth < FILE_DEPTH_MAX ? depth : FILE_DEPTH_MAX;
	(void)pthread_mutex_unlock(&e->lock);
}

/* Register the memory with the kernel. Called with the lock held. Registering allocates the
 * memory, so it is not done for a store that never writes. */
static void register_memory(struct file_engine *e, const struct file_op *op)
{
	size_t size;
	char *base = store_memory_base(e->memory, &size);
	const char *at = op->iov->iov_base;

	if (e->is_registered || at < base || at >= base + size)
		return;
	e->is_registered = true;
	file_ring_memory(e->ring, base, size);
}

void file_engine_submit(struct file_engine *e, struct file_op *op)
{
	op->rc = 0;
	op->engine = e;
	op->next = NULL;
	if (!e->ring) {
		int rc;

		op->work = (struct work){ .run = file_op_run };
		rc = pool_submit(e->pool, &op->work);
		/* Otherwise `op` may already be freed. */
		if (rc < 0) {
			op->rc = rc;
			op->done(op);
		}
		return;
	}
	(void)pthread_mutex_lock(&e->lock);
	register_memory(e, op);
	*e->last = op;
	e->last = &op->next;
	push_more(e);
	(void)pthread_mutex_unlock(&e->lock);
}

void file_engine_cancel(struct file_engine *e,
			bool (*is_it)(const struct file_op *op, void *arg),
			void *arg)
{
	struct file_op *taken = NULL, *op;

	(void)pthread_mutex_lock(&e->lock);
	for (struct file_op **at = &e->first; (op = *at);) {
		if (!is_it(op, arg)) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		op->next = taken;
		taken = op;
	}
	for (e->last = &e->first; *e->last;)
		e->last = &(*e->last)->next;
	(void)pthread_mutex_unlock(&e->lock);
	while ((op = taken)) {
		taken = op->next;
		op->rc = -ECANCELED;
		op->done(op);
	}
}
