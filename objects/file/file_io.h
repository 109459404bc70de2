// SPDX-License-Identifier: Apache-2.0
/*
 * Reads and writes of files that run beside one another: by io_uring where the kernel
 * gives us one, else by threads with preadv() and pwritev().
 */
#ifndef BOOTSEER_OBJECTS_FILE_IO_H
#define BOOTSEER_OBJECTS_FILE_IO_H

#include <sys/uio.h>

#include "objects/store/memory.h"
#include "net/pool.h"

#define FILE_OP_IOV 64u    /* buffers of one operation */
#define FILE_DEPTH_MAX 64u /* operations that the kernel has at a time */

/* The submitter embeds and keeps it until `done`. */
struct file_op {
	int fd;
	bool is_write;
	uint64_t off;
	unsigned int n_iov;
	struct iovec *iov; /* used up as bytes are transferred */
	int rc; /* 0 when all of it was transferred, or -errno; -ENODATA:
	                    * the file has an end in it */
	void (*done)(struct file_op *op); /* on a thread of the engine: must not
	                                   * block */
	struct file_op *next;             /* the engine's, as the rest */
	struct work work;
	struct file_engine *engine;
};

struct file_engine;

/* Try io_uring unless `is_plain`; `memory` is told to the kernel, when it is first
 * used, so that its pages need not be looked up each time. */
int file_engine_new(bool is_plain, struct store_memory *memory,
		    struct file_engine **ret, struct error *err) MUST_CHECK;
void file_engine_free(struct file_engine *e); /* with nothing under way */
bool file_engine_is_uring(const struct file_engine *e);

/* How many operations the kernel has at a time, at most FILE_DEPTH_MAX. */
unsigned int file_engine_depth(const struct file_engine *e);
void file_engine_set_depth(struct file_engine *e, unsigned int depth);

/* Have it done; any thread.  What the kernel has no room for waits in order. */
void file_engine_submit(struct file_engine *e, struct file_op *op);
/* Take back what has not begun: its `done` is called, with -ECANCELED, here. */
void file_engine_cancel(struct file_engine *e,
			bool (*is_it)(const struct file_op *op, void *arg),
			void *arg);

/* Bytes that are left to be transferred. */
size_t file_op_left(const struct file_op *op);
#endif
