// SPDX-License-Identifier: Apache-2.0
/* How long requests to each registry have waited before they were repeated, which explains slow
 * starts (docs/profiler.md).  Any thread. */
#ifndef BOOTSEER_NODE_BACK_OFFS_H
#define BOOTSEER_NODE_BACK_OFFS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define BACK_OFFS_HOSTS_MAX 64 /* further hosts are not counted */
#define BACK_OFFS_HOST_ROOM 256

/* Sums since the node began.  Times during which at least one request waited. */
struct back_off_sums {
	uint64_t n;           /* requests that were repeated */
	int64_t waited_ns;    /* waits after a failure */
	int64_t throttled_ns; /* waits because the registry throttles (429) */
};

struct back_off_host {
	char name[BACK_OFFS_HOST_ROOM]; /* "": this entry is free */
	struct back_off_sums sums;
	/* requests that wait now: [0] after a failure; [1] throttled */
	unsigned int n_waiting[2];
	int64_t since_ns[2];
};

struct back_offs {
	pthread_mutex_t lock;
	struct back_off_host hosts[BACK_OFFS_HOSTS_MAX];
};

void back_offs_init(struct back_offs *b);
void back_offs_fini(struct back_offs *b);

/* Note that a request begins to wait, or (`is_over`) goes on. */
void back_offs_note(struct back_offs *b, const char *host, bool is_throttled,
		    bool is_over, int64_t now_ns);

/* The host's sums, with the waits that are still under way. */
void back_offs_get(struct back_offs *b, const char *host, int64_t now_ns,
		   struct back_off_sums *ret);

#endif
