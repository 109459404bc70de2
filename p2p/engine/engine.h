// SPDX-License-Identifier: Apache-2.0
/*
 * Private structures behind p2p.h: they connect the core, links, trackers, cache and origin.
 *
 *   engine.c           open and close, the loop's thread, calls into it
 *   engine_image.c     an image: its pieces, the core's calls and its clock
 *   engine_parts.h     what each other file keeps for an image
 *   engine_want.c      waiting readers and lists
 *   engine_source.c    readers: a block source
 *   engine_fetch.c     lists: the contract of device_fetch_list()
 *   engine_arrive.c    arriving pieces: unpack, check, store
 *   engine_origin.c    reading from the origin
 *   engine_host_job.c  threads for calls that may hang, and their fair use
 *   engine_serve.c     answers to other nodes
 *   engine_link.c      links and neighbours, and their messages
 *   engine_retry.c     images for which a link had no room
 *   engine_givers.c    how much each neighbour sent
 *   engine_member.c    known members, and which of them to connect to
 *   engine_hearsay.c   addresses that neighbours announce
 *   engine_rights.c    which node may have which image
 *   engine_tracker.c   calls to the trackers
 *   engine_probe.c     checks whether trackers answer before an image needs them
 *   engine_check.c     checks of a configuration alone
 *   engine_fault.c     notes to the operator, links that fail
 *   engine_stats.c     figures
 *
 * One thread runs the loop and owns everything that does not say otherwise. Other threads come in
 * by engine_run(); the pools' jobs come back by done().
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_H
#define BOOTSEER_P2P_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "common/thread.h"
#include "net/loop.h"
#include "net/pool.h"
#include "p2p/core/slots.h"
#include "p2p/core/swarm.h"
#include "p2p/engine/engine_fault.h"
#include "p2p/engine/engine_parts.h"
#include "p2p/engine/relay.h"
#include "p2p/net/net.h"
#include "p2p/p2p.h"
#include "p2p/rights/capability.h"
#include "p2p/rights/revoked.h"
#include "p2p/tracker/tracker.h"

#define MEMBER_BUCKETS 1024u

struct link;
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

/* An open image: what engine_image.c keeps, and for each other file a part that only that file
 * reads and writes (table in tests/lint/locks.md, checked by the lint). */
struct p2p_image {
	LIST_ENTRY(p2p_image) all;
	struct p2p *p;
	struct digest digest; /* p2p_swarm_name() */
	struct digest image;
	bool is_metadata;
	atomic_int_fast64_t moved_ns, told_ns; /* as struct p2p_progress */
	uint64_t id;                           /* key for the relay; unique */
	const struct blockmap *map;
	char *label, *repo;
	char *(*authorization)(void *arg, struct pace *pace);
	const struct p2p_pieces *pieces; /* NULL: the cache has them */
	void *arg;
	struct places places;
	uint32_t *sizes, *unpacked;
	uint32_t n;
	int64_t opened;

	struct swarm *swarm;
	struct loop_call settle_call;
	bool is_settling; /* settle_call is posted */
	struct loop_timer tick, news, connect;
	bool news_armed;
	bool is_closing;
	unsigned int n_works; /* jobs under way; under p->lock */

	struct image_wants wants;
	struct image_origin origin;
	struct image_jobs jobs;
	struct image_neighbours neighbours;
	struct image_givers givers;
	struct image_known known;
	struct image_right right;
	struct image_calls calls;
};

struct p2p {
	struct p2p_config cfg;
	struct net_node self;
	struct loop *loop;
	struct thread thread;
	struct pool *hash; /* unpacks and checks */
	/* For calls to origins and permit services. */
	struct host_job_threads jobs[HOST_JOBS];
	LIST_HEAD(, job_host) hosts;
	/* Reads the cache to serve other nodes. */
	struct pool *disk;
	struct pool *calls;              /* calls to the trackers */
	struct tracker_client *trackers; /* NULL: none */
	struct net *net;
	struct slots *slots;
	struct relay *relay; /* NULL: no relay */
	struct capability_keys *keys;
	struct revoked *revoked; /* NULL: no list of revoked rights */
	/* Running query for revoked rights; NULL: none. */
	struct rights_reading *reading;
	struct probe *probe; /* NULL: there are no trackers */
	bool tracker_is_there;
	struct work save_work; /* writes the members file */
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
	/* Random number of this run, told to the trackers. */
	uint64_t run;
	struct p2p_stats past; /* figures of closed images */
	uint64_t denied, refused, leases;
	struct faults faults;
	uint64_t origin_bytes;
	/* Bytes read ahead for readers that they have not taken yet. */
	uint64_t ahead;

	atomic_uint_fast64_t memory;
	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t changed;
};

/* ------------------------------------------------------------ engine.c --- */

/* Have fn(arg) called on the loop and wait for it.  Any other thread. */
void engine_run(struct p2p *p, void (*fn)(void *arg), void *arg);
/* A timer that was started once with success cannot fail any more. */
void engine_arm(struct p2p *p, struct loop_timer *t, int64_t delay_ns);
uint64_t engine_random(struct p2p *p);
/* `must`: allocate beyond the limit too, for bytes that were fetched already. NULL: no memory. */
struct bytes *bytes_new(struct p2p *p, uint32_t len, bool must);
struct bytes *bytes_ref(struct bytes *b);
void bytes_unref(struct bytes *b); /* NULL is allowed */

/* ------------------------------------------------------ engine_image.c --- */

void image_block(const struct p2p_image *i, uint32_t piece, struct block *ret);
/* PIECE_NONE: the block is not in the image. */
uint32_t image_piece(const struct p2p_image *i, const struct block *b);
struct p2p_image *image_by_digest(struct p2p *p, const struct digest *d);
/* Have the core decide again, soon. */
void image_settle(struct p2p_image *i);
/* A job that needs the image begins, or has ended. Any thread. */
void image_hold(struct p2p_image *i);
void image_release(struct p2p_image *i);
void image_moves(struct p2p_image *i); /* note that bytes came; any thread */
/* Is the piece on the node?  Any thread. */
bool image_holds(const struct p2p_image *i, uint32_t piece);
/* Check again whether the piece is on the node, and tell the core. */
bool image_look(struct p2p_image *i, uint32_t piece, int64_t now);

#endif
