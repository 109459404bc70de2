// SPDX-License-Identifier: Apache-2.0
/* The parts of a running bootseerd, put together by main.c. */
#ifndef BOOTSEER_NODE_NODE_H
#define BOOTSEER_NODE_NODE_H

#include <stdatomic.h>

#include "common/memory_gate.h"
#include "net/control.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/disk_room.h"

/* Events counted by bootseerd itself; the rest comes from cache and devices. */
struct node_events {
	atomic_uint_fast64_t calls, calls_failed;
	atomic_uint_fast64_t prepares, prepares_fetched, prepares_stale,
		prepares_failed, prepares_untrusted;
	atomic_uint_fast64_t layers_applied, reloads, reloads_failed;
};

/* The last `node doctor --report`: how many checks failed, and when it was. */
struct node_doctor {
	atomic_uint_fast64_t missing, advice;
	atomic_uint_fast64_t at; /* seconds since 1970; 0: there was none */
};

struct node {
	const struct node_config *cfg;
	int run_fd; /* holds the lock on RUN */
	unsigned int
		min_free; /* percent of ROOT's disk; disk_choose_min_free() */
	struct cache *cache;
	struct fetcher *fetcher;
	struct fd_keeper *keeper;
	struct datapath *datapath;
	struct parser *parser; /* of what strangers wrote; never NULL in a
	                        * bootseerd */
	struct origins *origins;
	struct kept_logins *logins;
	struct key_revocations *key_revocations; /* keys not to be believed */
	struct admission *admission;
	struct images *images;
	struct gc gc;
	struct disk *disk;
	struct disk_room room; /* of `disk` */
	struct prefetches *prefetches;
	struct closure_searches *searches;
	struct image_swarms *peers; /* NULL: none are wanted */
	struct mirror *mirror;      /* of containerd; NULL: there is none */
	struct keyed_lock *gate;    /* of work on one image */
	struct memory_gate windows; /* of ordinary layers, NODE_WINDOWS_MAX */
	struct offers *offers;      /* NULL: no index is asked for */
	struct trace_lookup *traces;
	struct starts *starts;
	/* Starts under way whose ready file is not there yet. */
	_Atomic size_t n_unready_starts;
	struct mounts *mounts;
	struct environments environments;
	struct recordings *recordings;
	struct node_events events;
	struct node_doctor doctor;
	int64_t started_at;      /* seconds since 1970 */
	bool held;               /* by a holder, which ends with us */
	atomic_bool holder_gone; /* it was killed */
	atomic_bool is_ending;   /* what waits for others gives up */
};

/* Bytes of large zstd windows of all layers that are applied at a time, and of those
 * from one registry: two and one of the largest (ZSTD_WINDOW_MAX). */
#define NODE_WINDOWS_MAX (UINT64_C(1) << 30)
#define NODE_WINDOWS_EACH (NODE_WINDOWS_MAX / 2)

#endif
