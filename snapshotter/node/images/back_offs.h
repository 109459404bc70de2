// SPDX-License-Identifier: Apache-2.0
/* How long requests to each registry have waited before they were made again: why a
 * start was slow (docs/profiler.md).  Any thread. */
#ifndef BOOTSEER_NODE_BACK_OFFS_H
#define BOOTSEER_NODE_BACK_OFFS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BACK_OFFS_HOSTS_MAX 64 /* what is beyond is not counted */
#define BACK_OFFS_HOST_ROOM 256

/* Since the node began.  Times in which some request waited, however many did. */
struct back_off_sums {
	uint64_t n;           /* requests that were made again */
	int64_t waited_ns;    /* after a failure */
	int64_t throttled_ns; /* because the registry said "later" */
};

struct back_off_host {
	char name[BACK_OFFS_HOST_ROOM]; /* "": the place is free */
	struct back_off_sums sums;
	unsigned int n_waiting[2]; /* after a failure; throttled */
	int64_t since_ns[2];
};

struct back_offs {
	pthread_mutex_t lock;
	struct back_off_host hosts[BACK_OFFS_HOSTS_MAX];
};

void back_offs_init(struct back_offs *b);
void back_offs_fini(struct back_offs *b);

/* A request begins to wait, or goes on. */
void back_offs_note(struct back_offs *b, const char *host, bool is_throttled,
		    bool is_over, int64_t now_ns);

/* Waits under way count, too. */
void back_offs_get(struct back_offs *b, const char *host, int64_t now_ns,
		   struct back_off_sums *ret);

#endif
