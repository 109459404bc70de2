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

/* Events that bootseerd itself counts; other figures come from the cache and the devices. */
struct node_events {
	atomic_uint_fast64_t calls, calls_failed;
	atomic_uint_fast64_t prepares, prepares_fetched, prepares_stale,
		prepares_failed, prepares_untrusted;
	atomic_uint_fast64_t layers_applied, reloads, reloads_failed;
};

/* Result of the last `node doctor --report`. */
struct node_doctor {
	atomic_uint_fast64_t missing, advice;
	/* when it was reported, seconds since 1970; 0: never */
	atomic_uint_fast64_t at;
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
	/* process that parses foreign files; NULL in unit tests only */
	struct parser *parser;
	struct origins *origins;
	struct kept_logins *logins;
	/* signing keys that are not trusted any more */
	struct key_revocations *key_revocations;
	struct admission *admission;
	struct images *images;
	struct gc gc;
	struct disk *disk;
	/* reservations on `disk`, for rooms that do not know it */
	struct disk_room room;
	struct prefetches *prefetches;
	struct closure_searches *searches;
	struct image_swarms *peers; /* NULL: the node has no peers */
	/* registry mirror for containerd; NULL: there is none */
	struct mirror *mirror;
	struct keyed_lock *gate; /* serialises work on one image */
	/* zstd windows of ordinary layers, NODE_WINDOWS_MAX */
	struct memory_gate windows;
	/* NULL: the service is not asked for indexes */
	struct offers *offers;
	struct trace_lookup *traces;
	struct starts *starts;
	/* Starts under way whose containers have not reported that they are ready. */
	_Atomic size_t n_unready_starts;
	struct mounts *mounts;
	struct environments environments;
	struct recordings *recordings;
	struct node_events events;
	struct node_doctor doctor;
	int64_t started_at; /* seconds since 1970 */
	/* started by a holder (--hold), which ends with us */
	bool held;
	atomic_bool holder_gone; /* the holder was killed */
	/* true: the node is ending, so calls stop waiting */
	atomic_bool is_ending;
};

/* Bytes of large zstd windows that all layers together may use at a time, and those of one
 * registry's layers: two and one of the largest (ZSTD_WINDOW_MAX). */
#define NODE_WINDOWS_MAX (UINT64_C(1) << 30)
#define NODE_WINDOWS_EACH (NODE_WINDOWS_MAX / 2)

#endif
