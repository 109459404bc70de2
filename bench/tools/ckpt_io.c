// SPDX-License-Identifier: Apache-2.0
/*
 * Checkpoints as engines write and read them, on plain files (the patterns of "Understanding
 * LLM Checkpoint/Restore I/O Strategies and Patterns"):
 *
 *	ckpt_io write|read DIR LAYOUT ENGINE CACHE BUFFERS MIB OBJECT-KIB REQUEST-KIB THREADS
 *
 * LAYOUT  one: all threads have regions of one file; each: a file for each thread;
 *         tensor: a file for each object
 * ENGINE  uring: 16 requests of each thread under way; posix: pwrite(2), pread(2)
 * CACHE   direct: O_DIRECT; buffered
 * BUFFERS pool: made once, and known to the kernel where that is possible; alloc: made
 *         for each request
 *
 * The threads have MIB in all, in objects of OBJECT-KIB.  A request has REQUEST-KIB at
 * most, and no more than an object; objects that lie one behind the other in a file go in
 * one request when that is larger.  What is written is durable at the end.  Prints
 * seconds.
 */
// Link: -pthread -luring
#define _GNU_SOURCE /* O_DIRECT */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 16u

static struct {
	bool is_write, is_uring, is_direct, is_pool, is_each, is_tensor;
	const char *dir;
	uint64_t of_thread, object, request; /* bytes */
	unsigned int n_threads;
} job;

struct worker {
	pthread_t thread;
	unsigned int index;
	struct io_uring ring;
	char *pool; /* DEPTH requests */
	void *used[DEPTH];
	uint64_t len[DEPTH];
	unsigned int n_used; /* used slots, counted from the first */
};

static void fail(const char *what)
{
	fprintf(stderr, "ckpt_io: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *new_buffer(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("memory");
	/* An engine copies the data to be written into its buffer. */
	if (job.is_write)
		memset(p, 0x5a, len);
	return p;
}

static int open_file(unsigned int thread, uint64_t object)
{
	char path[4096];
	int flags = (job.is_write ? O_WRONLY | O_CREAT : O_RDONLY) |
		    (job.is_direct ? O_DIRECT : 0);
	int fd;

	if (job.is_tensor)
		snprintf(path, sizeof(path), "%s/t%u-%llu", job.dir, thread,
			 (unsigned long long)object);
	else if (job.is_each)
		snprintf(path, sizeof(path), "%s/rank%u", job.dir, thread);
	else
		snprintf(path, sizeof(path), "%s/one", job.dir);
	fd = open(path, flags, 0644);
	if (fd < 0)
		fail(path);
	return fd;
}

static void close_file(int fd)
{
	if (job.is_write && fsync(fd) < 0)
		fail("fsync");
	if (close(fd) < 0)
		fail("close");
}

static void give_back(struct worker *w, unsigned int slot)
{
	if (!job.is_pool)
		munmap(w->used[slot], w->len[slot]);
}

static void *take(struct worker *w, unsigned int slot, uint64_t len)
{
	w->len[slot] = len;
	w->used[slot] =
		job.is_pool ? w->pool + slot * job.request : new_buffer(len);
	return w->used[slot];
}

static void posix_request(struct worker *w, int fd, uint64_t off, uint64_t len)
{
	char *buf = take(w, 0, len);

	for (uint64_t done = 0; done < len;) {
		ssize_t n = job.is_write ? pwrite(fd, buf + done, len - done,
						  (off_t)(off + done))
					 : pread(fd, buf + done, len - done,
						 (off_t)(off + done));

		if (n <= 0)
			fail("request");
		done += (uint64_t)n;
	}
	give_back(w, 0);
}

static unsigned int reap(struct worker *w)
{
	struct io_uring_cqe *cqe;
	unsigned int slot;

	if (io_uring_wait_cqe(&w->ring, &cqe) < 0)
		fail("wait");
	slot = (unsigned int)cqe->user_data;
	errno = cqe->res < 0 ? -cqe->res : EIO;
	if (cqe->res < 0 || (uint64_t)cqe->res != w->len[slot])
		fail("request");
	io_uring_cqe_seen(&w->ring, cqe);
	give_back(w, slot);
	return slot;
}

static void uring_request(struct worker *w, unsigned int slot, int fd,
			  uint64_t off, uint64_t len)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);
	void *buf = take(w, slot, len);

	if (job.is_pool && job.is_write)
		io_uring_prep_write_fixed(sqe, fd, buf, (unsigned int)len, off,
					  (int)slot);
	else if (job.is_pool)
		io_uring_prep_read_fixed(sqe, fd, buf, (unsigned int)len, off,
					 (int)slot);
	else if (job.is_write)
		io_uring_prep_write(sqe, fd, buf, (unsigned int)len, off);
	else
		io_uring_prep_read(sqe, fd, buf, (unsigned int)len, off);
	sqe->user_data = slot;
	if (io_uring_submit(&w->ring) < 0)
		fail("submit");
}

