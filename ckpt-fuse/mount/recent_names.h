// SPDX-License-Identifier: Apache-2.0
/*
 * Paths of which something was known a moment ago, and of which thread (0: of none).  Bounded:
 * the oldest goes.  Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_RECENT_NAMES_H
#define BOOTSEER_CKPT_FUSE_MOUNT_RECENT_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/mutex.h"

#define RECENT_NAMES_MAX 64u

struct recent_names {
	int64_t valid_ns; /* for so long a path is known */
	pthread_mutex_t lock;
	struct recent_name {
		char *path; /* owned; NULL: none */
		pid_t thread;
		int64_t at_ns;
	} names[RECENT_NAMES_MAX];
};

void recent_names_init(struct recent_names *r, int64_t valid_ns);
void recent_names_fini(struct recent_names *r);

/* Times are of clock_now_ns().  A path that there is no memory for is not known. */
void recent_names_add(struct recent_names *r, pid_t thread, const char *path,
		      int64_t now_ns);
bool recent_names_has(struct recent_names *r, pid_t thread, const char *path,
		      int64_t now_ns);
/* Not from now on; true: it was known until now. */
bool recent_names_take(struct recent_names *r, pid_t thread, const char *path,
		       int64_t now_ns);

#endif
