// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of p2p.h: what binds the core, links, tracker, cache and origin.
 *
 *   engine.c          open and close, the loop's thread, calls into it
 *   engine_image.c    an image: its pieces, the core's calls and its clock
 *   engine_want.c     who waits: readers and lists
 *   engine_source.c   readers' side: a block source
 *   engine_fetch.c    lists' side: the contract of device_fetch_list()
 *   engine_arrive.c   what comes: unpacked, checked, kept
 *   engine_origin.c   reading from the origin
 *   engine_errand.c     threads for what may hang, and whose turn it is
 *   engine_serve.c    answering others
 *   engine_link.c     links and neighbours, and what they say
 *   engine_retry.c    images for which a link had no room
 *   engine_member.c   who is known, and whom to connect to
 *   engine_rights.c   who may have what
 *   engine_tracker.c  calls to the trackers
 *   engine_probe.c    whether they do what is asked, before an image asks
 *   engine_check.c    what can be told of a configuration alone
 *   engine_fault.c    what the operator is told, links that fail
 *   engine_stats.c    figures
 *
 * One thread runs the loop and owns everything that does not say otherwise.
 * Other threads come in by engine_run(); the pools' works come back by done().
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_H
#define BOOTSEER_P2P_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "net/loop.h"
#include "net/pool.h"
#include "p2p/core/slots.h"
#include "p2p/core/swarm.h"
#include "p2p/engine/engine_fault.h"
#include "p2p/engine/engine_errand.h"
#include "p2p/engine/engine_want.h"
#include "p2p/engine/relay.h"
#include "p2p/net/net.h"
#include "p2p/p2p.h"
#include "p2p/rights/capability.h"
#include "p2p/rights/revoked.h"
#include "p2p/tracker/tracker.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

#define MEMBER_BUCKETS 1024u
#define KNOWN_MAX SWARM_MEMBERS_MAX /* known to take part in one image */

struct engine_call;
struct link;
struct member;
struct neighbour;
struct rights_reading;
struct probe;
TAILQ_HEAD(member_list, member);

/* Bytes of a piece, counted as memory of `p2p`.  Any thread. */
struct bytes {
	struct p2p *p;
	atomic_uint refs;
	uint32_t len;
	uint8_t data[];
};

/* One question of the core for leases. */
struct ask {
	uint32_t pieces[SWARM_LEASE_MAX];
	size_t n;
	bool is_demand;
};
#define ASKS_MAX 2u

/* What the trackers are to be told of an image, and what they are asked. */
struct leases {
	struct ask asks[ASKS_MAX];
	size_t n_asks;
	uint32_t done[TRACKER_PIECES_MAX], failed[TRACKER_PIECES_MAX];
	size_t n_done, n_failed;
	int64_t origin_wait_ns;
};

struct p2p_image {
	LIST_ENTRY(p2p_image) all;
	struct p2p *p;
	struct digest digest; /* p2p_swarm_name() */
	struct digest image;
	bool is_metadata;
	atomic_int_fast64_t moved_ns, heard_ns; /* as struct p2p_progress */
	uint64_t id; /* for the relay: no two have the same */
	const struct blockmap *map;
	char *label, *repo;
	char *(*authorization)(void *arg, struct pace *pace);
	void *arg;
	struct source **packs;
	size_t n_packs;
	struct places places;
	uint32_t *sizes, *unpacked;
	uint8_t *why; /* enum source_priority a piece was last asked with */
	uint32_t n;

	struct swarm *swarm;
	struct loop_call settle_call;
	bool is_settling;      /* it is posted */
	bool wants_changed[2]; /* hot, cold */
	struct loop_timer tick, news, connect, announce;
	bool news_armed;

	struct neighbour *peers[SWARM_PEERS_MAX];
	unsigned int n_peers;
	struct member *known[KNOWN_MAX];
	size_t n_known;
	/* When the neighbours were told of each other, and that one came since. */
	int64_t introduced;
	bool is_news_of_members;
	bool has_quarantined; /* one of the peers is to leave */
	uint8_t capability[CAPABILITY_MAX];
	size_t capability_len;
	int64_t capability_until;    /* seconds since 1970 */
	int64_t renew_at;            /* the same; 0: there is none yet */
	unsigned int permits_lost;   /* asked for and not given, in a row */
	struct permit *permit;       /* being asked for; NULL: none is */
	char refusal[ERROR_MSG_MAX]; /* why, as was told; "": it was not */

