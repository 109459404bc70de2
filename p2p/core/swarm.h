// SPDX-License-Identifier: Apache-2.0
/*
 * Decisions of one node about one image while many nodes want it: which piece it asks from
 * whom and when, what it may read from the origin, whom it leaves.
 *
 * Pure: no socket, clock, thread or file.  It is told what happened and calls back what is to
 * be done, so the same code runs in bootseerd and in a discrete-event simulator.  The same
 * events and seed give the same actions.
 *
 * A piece is one stored block of the image; its number is the block's *place*: blocks in the
 * order of (pack, offset in it), each stored place once.  All nodes have the same block map,
 * so they agree on places without a word, also when their traces differ.  In which order
 * pieces are wanted is each node's own affair.
 *
 * Design and figures: docs/decisions/0009-peers.md.
 */
#ifndef BOOTSEER_P2P_CORE_SWARM_H
#define BOOTSEER_P2P_CORE_SWARM_H

#include "blockstore/blockstore.h"

#define SWARM_PEERS_MAX 64u /* neighbours in one swarm */
#define SWARM_PIECES_MAX (1u << 24)
#define SWARM_LEASE_MAX 64u /* pieces of one call for leases */
#define SWARM_OTHERS_MAX 7u /* pieces of a request that would do as well */
#define SWARM_DEMANDS_MAX 4096u
#define SWARM_MEMBERS_MAX 1024u /* known without a tracker */
#define SWARM_NONE UINT32_MAX

/* How far away somebody is: a cost, never a wall. */
enum swarm_distance {
	SWARM_SAME_RACK,
	SWARM_SAME_ZONE,
	SWARM_REMOTE,
};

/* Pieces [first, first + n). */
struct swarm_range {
	uint32_t first, n;
};

struct swarm_limits {
	uint32_t window; /* pieces of the order in which the rarest is
	                          * taken first; 0: 64 or 5 % of the hot set */
	/* Stored bytes asked for and not here, at most; and how many pieces of
	 * usual size bulk keeps under way, besides what the way itself holds. */
	uint64_t flying_max;
	uint32_t flying_pieces;
	uint64_t unpacked_max;       /* the same of bytes that they unpack to */
	uint64_t peer_min, peer_max; /* the same from one peer: credit */
	int64_t credit_ns; /* of a peer's rate that is its credit: 50 ms */
	/* Stored bytes under way from the origin: so many milliseconds' worth
	 * of what it brought, but within these. */
	uint64_t origin_min, origin_max;
	int64_t origin_ns;
	int64_t lease_wait_ns; /* no answer of a tracker: own rules then */
	/* Without tracker: who is next in turn waits so long for those before;
	 * and so long nothing new may be heard, at least, before a piece of
	 * another's turn is read. */
	int64_t stagger_ns, turn_ns;
	int64_t promise_max_ns;      /* a peer's promise is believed so long */
	int64_t hedge_min_ns;        /* demand asks a second peer not before */
	int64_t stall_min_ns;        /* bulk is taken from a peer not before */
	int64_t news_ns;             /* between news, at least */
	unsigned int hedge_permille; /* extra bytes that hedging may cost */
};
/* The defaults of docs/decisions/0009-peers.md. */
extern const struct swarm_limits swarm_limits_default;

/* Why a peer says no. */
enum swarm_refusal {
	SWARM_BUSY,   /* later */
	SWARM_GONE,   /* it does not have it (any more) */
	SWARM_DENIED, /* it will not: left for this image */
	SWARM_SENDING, /* this piece later: it goes to others, who have it then */
};

/*
 * Actions that the swarm asks for.  Called from within the functions below, on their thread;
 * must not call back into the swarm.  All must be set.
 */
struct swarm_host {
	/* Ask `peer` for one of `n` pieces, the first it has and does not send
	 * to somebody else just now; at most 1 + SWARM_OTHERS_MAX.  Answered by
	 * swarm_begins(), then swarm_got() or swarm_lost(), with the piece that
	 * it is; by swarm_refused() with the first; or by swarm_peer_leave(). */
	void (*ask)(void *arg, unsigned int peer, const uint32_t *pieces,
		    size_t n, enum source_priority priority);
	/* The request is not wanted from there any more; no answer is awaited.  `piece` is
	 * what the peer began to send, before that the first. */
	void (*cancel)(void *arg, unsigned int peer, uint32_t piece);
	/* Read these pieces from the origin, ascending, as few requests as
	 * may be; each is answered by swarm_got() or swarm_lost() with peer
	 * SWARM_NONE. */
	void (*origin)(void *arg, const uint32_t *pieces, size_t n,
		       enum source_priority priority);
	/* Ask the tracker which of these (at most SWARM_LEASE_MAX) the origin
	 * may be read for; the first is wanted most.  Answered by
	 * swarm_leases().  A few calls may be under way. */
	void (*lease)(void *arg, const uint32_t *pieces, size_t n,
		      enum source_priority priority);
	/* The peer lied or stalled: the link is to be closed and not made
	 * again for so long. */
	void (*quarantine)(void *arg, unsigned int peer, int64_t ns,
			   const char *why);
	/* A piece that somebody waits for cannot be had now: every source
	 * failed.  What is wanted of it is forgotten. */
	void (*fail)(void *arg, uint32_t piece, int rc);
};

