// SPDX-License-Identifier: Apache-2.0
/*
 * Many nodes that start one image, in simulated time: each has the product's swarm
 * and upload slots, the tracker is the product's too; links, delays and hashing
 * are modelled.  The same options and seed give the same run.
 */
#ifndef BOOTSEER_BENCH_SIM_H
#define BOOTSEER_BENCH_SIM_H

#include "flows.h"
#include "p2p/core/slots.h"
#include "p2p/core/swarm.h"
#include "p2p/tracker/tracker.h"

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

struct sim_config {
	uint32_t nodes, racks;
	uint32_t pieces, piece_bytes;
	double hot;                      /* hot share of the pieces */
	double up, down, origin, uplink; /* bytes a second; 0: no bound */
	double queue; /* bytes that can wait before a full link */
	double hash;  /* bytes a second that a node hashes */
	int64_t rtt, rack_rtt, far_rtt,
		origin_rtt; /* rack_rtt: within a rack */
	uint32_t slow;      /* number of slow nodes */
	double slow_by;     /* factor by which their links are slower */
	double kill_every;  /* seconds between kills; 0: no node is killed */
	bool kill_tracker;  /* at half of T* (sim_bound()) */
	bool no_tracker;    /* no tracker from the beginning */
	/* pieces from peers are not passed on before they are verified: a layer that is not
	 * whole yet */
	bool is_unverified;
	bool kill_origin; /* kill the origin once all pieces were read */
	double join;      /* seconds over which nodes join */
	uint32_t neighbours;
	unsigned int slots, waiting, queued, streams, copies;
	int64_t retry;
	int64_t step; /* length of a step; 0: chosen by the size of pieces */
	struct swarm_limits limits;
	uint64_t seed;
	double give_up; /* seconds after which the run ends */
	bool is_verbose, with_times;
};

enum message_kind {
	MESSAGE_ASK,
	MESSAGE_CANCEL,
	MESSAGE_REFUSED,
	MESSAGE_BEGINS,
	MESSAGE_GOT, /* the piece arrived and was hashed */
	MESSAGE_NEWS,
	MESSAGE_CALL,   /* to the tracker */
	MESSAGE_ANSWER, /* of the tracker */
	MESSAGE_READ,   /* the origin begins to send */
	MESSAGE_READ_FAILED,
	MESSAGE_GONE, /* a neighbour was killed */
	MESSAGE_KINDS,
};

struct message {
	int64_t at, retry;
	void *data;    /* for NEWS, CALL and ANSWER: freed by the handler */
	uint32_t node; /* receiver */
	uint32_t from, piece;
	uint8_t kind, peer /* `from`, as `node` numbers it */, priority;
	uint8_t n_others;
	uint32_t others[SWARM_OTHERS_MAX];
};

struct bucket {
	struct message *messages;
	size_t n, room;
};

/* A neighbour. */
struct link {
	uint32_t node; /* SWARM_NONE: none */
	uint8_t peer;  /* number of this node at that neighbour */
};

#define READS_MAX 1024u /* more than a swarm's flights */

struct sim;
struct node_arg { /* of swarm_host */
	struct sim *sim;
	uint32_t node;
};

struct node {
	struct node_arg arg;
	struct swarm *swarm;
	struct slots *slots;
	struct link links[SWARM_PEERS_MAX];
	unsigned int n_links;
	uint32_t sending[SLOTS_MAX * 2]; /* indexes of flows */
	unsigned int n_sending;
	bool is_alive, is_slow;
	int64_t joins, hot_at, full_at, tick_at, hashed_at, announce_at,
		news_at, members_at;
	/* Leases that ended and must be reported; report_at: when the first ended. */
	uint32_t done[TRACKER_PIECES_MAX], failed[TRACKER_PIECES_MAX];
	size_t n_done, n_failed;
	int64_t report_at;
	/* Ring of pieces to read from the origin; those before `read` were requested, and
	 * n_reading of them are running. */
	uint32_t reads[READS_MAX];
	size_t read, n_reads;
	unsigned int n_reading;
};

struct sim {
	struct sim_config cfg;
	int64_t now, step;
	struct flows flows;
	struct node *nodes;
	uint32_t *sizes;
	struct tracker *tracker; /* NULL: it was killed */
	struct tracker_answer *answer;
	bool origin_is_dead, *was_read;
	uint32_t n_read;
	struct bucket *wheel;
	size_t wheel_size;
	uint64_t random;
	uint32_t n_alive, n_full;
	int64_t kill_at;
	/* figures */
	uint64_t bytes_origin, bytes_cancelled, refusals, asks, calls;
};

void *must_alloc(void *p); /* ends the program if it is NULL */
uint64_t sim_random(struct sim *s);
void sim_new(const struct sim_config *cfg, struct sim *ret);
/* T* in seconds for a share of the pieces: a lower bound that no scheme can beat. */
double sim_bound(const struct sim_config *cfg, double share);
void sim_free(struct sim *s);
/* Run until all nodes are full, or the time limit is reached. */
void sim_run(struct sim *s);

/* world.c: everything between nodes */
void send_message(struct sim *s, struct message m, int64_t delay);
int64_t delay_between(const struct sim *s, uint32_t a, uint32_t b);
int64_t delay_from(const struct sim *s, uint32_t node); /* its own link */
int64_t delay_to(const struct sim *s, uint32_t node);
void flow_cancel(struct sim *s, size_t flow);
void flow_start(struct sim *s, uint32_t from, uint32_t to, uint8_t peer,
		uint32_t piece, uint8_t priority);
uint32_t origin_of(const struct sim *s); /* index of the origin as a sender */

/* node.c */
extern const struct swarm_host node_host;
void node_join(struct sim *s, uint32_t node);
void node_kill(struct sim *s, uint32_t node);
void node_news(struct sim *s, uint32_t node);
void node_announce(struct sim *s, uint32_t node);
/* Tell the node's core which members it knows. */
void node_members(struct sim *s, uint32_t node);
void node_handle(struct sim *s, const struct message *m);
/* Send the next piece, after a flow from `node` ended. */
void node_serve(struct sim *s, uint32_t node);
/* Go on reading from the origin. */
void node_read(struct sim *s, uint32_t node);
void node_moves(struct sim *s, const struct flow *f, uint32_t bytes);

#endif
