// SPDX-License-Identifier: Apache-2.0
/*
 * Writers that were told to look a name up again, because others read the file that it had.
 * The kernel does that once.  If somebody reads what it finds then, and has pages of it, the
 * writer would be told so once more, and its open would fail; so whoever reads such a name
 * has no pages.  Any thread.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_COMING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_COMING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"

#define COMING_MAX 16u /* names; the oldest goes */
/* Who has not come by then does not come. */
#define COMING_NS (10 * NS_PER_S)

struct coming_writers {
	pthread_mutex_t lock;
	struct coming_name {
		char *path; /* owned; NULL: none */
		int64_t until_ns;
	} names[COMING_MAX];
	unsigned int next;
};

void coming_init(struct coming_writers *c);
void coming_fini(struct coming_writers *c);

/* Times are of clock_now_ns().  What there is no memory for is not known. */
void coming_add(struct coming_writers *c, const char *path, int64_t now_ns);
bool coming_has(struct coming_writers *c, const char *path, int64_t now_ns);
/* It has come. */
void coming_drop(struct coming_writers *c, const char *path);

#endif
