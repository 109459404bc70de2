// SPDX-License-Identifier: Apache-2.0
/* io_uring; only file_ring.c uses liburing. */
#ifndef BOOTSEER_OBJECTS_FILE_RING_H
#define BOOTSEER_OBJECTS_FILE_RING_H

#include "objects/file/file_io.h"

struct file_ring;

/* -ENOSYS, -EPERM and the like: the kernel or a sandbox does not allow io_uring. */
int file_ring_new(unsigned int entries, struct file_ring **ret) MUST_CHECK;
void file_ring_free(struct file_ring *r);

/* Set, once, the memory that most operations use; it is registered with the kernel when used
 * (io_uring_register(2); Linux 5.19). If that fails, transfers still work. */
void file_ring_memory(struct file_ring *r, void *base, size_t size);

/* Submit the operation; one thread at a time, at most `entries` in flight. */
void file_ring_push(struct file_ring *r, struct file_op *op);
/* Wake file_ring_wait() up, which then returns NULL. */
void file_ring_wake(struct file_ring *r);

/* Wait for the end of an operation, on a thread of its own. *ret_n: bytes, or -errno. */
struct file_op *file_ring_wait(struct file_ring *r, int *ret_n);

#endif