struct swarm_config {
	uint32_t n_pieces;
	const uint32_t *sizes; /* stored bytes of each; borrowed */
	/* Bytes that each unpacks to, borrowed; NULL: they have no bound. */
	const uint32_t *unpacked;
	uint64_t seed;
	uint64_t self; /* swarm_name() of this node */
	struct swarm_limits limits;
	const struct swarm_host *host;
	void *arg;
	/* Pieces have no digest of their own, so those of peers are believed by nobody
	 * yet: others are told of them, and get them, from swarm_vouch() on. */
	bool is_unverified;
};

struct swarm;
int swarm_new(const struct swarm_config *cfg, int64_t now, struct swarm **ret,
	      struct error *err) MUST_CHECK;
void swarm_free(struct swarm *s);
DEFINE_AUTO(swarm)

/* ------------------------------------------------------------- what is wanted --- */

/* A reader waits for it, at most until `deadline`: then it fails with -ETIMEDOUT.
 * Also for one that is wanted already.  -ENOSPC: SWARM_DEMANDS_MAX of them wait;
 * -EINVAL: no such piece. */
int swarm_demand(struct swarm *s, uint32_t piece, int64_t now,
		 int64_t deadline) MUST_CHECK;
/* No reader waits for it any more. */
void swarm_undemand(struct swarm *s, uint32_t piece);
/*
 * Want these in this order, below demand: replaces what was wanted with the same
 * priority (SOURCE_HOT or SOURCE_COLD).  Pieces that are here are passed over.
 * -EINVAL: no such piece; -ENOMEM.
 */
int swarm_want(struct swarm *s, enum source_priority priority,
	       const uint32_t *pieces, size_t n, int64_t now) MUST_CHECK;
/* Nothing of this priority is wanted; what is under way is cancelled. */
void swarm_forget(struct swarm *s, enum source_priority priority, int64_t now);
/* Begin nothing new below demand while `paused`. */
void swarm_pause(struct swarm *s, bool paused, int64_t now);

/* --------------------------------------------------------------- what happens --- */

/* A piece is on this node and verified, without the swarm having asked. */
void swarm_have(struct swarm *s, uint32_t piece, int64_t now);
/* And is no more. */
void swarm_drop(struct swarm *s, uint32_t piece);

/* A piece that is about to be here is a peer's, whoever is said to have brought it. */
void swarm_doubt(struct swarm *s, uint32_t piece);
/* Pieces of the range that are here are verified now, with all that they are part of. */
void swarm_vouch(struct swarm *s, struct swarm_range r);

/* A neighbour takes part; `peer` is 0..SWARM_PEERS_MAX-1 and free.  The host
 * remembers how often that node was in quarantine lately: each doubles the next. */
void swarm_peer_join(struct swarm *s, unsigned int peer,
		     enum swarm_distance distance, unsigned int quarantines,
		     int64_t now);
/* The peer is asked for one piece at a time: it would not understand a request that names
 * others. */
void swarm_peer_takes_one(struct swarm *s, unsigned int peer);
void swarm_peer_leave(struct swarm *s, unsigned int peer, int64_t now);
/* The peer says that it has these pieces; has lost them; or that they are on their way to it
 * from the origin and will be there in `eta_ns`.  -EINVAL: no such pieces. */
int swarm_peer_has(struct swarm *s, unsigned int peer, struct swarm_range r,
		   int64_t now) MUST_CHECK;
int swarm_peer_lost(struct swarm *s, unsigned int peer, struct swarm_range r,
		    int64_t now) MUST_CHECK;
int swarm_peer_promises(struct swarm *s, unsigned int peer,
			struct swarm_range r, int64_t eta_ns,
			int64_t now) MUST_CHECK;

/* An answer begins: it is this piece. */
void swarm_begins(struct swarm *s, unsigned int peer, uint32_t piece);
/* Bytes of an answer are coming from a peer. */
void swarm_moves(struct swarm *s, unsigned int peer, uint32_t piece,
		 uint32_t bytes, int64_t now);
