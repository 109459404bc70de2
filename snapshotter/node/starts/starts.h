// SPDX-License-Identifier: Apache-2.0
/*
 * Starts of containers: each is watched from start.begin until it is ready, its
 * window ends, or its container goes; then what it read becomes a trace and
 * figures (docs/architecture.md).  Any thread.
 */
#ifndef BOOTSEER_NODE_STARTS_H
#define BOOTSEER_NODE_STARTS_H

#include "common/counter.h"
#include "common/json.h"
#include "prefetcher/prefetcher.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/remote_call.h"

#define STARTS_MAX 256 /* under way at once */

struct image_swarms;
struct keyed_lock;
struct mounted;
struct prefetches;
struct starts;
struct trace_lookup;

/* The parts of the node that starts need; all is borrowed. */
struct starts_of {
	const struct node_config *cfg;
	struct origins *origins;
	struct image_swarms *peers; /* or NULL */
	struct keyed_lock *gate;    /* of work on one image */
	struct prefetches *prefetches;
	struct trace_lookup *traces;
	/* Counts starts under way whose ready file is not there yet. */
	_Atomic size_t *n_unready;
};
int starts_open(const struct starts_of *of, struct starts **ret,
		struct error *err) MUST_CHECK;
/* Starts that are under way are forgotten. Called while the devices are still
 * there. */
void starts_close(struct starts *s); /* NULL is allowed */

/* The image was prepared, from `begin_ns` until now; what is meant was known of a
 * registry at `resolved_ns` (0: none was asked).  The next start tells of it.  `s` may be
 * NULL. */
void starts_note_asked(struct starts *s, struct image *i, int64_t begin_ns,
		       int64_t resolved_ns);

struct start_request {
	const char *user;               /* who starts: names the start */
	const char *workload;           /* key; NULL: of the image's config */
	const struct wait_policy *wait; /* NULL: --wait */
	/* Ready when this file is there: beneath the folder `ready_root`, whose
	 * links lead nowhere else, or without one an absolute path. */
	const char *ready_file, *ready_root;
	/* Folder of the OCI bundle: its last part is the container's id, its
	 * process.args make the key that the recording is kept under when
	 * `workload` is NULL. */
	const char *bundle;
	struct mounted *mount;    /* a recording's own; NULL: the image's */
	int64_t window_ns;        /* 0: the time of --record */
	struct remote_call *call; /* what ends it */
};

struct start_reply {
	uint64_t number;
	bool found;
	enum trace_match match;
	int64_t waited_ns;
	size_t hot_blocks;
	uint64_t hot_bytes, have_bytes;
	bool recording;
};

/*
 * Find the trace, have the prefetch under way, wait as the policy says, watch.
 * What fails on the way is logged; an error is only
 *   -ENOENT  the image is not mounted
 *   -ECANCELED  nobody wants it any more; nothing was begun
 *   -EAGAIN  STARTS_MAX are under way
 *   -ENOMEM
 */
int starts_begin(struct starts *s, struct image *i,
		 const struct start_request *r, struct start_reply *ret,
		 struct error *err) MUST_CHECK;

/* Which start; the first that is set counts. */
struct start_name {
	uint64_t number;
	const char *user;
	const char *cgroups; /* of a process of the container */
};

/* The control groups of a process, as /proc has them.  `pidfd` (or -1): if it is
 * gone, another may have its number: -ESRCH. */
int process_cgroups(int pid, int pidfd, struct buf *ret,
		    struct error *err) MUST_CHECK;

/* -ENOENT: no such start is under way. */
int starts_ready(struct starts *s, const struct start_name *which,
		 int64_t *ret_ns, struct error *err) MUST_CHECK;

/* The container of this user is gone. */
void starts_end(struct starts *s, const char *user);

/* A device goes: let go of it before.  `s` may be NULL: nobody watches. */
void starts_detach(struct starts *s, const struct device *d);

/* Set the bits of the image's blocks that starts under way have read. */
void starts_mark_read(struct starts *s, const struct image *i,
		      const struct blockmap *map, uint8_t *bits);

/* Would the next start of the image be recorded? */
bool starts_would_record(struct starts *s, struct image *i);

/* The figures of the last starts, newest first: a JSON array. */
json_t *starts_explain(const struct image *i) MUST_CHECK;

/* Those under way: a JSON array, newest first; NULL when memory is short. */
json_t *starts_under_way(struct starts *s) MUST_CHECK;

struct starts_stats {
	uint64_t begun, ready, recorded, record_failed, unready, under_way;
	uint64_t waited_ms, with_trace;
	uint64_t hot_used_bytes, hot_unused_bytes, misses;
	uint64_t predicted; /* without a trace, but with a prediction */
	uint64_t predicted_used_bytes, predicted_unused_bytes;
	/* For the service: how each start went. */
	uint64_t reports_sent, reports_waiting, reports_dropped;
	struct counter_seconds ready_after; /* of those that got ready */
};
void starts_get_stats(struct starts *s, struct starts_stats *ret);

#endif
