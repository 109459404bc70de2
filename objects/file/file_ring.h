// SPDX-License-Identifier: Apache-2.0
/* The kernel's ring of reads and writes; liburing is seen in file_ring.c alone. */
#ifndef BOOTSEER_OBJECTS_FILE_RING_H
#define BOOTSEER_OBJECTS_FILE_RING_H

#include "objects/file/file_io.h"

struct file_ring;

/* -ENOSYS, -EPERM and their like: this kernel, or what confines us, gives none. */
int file_ring_new(unsigned int entries, struct file_ring **ret) MUST_CHECK;
void file_ring_free(struct file_ring *r);

/* The memory that most operations are in, once, before the first of them; the kernel is told
 * of what they use (io_uring_register(2); Linux 5.19).  Without it all works as well. */
void file_ring_memory(struct file_ring *r, void *base, size_t size);

/* Pass the operation on; one thread at a time, at most `entries` without their end. */
void file_ring_push(struct file_ring *r, struct file_op *op);
/* Wake file_ring_wait() up, which then returns NULL. */
void file_ring_wake(struct file_ring *r);

/* Wait for the end of one; a thread of its own.  *ret_n: bytes, or -errno. */
struct file_op *file_ring_wait(struct file_ring *r, int *ret_n);

#endif
