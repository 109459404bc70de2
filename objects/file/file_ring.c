// SPDX-License-Identifier: Apache-2.0
#include "objects/file/file_ring.h"

#include <errno.h>
#include <liburing.h>
#include <stdatomic.h>
#include <string.h>

#define BUFFER_MAX \
	((size_t)1 << 30) /* of one registered buffer: the kernel's */
#define BUFFERS 16u

struct file_ring {
	struct io_uring ring;
	char *base; /* registered; NULL: none */
	size_t size;
};

int file_ring_new(unsigned int entries, struct file_ring **ret)
{
	struct file_ring *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	/* One more, to wake up. */
	rc = io_uring_queue_init(entries + 1, &r->ring, 0);
	if (rc < 0) {
		free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void file_ring_free(struct file_ring *r)
{
	if (!r)
		return;
	io_uring_queue_exit(&r->ring);
	free(r);
}

void file_ring_register(struct file_ring *r, void *base, size_t size)
{
	struct iovec iov[BUFFERS];
	unsigned int n = 0;

	if (size > BUFFERS * BUFFER_MAX)
		return;
	for (size_t at = 0; at < size; at += BUFFER_MAX, n++)
		iov[n] = (struct iovec){
			.iov_base = (char *)base + at,
			.iov_len =
				size - at < BUFFER_MAX ? size - at : BUFFER_MAX,
		};
	/* It is refused where RLIMIT_MEMLOCK is small: the kernel then looks
	 * the pages up each time. */
	if (io_uring_register_buffers(&r->ring, iov, n) == 0) {
		r->base = base;
		r->size = size;
	}
}

/* Which registered buffer all of it lies in; -1: none. */
static int index_of(const struct file_ring *r, const struct file_op *op)
{
	const struct iovec *v = op->iov;
	size_t at;

	if (!r->base || op->n_iov != 1 || (char *)v->iov_base < r->base)
		return -1;
	at = (size_t)((char *)v->iov_base - r->base);
	if (at >= r->size || v->iov_len > r->size - at ||
	    at / BUFFER_MAX != (at + v->iov_len - 1) / BUFFER_MAX)
		return -1;
	return (int)(at / BUFFER_MAX);
}

static void submit(struct file_ring *r)
{
	/* It fails only for want of memory in the kernel, or interrupted. */
	while (io_uring_submit(&r->ring) < 0)
		;
}

void file_ring_push(struct file_ring *r, struct file_op *op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	int index = index_of(r, op);

	if (index < 0 && op->is_write)
		io_uring_prep_writev(sqe, op->fd, op->iov, op->n_iov, op->off);
	else if (index < 0)
		io_uring_prep_readv(sqe, op->fd, op->iov, op->n_iov, op->off);
	else if (op->is_write)
		io_uring_prep_write_fixed(sqe, op->fd, op->iov->iov_base,
					  (unsigned int)op->iov->iov_len,
					  op->off, index);
	else
		io_uring_prep_read_fixed(sqe, op->fd, op->iov->iov_base,
					 (unsigned int)op->iov->iov_len,
					 op->off, index);
	io_uring_sqe_set_data(sqe, op);
	submit(r);
}

void file_ring_wake(struct file_ring *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL);
	submit(r);
}

struct file_op *file_ring_wait(struct file_ring *r, int *ret_n)
{
	struct io_uring_cqe *cqe;
	struct file_op *op;

	while (io_uring_wait_cqe(&r->ring, &cqe) < 0)
		;
	*ret_n = cqe->res;
	op = io_uring_cqe_get_data(cqe);
	io_uring_cqe_seen(&r->ring, cqe);
	return op;
}
