// SPDX-License-Identifier: Apache-2.0
/*
 * Concurrent reads and writes of files: by io_uring where the kernel has it, else by threads with
 * preadv() and pwritev().
 */
#ifndef BOOTSEER_OBJECTS_FILE_IO_H
#define BOOTSEER_OBJECTS_FILE_IO_H

#include <sys/uio.h>

#include "objects/store/memory.h"
#include "net/pool.h"

#define FILE_OP_IOV 64u    /* buffers of one operation */
#define FILE_DEPTH_MAX 64u /* operations in the kernel at once */

/* A read or write. The submitter embeds it and keeps it until done(). */
struct file_op {
	int fd;
	bool is_write;
	uint64_t off;
	unsigned int n_iov;
	struct iovec *iov; /* advanced as bytes are transferred */
	/* 0: all transferred; -errno; -ENODATA: the file ends before the range does. */
	int rc;
	void (*done)(struct file_op *op); /* on a thread of the engine: must not
	                                   * block */
	/* This and the following members are the engine's. */
	struct file_op *next;
	struct work work;
	struct file_engine *engine;
};

struct file_engine;

/* Try io_uring unless `is_plain`. `memory` is registered with the kernel at its first use, so
 * that its pages need not be looked up for each transfer. */
int file_engine_new(bool is_plain, struct store_memory *memory,
		    struct file_engine **ret, struct error *err) MUST_CHECK;
/* With no operation under way. */
void file_engine_free(struct file_engine *e);
bool file_engine_is_uring(const struct file_engine *e);

/* How many operations the kernel has at a time, at most FILE_DEPTH_MAX. */
unsigned int file_engine_depth(const struct file_engine *e);
void file_engine_set_depth(struct file_engine *e, unsigned int depth);

/* Start an operation; any thread. Operations for which the kernel has no room wait in order. */
void file_engine_submit(struct file_engine *e, struct file_op *op);
/* Take back operations that have not begun: calls their `done` with -ECANCELED. */
void file_engine_cancel(struct file_engine *e,
			bool (*is_it)(const struct file_op *op, void *arg),
			void *arg);

/* Bytes that are left to be transferred. */
size_t file_op_left(const struct file_op *op);
#endif
