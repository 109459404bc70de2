// SPDX-License-Identifier: Apache-2.0
#include "objects/file/file_ring.h"

#include <errno.h>
#include <liburing.h>

/* Memory is registered with the kernel in regions of this size when first used: the kernel pins
 * a whole region, and pinning 256 MiB would take most of the time of a small put. For a buffer
 * across two regions the kernel looks pages up each time. */
#define REGION ((size_t)32 << 20)
#define REGIONS 512u

struct file_ring {
	struct io_uring ring;
	char *base; /* NULL: no memory is registered, or can be */
	size_t size;
	bool told[REGIONS];
};

int file_ring_new(unsigned int entries, struct file_ring **ret)
{
	struct file_ring *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	/* one entry more than transfers, to wake the waiting thread */
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

void file_ring_memory(struct file_ring *r, void *base, size_t size)
{
	unsigned int n = (unsigned int)((size + REGION - 1) / REGION);

	if (size > REGIONS * REGION ||
	    io_uring_register_buffers_sparse(&r->ring, n) < 0)
		return;
	r->base = base;
	r->size = size;
}

/* Register region `k`. The kernel refuses where RLIMIT_MEMLOCK is small, and then the
 * next region as well. */
static bool register_region(struct file_ring *r, size_t k)
{
	size_t left = r->size - k * REGION;
	struct iovec iov = { .iov_base = r->base + k * REGION,
			     .iov_len = left < REGION ? left : REGION };

	r->told[k] =
		r->told[k] ||
		io_uring_register_buffers_update_tag(&r->ring, (unsigned int)k,
						     &iov, NULL, 1) == 1;
	if (!r->told[k])
		r->base = NULL;
	return r->told[k];
}

/* Index of the registered region that holds the whole operation; -1: none. */
static int region_index(struct file_ring *r, const struct file_op *op)
{
	const struct iovec *v = op->iov;
	size_t at;

	if (!r->base || op->n_iov != 1 || (char *)v->iov_base < r->base)
		return -1;
	at = (size_t)((char *)v->iov_base - r->base);
	if (at >= r->size || v->iov_len > r->size - at ||
	    at / REGION != (at + v->iov_len - 1) / REGION ||
	    !register_region(r, at / REGION))
		return -1;
	return (int)(at / REGION);
}

static void submit_entries(struct file_ring *r)
{
	/* Submission fails only without kernel memory, or on a signal: repeat it. */
	while (io_uring_submit(&r->ring) < 0)
		;
}

void file_ring_push(struct file_ring *r, struct file_op *op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	int index = region_index(r, op);

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
	submit_entries(r);
}

void file_ring_wake(struct file_ring *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL);
	submit_entries(r);
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