/* The piece is here and verified; `peer`, or SWARM_NONE for the origin, brought it. */
void swarm_got(struct swarm *s, unsigned int peer, uint32_t piece, int64_t now);
/* The bytes that the peer (or the origin) brought are wrong (-EBADMSG: a strike), or it failed
 * otherwise. */
void swarm_lost(struct swarm *s, unsigned int peer, uint32_t piece, int rc,
		int64_t now);
/* A neighbour has all bytes of a piece that this node sent. */
void swarm_sent(struct swarm *s, uint32_t piece);
void swarm_refused(struct swarm *s, unsigned int peer, uint32_t piece,
		   enum swarm_refusal why, int64_t retry_ns, int64_t now);

/*
 * The tracker's answer to one lease() for the `n_asked` pieces of `asked`: the
 * `n` of `granted` may be read from the origin within `ttl_ns`.  Of what is granted,
 * origin() is called for what still is wanted, before this returns; the rest of
 * the leases is to be given back.  What is not granted is under way to somebody, or,
 * if the origin `is_full`, was not looked at: asked for again in `retry_ns`.
 * A call that failed is answered with n = 0, `is_full` and a `retry_ns`.
 */
struct swarm_grant {
	const uint32_t *asked, *granted;
	size_t n_asked, n_granted;
	bool is_full;
	int64_t ttl_ns, retry_ns;
};
void swarm_leases(struct swarm *s, const struct swarm_grant *g, int64_t now);
/*
 * The tracker answers, or does not: then nodes read the origin in turns that each
 * finds by itself.  Of a piece it is first the turn of the member whose name has
 * the highest hash with the piece, then of the next; so the lists of members need
 * not be the same everywhere, only nearly.  A new swarm believes in its tracker.
 */
void swarm_tracker(struct swarm *s, bool is_there, int64_t now);
/* The others that take part and are there, as far as is known, by swarm_name(); of
 * more than SWARM_MEMBERS_MAX the first ones count.  Replaces what was told. */
void swarm_members(struct swarm *s, const uint64_t *names, size_t n);
/* There is no tracker, as far as it knows. */
bool swarm_takes_turns(const struct swarm *s);
/* The same on all nodes and in all releases. */
uint64_t swarm_name(const char *node);

/* Do what is due; returns when to call again at the latest (INT64_MAX: only
 * when something happens). */
int64_t swarm_tick(struct swarm *s, int64_t now) MUST_CHECK;

/* --------------------------------------------------------------- what is told --- */

/*
 * News for a neighbour since the last call with this `peer`.  The first call of a peer gives
 * everything.  Pieces that it has itself are left out.  Returns whether there is more to be
 * told now.
 */
#define SWARM_NEWS_MAX 256u /* ranges of a kind in one go; they ascend */
struct swarm_news {
	struct swarm_range have[SWARM_NEWS_MAX], lost[SWARM_NEWS_MAX],
		promised[SWARM_NEWS_MAX];
	size_t n_have, n_lost, n_promised;
	int64_t eta_ns; /* of the promises */
};
bool swarm_news(struct swarm *s, unsigned int peer, struct swarm_news *ret);
/* How long to wait between news: a message of a few pieces costs as much as one of
 * one, and all neighbours get it.  As pieces come here; 10 to 500 ms. */
int64_t swarm_news_ns(const struct swarm *s);

bool swarm_has(const struct swarm *s, uint32_t piece);
/* The piece is here, and others may have it. */
bool swarm_gives(const struct swarm *s, uint32_t piece);
/* Somebody waits for it, or an order has it; and it is not here. */
bool swarm_wants(const struct swarm *s, uint32_t piece);

struct swarm_stats {
	uint32_t pieces, have, hot, hot_have;
	unsigned int peers;
	uint64_t bytes_peers[3]; /* by enum swarm_distance */
	uint64_t bytes_origin;
	uint64_t bytes_twice; /* came though it was here already */
	uint64_t asks, refusals, stalls, strikes, wrong;
	uint64_t hedges, hedges_won;
	uint64_t leases_asked, leases_granted;
	uint64_t flying_bytes;
};
void swarm_get_stats(const struct swarm *s, struct swarm_stats *ret);

struct swarm_peer_stats {
	enum swarm_distance distance;
	uint32_t have;
	uint64_t bytes;    /* that it brought */
	uint64_t rate;     /* bytes a second, smoothed */
	int64_t answer_ns; /* median time of an answer */
	uint64_t flying;   /* bytes asked for */
	unsigned int strikes;
};
/* False: nobody is there. */
bool swarm_get_peer(const struct swarm *s, unsigned int peer,
		    struct swarm_peer_stats *ret);

#endif
