// SPDX-License-Identifier: Apache-2.0
/* A start under way, for the files starts*.c. */
#ifndef BOOTSEER_NODE_STARTS_PRIV_H
#define BOOTSEER_NODE_STARTS_PRIV_H

#include "common/periodic.h"
#include "net/pool.h"
#include "snapshotter/node/images/back_offs.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/bundle.h"
#include "snapshotter/node/starts/recording_state.h"
#include "snapshotter/node/starts/start_events.h"
#include "snapshotter/node/starts/start_reports.h"
#include "snapshotter/node/starts/starts.h"

struct container_start {
	struct container_start *next; /* the table: numbers fall */
	unsigned int refs;            /* the lock */
	struct starts *all;
	uint64_t number;
	char *user;
	char *workload; /* the key that the trace was looked up by */
	char *bundle;   /* the lock; where what it runs and whose it is will
	                   * be, until it was read; or NULL */
	struct start_owner owner; /* the lock; "" until then */
	char *container;          /* id; NULL */
	char *ready_file;         /* NULL: none */
	int ready_root;           /* folder, or -1 */
	struct image *image;      /* a use */

	int64_t begun_at;           /* seconds since 1970 */
	int64_t begun_ns, watch_ns; /* monotonic; watch: behind the wait */
	int64_t until_ns, end_ns;
	/* The lock.  What is over lets go of its device, then leaves the table. */
	enum start_end end;
	struct start_reply reply;
	bool is_predicted; /* what is prefetched for it */
	enum recording_sight sight;
	enum recording_state recording; /* of its end alone, once it is over */
	enum start_words words;         /* the lock */
	int64_t mixed_ns; /* the lock; since when another workload started on
	                   * this device, too; 0: none */

	struct device *device; /* NULL: not watched, or let go */
	struct recorder *recorder;
	uint64_t watched_bytes; /* its share of starts.watched_bytes */
	struct device_stats device_before, device_after;
	struct prefetch_stats prefetch_before;
	/* The preparation that this start waited for before it began; end_ns 0:
	 * none. */
	struct image_asked asked;
	struct image_swarm_bytes swarm_before;
	struct back_off_sums back_offs_before;
	bool is_said; /* that it begins: its watcher's, then its end's */
	struct work work;
};

struct starts {
	struct starts_of of;
	struct wait_policy wait;        /* --wait */
	struct recording_policy record; /* --record */
	struct start_events *events;
	struct start_reports *reports;  /* NULL: nobody is told */
	struct pool *pool;              /* finishes starts */
	_Atomic uint64_t watched_bytes; /* of the devices of all recorders */
	struct periodic *watcher;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	struct container_start *first;
	size_t n;
	uint64_t last_number;
	bool stopping;
	struct starts_stats stats;
};

void container_start_free(struct container_start *s);

/* Make trace and figures of a start that ended, and free it. */
void container_start_finish(struct container_start *s);

/* starts_stages.c: how long requests to its registry have waited until now. */
void container_start_back_offs(const struct container_start *s,
			       struct back_off_sums *ret);
/* Say that it begins, as soon as its owner is known; once. */
void container_start_say_begin(struct container_start *s,
			       const struct start_owner *owner);
/* The rest, when it is over; also the begin, if that was not said. */
void container_start_say_end(struct container_start *s,
			     const struct prefetch_stats *prefetch,
			     size_t n_missed);

/* Its name, the caller's, or NULL; and whose it is, if that was not read yet. */
char *container_start_image_name(const struct container_start *s);
void container_start_read_owner(struct container_start *s);

/* starts_report.c: tell the service of it; `figures` are those of `image explain`. */
void container_start_report(struct container_start *s, const json_t *figures);

/* ready.c: is the start's file there? */
bool container_start_has_ready_file(const struct container_start *s);
/* ready.c: is the process in this start's container? */
bool container_start_has_process(const struct container_start *s,
				 const char *cgroups);
/* Put the figures of a start before the earlier ones of the image, durably.
 * Takes `figures`. */
int starts_note(struct image *i, json_t *figures, struct error *err) MUST_CHECK;

#endif
