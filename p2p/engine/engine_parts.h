// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of an image that one file each reads and writes, and the loop's thread, but
 * for what says otherwise.  Others call that file's functions.
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_PARTS_H
#define BOOTSEER_P2P_ENGINE_ENGINE_PARTS_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "net/loop.h"
#include "p2p/core/swarm.h"
#include "p2p/engine/engine_host_job.h"
#include "p2p/engine/engine_want.h"
#include "p2p/p2p.h"
#include "p2p/rights/capability.h"
#include "p2p/tracker/tracker.h"

#define KNOWN_MAX SWARM_MEMBERS_MAX /* known to take part in one image */

struct engine_call;
struct member;
struct neighbour;

/* engine_want.c: who waits. */
struct image_wants {
	struct waiter_list waiters[WAITER_BUCKETS];
	LIST_HEAD(, lister) listers;
	bool is_changed[2]; /* what the lists want: hot, cold */
};

/* engine_origin.c: reads of the origin. */
struct image_origin {
	struct source **packs; /* read by the threads of jobs */
	size_t n_packs;
	LIST_HEAD(, origin_read) reads;
	struct error error; /* the last one */
};

/* engine_host_job.c: its turn among the threads. */
struct image_jobs {
	unsigned int n_running[HOST_JOBS];
	struct job_host *host;
};

/* engine_link.c: the other nodes that take part, by links that are up. */
struct image_neighbours {
	struct neighbour *peers[SWARM_PEERS_MAX];
	unsigned int n;
	uint8_t *asked; /* enum source_priority of each piece's last question */
	int64_t introduced;   /* when the neighbours were told of each other */
	bool is_news;         /* a neighbour came since `introduced` */
	bool has_quarantined; /* one of them is to leave */
	int64_t met;          /* when the first came; 0: none did */
	/* As struct p2p_progress; read by any thread. */
	atomic_int_fast64_t heard_ns;
};

/* engine_givers.c: who gave blocks of it, since that was asked last. */
struct image_givers {
	struct p2p_giver *list; /* P2P_GIVERS_MAX; NULL: nobody yet */
	size_t n;
};

/* engine_member.c: who is known to take part. */
enum member_word {               /* who says so: a later one is worth more */
		   WORD_OF_SOME, /* a neighbour, of one of the images that we share with it */
		   WORD_OF_IMAGE, /* a neighbour in this image */
		   WORD_GIVEN, /* a tracker, or the node itself with its right */
};
struct known_member {
	struct member *m;
	enum member_word word;
};
struct image_known {
	struct known_member members[KNOWN_MAX];
	size_t n;
};

/* engine_rights.c: this node's right to the image. */
struct image_right {
	uint8_t capability[CAPABILITY_MAX];
	size_t len;
	int64_t until;               /* seconds since 1970 */
	int64_t renew_at;            /* the same; 0: there is none yet */
	unsigned int n_lost;         /* asked for and not given, in a row */
	struct permit *permit;       /* being asked for; NULL: none is */
	char refusal[ERROR_MSG_MAX]; /* why, as was told; "": it was not */
};

/* A question of the core for leases. */
struct ask {
	uint32_t pieces[SWARM_LEASE_MAX];
	size_t n;
	bool is_demand;
};
#define ASKS_MAX 2u

/* Leases of an image that the trackers are to be told of, and asked for. */
struct leases {
	struct ask asks[ASKS_MAX];
	size_t n_asks;
	uint32_t done[TRACKER_PIECES_MAX], failed[TRACKER_PIECES_MAX];
	size_t n_done, n_failed;
	int64_t origin_wait_ns;
};

/* engine_tracker.c: calls to the trackers. */
struct image_calls {
	struct leases leases;
	struct engine_call *call; /* under way, or NULL */
	struct loop_timer timer;  /* of the next one */
	int64_t timer_at;         /* when that ends; 0: it does not run */
	bool is_leaving;          /* the next call is the last one */
	int64_t called;           /* when the last one began */
	bool has_waited;          /* for others, with what it asks */
	bool is_alone;            /* the tracker knows nobody else */
	const struct swarm_grant
		*granted;   /* the answer that the core is told now */
	bool *is_read;      /* which of `granted` the core reads */
	int64_t interval;   /* to the next, at the latest */
	int64_t full_until; /* the tracker has no room for its leases */
};

#endif
