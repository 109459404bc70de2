// SPDX-License-Identifier: Apache-2.0
/*
 * Names that are not there, as a thread that looked one up was told last.  An open(2) that
 * makes a file is two requests of the kernel, one behind the other, by one thread: a look-up
 * and a create; the kernel keeps no look-up that found nothing, so that the second needs not
 * ask the store again what the first was told.  Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_ABSENT_H
#define BOOTSEER_CKPT_FUSE_MOUNT_ABSENT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/cleanup.h"

#define ABSENT_MAX 64u /* threads; of two that share a place one asks again */

struct absent_names {
	pthread_mutex_t lock;
	struct absent_name {
		pid_t thread;
		char *path; /* owned; NULL: none */
	} names[ABSENT_MAX];
};

void absent_init(struct absent_names *a);
void absent_fini(struct absent_names *a);

/* The thread (0: it is not seen, and nothing is kept) was told that there is no `path`;
 * NULL: that what it asked for is there.  What there is no memory for is not kept. */
void absent_note(struct absent_names *a, pid_t thread, const char *path);
/* Was that the last that it was told?  Says so once. */
bool absent_take(struct absent_names *a, pid_t thread,
		 const char *path) MUST_CHECK;

#endif
