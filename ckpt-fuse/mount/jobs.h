// SPDX-License-Identifier: Apache-2.0
/* Threads that do what is given to them, in that order. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_JOBS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/error.h"

#define JOBS_THREADS_MAX 64u

struct jobs;

/* Embedded in what it is about, which is not freed before `run`, on one of the threads,
 * says so. */
struct job {
	void (*run)(struct job *j);
	int64_t added_ns; /* jobs_add()'s */
	STAILQ_ENTRY(job) link;
};

int jobs_new(unsigned int threads, struct jobs **ret,
	     struct error *err) MUST_CHECK;
/* Waits until all that was given is done. */
void jobs_free(struct jobs *j);
void jobs_add(struct jobs *j, struct job *job);
/* How long jobs waited for a thread, all together. */
uint64_t jobs_waited_ns(struct jobs *j);

#endif
