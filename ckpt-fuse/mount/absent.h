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
#include <stdint.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/clock.h"

#define ABSENT_MAX 64u /* threads; of two that share a place one asks again */
/* A create may wait for a folder that is renamed: then the answer is old. */
#define ABSENT_NS NS_PER_S

struct absent_names {
	pthread_mutex_t lock;
	struct absent_name {
		pid_t thread;
		char *path; /* owned; NULL: none */
		int64_t asked_ns;
	} names[ABSENT_MAX];
};

void absent_init(struct absent_names *a);
void absent_fini(struct absent_names *a);

/* The thread (0: it is not seen, and nothing is kept) was told that there is no `path`, for
 * which the store was asked at `asked_ns` (clock_now_ns()); NULL: that what it asked for is
 * there.  What there is no memory for is not kept. */
void absent_note(struct absent_names *a, pid_t thread, const char *path,
		 int64_t asked_ns);
/* Was that the last that it was told, within ABSENT_NS?  Says so once. */
bool absent_take(struct absent_names *a, pid_t thread, const char *path,
		 int64_t now_ns) MUST_CHECK;

#endif