/* Transfer bytes [off, off + len) of a file in requests. */
static void transfer(struct worker *w, int fd, uint64_t off, uint64_t len)
{
	unsigned int under_way = 0;

	while (len) {
		uint64_t n = len < job.request ? len : job.request;

		if (!job.is_uring)
			posix_request(w, fd, off, n);
		else if (under_way < DEPTH)
			uring_request(w, under_way++, fd, off, n);
		else
			uring_request(w, reap(w), fd, off, n);
		off += n;
		len -= n;
	}
	while (under_way--)
		(void)reap(w);
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	uint64_t start = job.is_each ? 0 : w->index * job.of_thread;
	int fd;

	if (job.is_tensor) {
		for (uint64_t i = 0; i * job.object < job.of_thread; i++) {
			fd = open_file(w->index, i);
			transfer(w, fd, 0, job.object);
			close_file(fd);
		}
		return NULL;
	}
	fd = open_file(w->index, 0);
	transfer(w, fd, start, job.of_thread);
	close_file(fd);
	return NULL;
}

/* Prepare before the time is taken: an engine makes its pool when it starts. */
static void prepare(struct worker *w)
{
	struct iovec bufs[DEPTH];

	if (job.is_pool) {
		w->pool = new_buffer(DEPTH * job.request);
		memset(w->pool, 0x5a, DEPTH * job.request);
	}
	if (!job.is_uring)
		return;
	errno = -io_uring_queue_init(DEPTH, &w->ring, 0);
	if (errno)
		fail("io_uring");
	for (unsigned int i = 0; i < DEPTH; i++)
		bufs[i] = (struct iovec){ w->pool + i * job.request,
					  job.request };
	errno = job.is_pool ? -io_uring_register_buffers(&w->ring, bufs, DEPTH)
			    : 0;
	if (errno)
		fail("registering buffers");
}

static void parse(char **argv)
{
	job.is_write = strcmp(argv[1], "write") == 0;
	job.dir = argv[2];
	job.is_tensor = strcmp(argv[3], "tensor") == 0;
	job.is_each = strcmp(argv[3], "each") == 0;
	job.is_uring = strcmp(argv[4], "uring") == 0;
	job.is_direct = strcmp(argv[5], "direct") == 0;
	job.is_pool = strcmp(argv[6], "pool") == 0;
	job.object = strtoull(argv[8], NULL, 10) << 10;
	job.request = strtoull(argv[9], NULL, 10) << 10;
	job.n_threads = (unsigned int)strtoul(argv[10], NULL, 10);
	if (!job.n_threads || !job.object || !job.request) {
		fprintf(stderr, "ckpt_io: a number is zero\n");
		exit(2);
	}
	job.of_thread = (strtoull(argv[7], NULL, 10) << 20) / job.n_threads;
	if (job.is_tensor && job.request > job.object)
		job.request = job.object;
}

int main(int argc, char **argv)
{
	struct worker *workers;
	struct timespec a, b;

	if (argc != 11) {
		fprintf(stderr, "ckpt_io: see its source\n");
		return 2;
	}
	parse(argv);
	workers = calloc(job.n_threads, sizeof(*workers));
	if (!workers)
		fail("memory");
	for (unsigned int i = 0; i < job.n_threads; i++) {
		workers[i].index = i;
		prepare(&workers[i]);
	}
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (unsigned int i = 0; i < job.n_threads; i++) {
		errno = pthread_create(&workers[i].thread, NULL, run_worker,
				       &workers[i]);
		if (errno)
			fail("thread");
	}
	for (unsigned int i = 0; i < job.n_threads; i++)
		pthread_join(workers[i].thread, NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%.6f\n", (double)(b.tv_sec - a.tv_sec) +
				 (double)(b.tv_nsec - a.tv_nsec) / 1e9);
	return 0;
}
