// SPDX-License-Identifier: Apache-2.0
/* What the files of the starts share. */
#ifndef BOOTSEER_NODE_STARTS_PRIV_H
#define BOOTSEER_NODE_STARTS_PRIV_H

#include "common/pool.h"
#include "snapshotter/node/starts.h"

enum start_end {
	START_UNDER_WAY,
	START_READY,
	START_WINDOW, /* the window ended */
	START_GONE,   /* the container, or the mount, did */
};

struct start {
	struct start *next; /* the table: numbers fall */
	unsigned int refs;  /* the lock */
	struct starts *all;
	uint64_t number;
	char *user;
	char *workload;      /* the key that the trace was looked up by */
	char *bundle;        /* NULL: none, or its words are known */
	char *container;     /* id; NULL */
	char *ready_file;    /* NULL: none */
	int ready_root;      /* folder, or -1 */
	struct image *image; /* a use */

	int64_t begun_at;           /* seconds since 1970 */
	int64_t begun_ns, watch_ns; /* monotonic; watch: behind the wait */
	int64_t until_ns, end_ns;
	enum start_end end; /* the lock */
	bool ending;        /* the lock; somebody lets go of the device */
	struct start_reply reply;
	bool asked_for; /* the recording: by --record always or image.record */
	bool renamed;   /* the lock; `workload` was looked up by another key */
	bool fresh;     /* nothing of the mount was in the page cache */
	int64_t mixed_ns; /* the lock; since when another workload started on
	                   * this device, too; 0: none */

	struct device *device; /* NULL: not watched, or let go */
	struct recorder *recorder;
	struct device_stats device_before, device_after;
	struct prefetch_stats prefetch_before;
	struct work work;
};

struct starts {
	struct node *node;
	struct pool *pool; /* finishes starts */
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	struct start *first;
	size_t n;
	uint64_t last_number;
	bool stopping;
	struct starts_stats stats;
};

void start_free(struct start *s);

/* Is what ran for `watched_ms` no whole start, by what is known to take
 * `known_ms` (0: nothing is known)? */
bool start_is_fragment(enum start_end end, uint32_t watched_ms,
		       uint32_t known_ms);
/* Is it nothing to learn from, once something is known? */
bool start_is_short(enum start_end end, uint32_t watched_ms);

/* Make trace and figures of a start that ended, and free it. */
void start_finish(struct start *s);

/* ready.c: is the start's file there? */
bool start_has_ready_file(const struct start *s);
/* ready.c: is the process in this start's container? */
bool start_has_process(const struct start *s, const char *cgroups);
/* The key of what the container runs, when its bundle is there; the caller's. */
char *bundle_key(const char *bundle) MUST_CHECK;

/* Put the figures of a start before the earlier ones of the image, durably.
 * Takes `figures`. */
int starts_note(struct image *i, json_t *figures, struct error *err) MUST_CHECK;

#endif
