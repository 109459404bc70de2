// SPDX-License-Identifier: Apache-2.0
/*
 * A bounded set of recently noted paths, each with a thread (0: any). The oldest entry is replaced.
 * Any thread.
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
	int64_t valid_ns; /* how long an entry is valid */
	pthread_mutex_t lock;
	struct recent_name {
		char *path; /* owned; NULL: unused */
		pid_t thread;
		int64_t at_ns;
	} names[RECENT_NAMES_MAX];
};

void recent_names_init(struct recent_names *r, int64_t valid_ns);
void recent_names_fini(struct recent_names *r);

/* Times are of clock_now_ns(). If memory is short, the path is not added. */
void recent_names_add(struct recent_names *r, pid_t thread, const char *path,
		      int64_t now_ns);
bool recent_names_has(struct recent_names *r, pid_t thread, const char *path,
		      int64_t now_ns);
/* Remove an entry; true: it was there and valid. */
bool recent_names_take(struct recent_names *r, pid_t thread, const char *path,
		       int64_t now_ns);

#endif