	struct waiter_list waiters[WAITER_BUCKETS];
	LIST_HEAD(, lister) listers;
	LIST_HEAD(, origin_read) reads;
	struct error origin_error;       /* the last one */
	unsigned int n_errands[ERRANDS]; /* that run */
	struct errand_host *host;

	struct leases leases;
	struct engine_call *call; /* under way, or NULL */
	bool is_leaving;          /* the next call is the last one */
	int64_t called;           /* when the last one began */
	int64_t opened, met;      /* when; met: first somebody else */
	bool has_waited;          /* for others, with what it asks */
	bool has_heard;           /* what somebody has */
	bool is_alone;            /* the tracker knows nobody else */
	int64_t announce_at;      /* when the timer makes the next; 0: not */
	const struct swarm_grant *granted; /* being told to the core ... */
	bool *is_read;                     /* ... and what it reads of it */
	int64_t interval;                  /* to the next, at the latest */
	int64_t full_until; /* the tracker has no room for its leases */

	bool is_closing;
	unsigned int n_works; /* under way; with p->lock */
};

struct p2p {
	struct p2p_config cfg;
	struct net_node self;
	struct loop *loop;
	pthread_t thread;
	bool has_thread;
	struct pool *hash;                      /* unpacks and checks */
	struct errand_threads errands[ERRANDS]; /* for origins, and rights */
	LIST_HEAD(, errand_host) hosts;
	struct pool *disk;               /* reads the cache for others */
	struct pool *calls;              /* to the trackers */
	struct tracker_client *trackers; /* NULL: none */
	struct net *net;
	struct slots *slots;
	struct relay *relay; /* NULL: nothing is kept */
	struct capability_keys *keys;
	struct revoked *revoked; /* NULL: nothing is known to be */
	struct rights_reading
		*reading;    /* of what was revoked; NULL: it is not */
	struct probe *probe; /* NULL: there are no trackers */
	bool tracker_is_there;
	struct work save_work; /* of the members file */
	char *members_path, *members_text;
	struct loop_timer members_timer, revoked_timer, probe_timer;
	bool members_changed;

	LIST_HEAD(, p2p_image) images;
	LIST_HEAD(, link) links;
	struct member_list members;
	LIST_HEAD(, member) named[MEMBER_BUCKETS];
	size_t n_members;
	uint64_t serial;
	unsigned int links_made, name_seed;
	uint64_t random;
	uint64_t run;          /* of this node, for the trackers */
	struct p2p_stats past; /* of images that are closed */
	uint64_t denied, refused, leases;
	struct faults faults;
	uint64_t origin_bytes;
	uint64_t ahead; /* bytes that readers want and have not taken */

	atomic_uint_fast64_t memory;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	unsigned int n_uploads;  /* begun and not ended */
	int64_t origin_ready_ns; /* when what was read has been paid for */
};

/* ------------------------------------------------------------ engine.c --- */

/* Have fn(arg) called on the loop and wait for it.  Any other thread. */
void engine_run(struct p2p *p, void (*fn)(void *arg), void *arg);
/* A timer that was started once with success cannot fail any more. */
void engine_arm(struct p2p *p, struct loop_timer *t, int64_t delay_ns);
uint64_t engine_random(struct p2p *p);
/* `must`: also beyond the limit, for what is paid for already.  NULL: no
 * memory. */
struct bytes *bytes_new(struct p2p *p, uint32_t len, bool must);
struct bytes *bytes_ref(struct bytes *b);
void bytes_unref(struct bytes *b); /* NULL is allowed */
/* A condition whose waits end by CLOCK_MONOTONIC. */
void cond_init(pthread_cond_t *c);
/* With `lock`, until `until` at the latest. */
void cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until);

/* ------------------------------------------------------ engine_image.c --- */

void image_block(const struct p2p_image *i, uint32_t piece, struct block *ret);
/* PIECE_NONE: it is none of the image's. */
uint32_t image_piece(const struct p2p_image *i, const struct block *b);
struct p2p_image *image_by_digest(struct p2p *p, const struct digest *d);
/* Decide anew, soon. */
void image_settle(struct p2p_image *i);
/* A work that needs the image begins, or has ended.  Any thread. */
void image_hold(struct p2p_image *i);
void image_release(struct p2p_image *i);
void image_moves(struct p2p_image *i); /* bytes came; any thread */
/* It is on the node now, or is not any more. */
bool image_look(struct p2p_image *i, uint32_t piece, int64_t now);

#endif
