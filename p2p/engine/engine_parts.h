// SPDX-License-Identifier: Apache-2.0
/*
 * Parts of an image, each used by one file only (others call that file's functions), and by the
 * loop's thread unless it says otherwise.
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

#define KNOWN_MAX SWARM_MEMBERS_MAX /* members known for one image, at most */

struct engine_call;
struct member;
struct neighbour;

/* engine_want.c: readers and lists that wait for pieces. */
struct image_wants {
	struct waiter_list waiters[WAITER_BUCKETS];
	LIST_HEAD(, lister) listers;
	bool is_changed[2]; /* the lists' wants changed: [0] hot, [1] cold */
};

/* engine_origin.c: reads of the origin. */
struct image_origin {
	struct source **packs; /* used by job threads */
	size_t n_packs;
	LIST_HEAD(, origin_read) reads;
	struct error error; /* last failure of the origin */
};

/* engine_host_job.c: the image's share of the threads. */
struct image_jobs {
	unsigned int n_running[HOST_JOBS];
	struct job_host *host;
};

/* engine_link.c: the other nodes that take part, by links that are up. */
struct image_neighbours {
	struct neighbour *peers[SWARM_PEERS_MAX];
	unsigned int n;
	uint8_t *asked;       /* priority of the last request for each piece */
	int64_t introduced;   /* when the neighbours were told of each other */
	bool is_news;         /* a neighbour came since `introduced` */
	bool has_quarantined; /* a neighbour in `peers` has to be dropped */
	int64_t met;          /* when the first neighbour came; 0: none has */
	/* As struct p2p_progress; read by any thread. */
	atomic_int_fast64_t heard_ns;
};

/* engine_givers.c: bytes of blocks that each node sent since the last query. */
struct image_givers {
	/* P2P_GIVERS_MAX entries; NULL: no sender yet. */
	struct p2p_giver *list;
	size_t n;
};

/* engine_member.c: nodes known to take part. */
/* Source of the claim that a node takes part; later values are trusted more. */
enum member_word {
	/* A neighbour, without saying which shared image. */
	WORD_OF_SOME,
	WORD_OF_IMAGE, /* a neighbour in this image */
	WORD_GIVEN,    /* a tracker, or the node itself with its right */
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
	int64_t until; /* seconds since 1970 */
	/* Time of renewal, seconds since 1970; 0: no right yet. */
	int64_t renew_at;
	unsigned int n_lost; /* requests in a row that failed */
	/* Running request for a right; NULL: none. */
	struct permit *permit;
	/* Reason of the last reported refusal; "": none. */
	char refusal[ERROR_MSG_MAX];
};

/* Pieces for which the core asked for leases. */
struct ask {
	uint32_t pieces[SWARM_LEASE_MAX];
	size_t n;
	bool is_demand;
};
#define ASKS_MAX 2u

/* Leases to ask the trackers for, and ended leases to report to them. */
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
	struct engine_call *call; /* running call; NULL: none */
	struct loop_timer timer;  /* starts the next call */
	int64_t timer_at;         /* when the timer ends; 0: not running */
	bool is_leaving;          /* the next call is the last one */
	int64_t called;           /* when the last call began */
	/* The call waited until this node met others. */
	bool has_waited;
	bool is_alone; /* the tracker knows no other node */
	const struct swarm_grant
		*granted; /* the answer being passed to the core */
	bool *is_read;    /* pieces of `granted` that the core reads */
	int64_t interval; /* longest time until the next call */
	/* Until then, the tracker has no room for leases. */
	int64_t full_until;
};

#endif
