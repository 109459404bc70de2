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

#define STARTS_MAX 256 /* starts under way at once */

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
	struct image_swarms *peers; /* NULL: no peers */
	struct keyed_lock *gate;    /* serialises work on one image */
	struct prefetches *prefetches;
	struct trace_lookup *traces;
	/* Where the number of starts is counted that wait for their ready file, also after
	 * their window. */
	_Atomic size_t *n_unready;
};
int starts_open(const struct starts_of *of, struct starts **ret,
		struct error *err) MUST_CHECK;
/* Forget the starts under way.  Called while their devices still exist. */
void starts_close(struct starts *s); /* NULL is allowed */

/* Note that the image was prepared from `begin_ns` until now; a registry had named its manifest
 * at `resolved_ns` (0: none was asked).  The next start reports it.  `s` may be NULL. */
void starts_note_asked(struct starts *s, struct image *i, int64_t begin_ns,
		       int64_t resolved_ns);

struct start_request {
	/* the image's user that starts; names the start */
	const char *user;
	/* workload key; NULL: that of the image's config */
	const char *workload;
	/* how long to wait for the prefetch; NULL: as --wait */
	const struct wait_policy *wait;
	/* The start is ready when this file exists: a path in the folder `ready_root`, without
	 * following links out of it, or an absolute path. */
	const char *ready_file, *ready_root;
	/* The OCI bundle's folder: its last part is the container's id.  If `workload` is NULL,
	 * process.args of the bundle give the key of the recording. */
	const char *bundle;
	/* the mount of a recording; NULL: the image's mount */
	struct mounted *mount;
	int64_t window_ns;        /* 0: the time of --record */
	struct remote_call *call; /* the caller, which may end the wait */
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
 * Find the trace, begin the prefetch, wait as the policy says, and watch the start.  Failures
 * of these steps are only logged; errors are
 *     -ENOENT  the image is not mounted
 *     -ECANCELED  the caller has left; nothing was begun
 *     -EAGAIN  STARTS_MAX starts are under way
 *     -ENOMEM
 */
int starts_begin(struct starts *s, struct image *i,
		 const struct start_request *r, struct start_reply *ret,
		 struct error *err) MUST_CHECK;

/* Identifies a start; the first member that is set counts. */
struct start_name {
	uint64_t number;
	const char *user;
	const char *cgroups; /* of a process of the container */
};

/* Get the control groups of a process from /proc.  `pidfd` (or -1) proves that the PID was not
 * reused: -ESRCH if the process has ended. */
int process_cgroups(int pid, int pidfd, struct buf *ret,
		    struct error *err) MUST_CHECK;

/* The container has reported that it is ready.  -ENOENT: no such start is under way. */
int starts_ready(struct starts *s, const struct start_name *which,
		 int64_t *ret_ns, struct error *err) MUST_CHECK;

/* End the start of this user: its container is gone. */
void starts_end(struct starts *s, const char *user);

/* A device is about to be freed: make starts let go of it.  `s` may be NULL. */
void starts_detach(struct starts *s, const struct device *d);

/* Set the bits of the image's blocks that starts under way have read. */
void starts_mark_read(struct starts *s, const struct image *i,
		      const struct blockmap *map, uint8_t *bits);

/* Would the next start of the image be recorded? */
bool starts_would_record(struct starts *s, struct image *i);

/* The figures of the last starts, newest first: a JSON array. */
json_t *starts_explain(const struct image *i) MUST_CHECK;

/* The starts under way: a JSON array, newest first; NULL when memory is short. */
json_t *starts_under_way(struct starts *s) MUST_CHECK;

struct starts_stats {
	uint64_t begun, ready, recorded, record_failed, unready, under_way;
	uint64_t waited_ms, with_trace;
	uint64_t hot_used_bytes, hot_unused_bytes, misses;
	uint64_t predicted; /* starts with a prediction, not a trace */
	uint64_t predicted_used_bytes, predicted_unused_bytes;
	/* Reports to the service of how each start went. */
	uint64_t reports_sent, reports_waiting, reports_dropped;
	/* time until ready, of the starts that got ready */
	struct counter_seconds ready_after;
};
void starts_get_stats(struct starts *s, struct starts_stats *ret);

#endif
