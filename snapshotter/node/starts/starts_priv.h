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
	/* next in the table, whose numbers decrease */
	struct container_start *next;
	unsigned int refs; /* under the lock */
	struct starts *all;
	uint64_t number;
	char *user;
	char *workload; /* the key that the trace was looked up by */
	/* OCI bundle's folder, until it was read; or NULL; under the lock */
	char *bundle;
	/* the same after it was read, if there is a ready file: containerd removes the folder
	 * when the container's process has ended */
	char *read_bundle;
	/* read from the bundle; "" before; under the lock */
	struct start_owner owner;
	char *container; /* its id; NULL: not known */
	/* file whose existence shows readiness; NULL: none */
	char *ready_file;
	/* folder that ready_file is relative to; -1: none */
	int ready_root;
	struct image *image; /* a use */

	int64_t begun_at; /* seconds since 1970 */
	/* monotonic; watch: after the wait for the prefetch */
	int64_t begun_ns, watch_ns;
	int64_t until_ns, end_ns;
	/* Under the lock.  A start that is over lets go of its device first, then leaves the
	 * table. */
	enum start_end end;
	struct start_reply reply;
	bool is_predicted; /* the prefetched hot set is a prediction */
	enum recording_sight sight;
	/* changed only by the thread that finishes the start */
	enum recording_state recording;
	enum start_words words; /* under the lock */
	/* since when another workload uses the device too; 0: none does; under the lock */
	int64_t mixed_ns;

	/* NULL: its reads are not recorded, or it was let go */
	struct device *device;
	struct recorder *recorder;
	/* bytes counted in starts.watched_bytes for it */
	uint64_t watched_bytes;
	struct device_stats device_before, device_after;
	struct prefetch_stats prefetch_before;
	/* The preparation that this start waited for; end_ns 0: none. */
	struct image_asked asked;
	struct image_swarm_bytes swarm_before;
	struct back_off_sums back_offs_before;
	/* the event of its begin was written; used by the watcher, then by the finishing thread */
	bool is_said;
	struct work work;
};

struct starts {
	struct starts_of of;
	struct wait_policy wait;        /* --wait */
	struct recording_policy record; /* --record */
	struct start_events *events;
	struct start_reports *reports; /* NULL: nothing is reported */
	struct pool *pool;             /* finishes starts */
	/* sum of the device sizes of all recorders */
	_Atomic uint64_t watched_bytes;
	struct periodic *watcher;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	struct container_start *first;
	size_t n;
	/* Starts whose window ended before their ready file was there: only the members by
	 * which they are found ready or gone.  starts_detach() removes them before it returns. */
	struct container_start *late;
	size_t n_late;
	uint64_t last_number;
	bool stopping;
	struct starts_stats stats;
};

void container_start_free(struct container_start *s);

/* Make trace and figures of a start that ended, and free it. */
void container_start_finish(struct container_start *s);

/* starts_stages.c: how long requests to the start's registry have waited so far. */
void container_start_back_offs(const struct container_start *s,
			       struct back_off_sums *ret);
/* Write the events of the start's begin, as soon as its owner is known; once. */
void container_start_say_begin(struct container_start *s,
			       const struct start_owner *owner);
/* Write the remaining events when the start is over; also those of the begin, if missing. */
void container_start_say_end(struct container_start *s,
			     const struct prefetch_stats *prefetch,
			     size_t n_missed);

/* The image's name, which the caller frees, or NULL.  _read_owner() reads the start's owner, if
 * that was not done yet. */
char *container_start_image_name(const struct container_start *s);
void container_start_read_owner(struct container_start *s);

/* starts_report.c: report the start to the service; `figures` are those of `image explain`. */
void container_start_report(struct container_start *s, const json_t *figures);

/* ready.c: does the start's ready file exist? */
bool container_start_has_ready_file(const struct container_start *s);
/* ready.c: has the container's process ended?  False: not, or nobody knows. */
bool container_start_has_ended(const struct container_start *s);
/* ready.c: is the process in this start's container? */
bool container_start_has_process(const struct container_start *s,
				 const char *cgroups);
/* Put the figures of a start before the earlier ones of the image, durably.
 * Takes `figures`. */
int starts_note(struct image *i, json_t *figures, struct error *err) MUST_CHECK;

#endif
