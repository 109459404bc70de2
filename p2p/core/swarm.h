// SPDX-License-Identifier: Apache-2.0
/*
 * Decisions of one node about one image while many nodes want it: which piece to ask from which
 * peer and when, what to read from the origin, which peers to drop.
 *
 * Pure: no socket, clock, thread or file. The host reports events and the swarm calls back for
 * actions, so the same code runs in bootseerd and in a discrete-event simulator. The same events
 * and seed give the same actions.
 *
 * A piece is one stored block of the image; its number is the block's *place*: blocks in the order
 * of (pack, offset in it), each stored place once. All nodes have the same block map, so they
 * agree on places without a message, also when their traces differ. Each node chooses the order of
 * its own wants.
 *
 * Design and figures: docs/decisions/0009-peers.md.
 */
#ifndef BOOTSEER_P2P_CORE_SWARM_H
#define BOOTSEER_P2P_CORE_SWARM_H

#include "blockstore/blockstore.h"

#define SWARM_PEERS_MAX 64u /* neighbours in one swarm */
#define SWARM_PIECES_MAX (1u << 24)
#define SWARM_LEASE_MAX 64u /* pieces in one call for leases, at most */
/* Further pieces that a request may name besides its first. */
#define SWARM_OTHERS_MAX 7u
#define SWARM_DEMANDS_MAX 4096u
/* Other nodes counted when there is no tracker. */
#define SWARM_MEMBERS_MAX 1024u
#define SWARM_NONE UINT32_MAX

/* How far away a peer is. Distance raises a peer's cost; it never excludes the peer. */
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
	/* Length of the window of the hot order in which the rarest piece goes first; 0: 64
	 * pieces or 5 % of the hot set. */
	uint32_t window;
	/* Most stored bytes that may be asked for and not here yet; and the number of
	 * usual-sized pieces that bulk keeps in flight, besides what the network path itself
	 * holds. */
	uint64_t flying_max;
	uint32_t flying_pieces;
	uint64_t unpacked_max; /* as flying_max, in unpacked bytes */
	/* Bounds of the bytes in flight from one peer (its credit). */
	uint64_t peer_min, peer_max;
	int64_t credit_ns; /* a peer's credit is its rate times this: 50 ms */
	/* Bytes in flight from the origin: this many nanoseconds of its measured rate, but at
	 * least origin_min and at most origin_max. */
	uint64_t origin_min, origin_max;
	int64_t origin_ns;
	/* Without an answer of the tracker after this, nodes use their own rules. */
	int64_t lease_wait_ns;
	/* Without a tracker: the delay between the turns of two successive nodes; and how long
	 * at least no new piece must have been announced before a node reads a piece out of
	 * turn. */
	int64_t stagger_ns, turn_ns;
	/* A peer's promise is believed this long at most. */
	int64_t promise_max_ns;
	/* Earliest time for demand to ask a second peer. */
	int64_t hedge_min_ns;
	/* Earliest time to take a bulk request from a peer. */
	int64_t stall_min_ns;
	/* Shortest time between two news messages. */
	int64_t news_ns;
	unsigned int hedge_permille; /* extra bytes that hedging may cost */
};
/* The defaults of docs/decisions/0009-peers.md. */
extern const struct swarm_limits swarm_limits_default;

/* Why a peer refuses a request. */
enum swarm_refusal {
	SWARM_BUSY, /* too many requests; retry later */
	SWARM_GONE, /* the peer does not have the piece (any more) */
	/* The peer will not send: stop asking it for this image. */
	SWARM_DENIED,
	/* The piece is being sent to others; retry later or ask those. */
	SWARM_SENDING,
};

/*
 * Actions that the swarm asks for.  Called from within the functions below, on their thread;
 * must not call back into the swarm.  All must be set.
 */
struct swarm_host {
	/* Ask `peer` for one of `n` pieces (at most 1 + SWARM_OTHERS_MAX): the peer sends the
	 * first that it has and is not sending to another node. Answered by swarm_begins(),
	 * then swarm_got() or swarm_lost() with the piece that was sent; by swarm_refused()
	 * with the first piece; or by swarm_peer_leave(). */
	void (*ask)(void *arg, unsigned int peer, const uint32_t *pieces,
		    size_t n, enum source_priority priority);
	/* Cancel a request to a peer; no answer is awaited. `piece` is the piece that the peer
	 * began to send or, before that, the first of the request. */
	void (*cancel)(void *arg, unsigned int peer, uint32_t piece);
	/* Read these pieces (ascending) from the origin, in as few requests as possible. Each
	 * is answered by swarm_got() or swarm_lost() with peer SWARM_NONE. */
	void (*origin)(void *arg, const uint32_t *pieces, size_t n,
		       enum source_priority priority);
	/* Ask the tracker for leases to read these pieces (at most SWARM_LEASE_MAX) from the
	 * origin; the first is wanted most. Answered by swarm_leases(). A few calls may be
	 * under way at once. */
	void (*lease)(void *arg, const uint32_t *pieces, size_t n,
		      enum source_priority priority);
	/* The peer lied or stalled: close the link, and do not connect again for `ns`. */
	void (*quarantine)(void *arg, unsigned int peer, int64_t ns,
			   const char *why);
	/* Every source of a wanted piece failed, so it cannot be had now. The swarm no longer
	 * wants it. */
	void (*fail)(void *arg, uint32_t piece, int rc);
};

struct swarm_config {
	uint32_t n_pieces;
	const uint32_t *sizes; /* stored bytes of each piece; borrowed */
	/* Unpacked bytes of each piece, borrowed; NULL: unpacked bytes are not bounded. */
	const uint32_t *unpacked;
	uint64_t seed;
	uint64_t self; /* swarm_name() of this node */
	struct swarm_limits limits;
	const struct swarm_host *host;
	void *arg;
	/* Pieces have no digest of their own, so a piece from a peer is not trusted yet: it is
	 * announced and sent to others only after swarm_vouch(). */
	bool is_unverified;
};

struct swarm;
int swarm_new(const struct swarm_config *cfg, int64_t now, struct swarm **ret,
	      struct error *err) MUST_CHECK;
void swarm_free(struct swarm *s);
DEFINE_AUTO(swarm)

/* ------------------------------------------------------------- what is wanted --- */

/* A reader waits for the piece until `deadline`; then the piece fails with -ETIMEDOUT. May be
 * called for a piece that is demanded already. -ENOSPC: SWARM_DEMANDS_MAX pieces are demanded;
 * -EINVAL: no such piece. */
int swarm_demand(struct swarm *s, uint32_t piece, int64_t now,
		 int64_t deadline) MUST_CHECK;
/* No reader waits for the piece any more. */
void swarm_undemand(struct swarm *s, uint32_t piece);
/*
 * Want these pieces in this order, after demand. Replaces the earlier list of this priority
 * (SOURCE_HOT or SOURCE_COLD). Pieces that are here are skipped. -EINVAL: no such piece; -ENOMEM.
 */
int swarm_want(struct swarm *s, enum source_priority priority,
	       const uint32_t *pieces, size_t n, int64_t now) MUST_CHECK;
/* Want nothing of this priority any more; cancel its requests. */
void swarm_forget(struct swarm *s, enum source_priority priority, int64_t now);
/* While `paused`, start no new requests except demand. */
void swarm_pause(struct swarm *s, bool paused, int64_t now);

/* --------------------------------------------------------------- what happens --- */

/* The piece is on this node and verified, though the swarm did not ask for it. */
void swarm_have(struct swarm *s, uint32_t piece, int64_t now);
/* The piece is no longer on this node. */
void swarm_drop(struct swarm *s, uint32_t piece);

/* The piece that is about to arrive was sent by a peer, whatever source swarm_got() will name. */
void swarm_doubt(struct swarm *s, uint32_t piece);
/* The pieces of the range that are here are now verified, with all that they are part of. */
void swarm_vouch(struct swarm *s, struct swarm_range r);

/* A neighbour joins; `peer` is a free number in 0..SWARM_PEERS_MAX-1. `quarantines` says how
 * often the host had this node in quarantine lately: each doubles the next. */
void swarm_peer_join(struct swarm *s, unsigned int peer,
		     enum swarm_distance distance, unsigned int quarantines,
		     int64_t now);
/* Ask this peer for one piece per request: it does not understand requests that name several. */
void swarm_peer_takes_one(struct swarm *s, unsigned int peer);
void swarm_peer_leave(struct swarm *s, unsigned int peer, int64_t now);
/* The peer says that it has these pieces; that it has lost them; or that it is reading them
 * from the origin and will have them in `eta_ns`. -EINVAL: no such pieces. */
int swarm_peer_has(struct swarm *s, unsigned int peer, struct swarm_range r,
		   int64_t now) MUST_CHECK;
int swarm_peer_lost(struct swarm *s, unsigned int peer, struct swarm_range r,
		    int64_t now) MUST_CHECK;
int swarm_peer_promises(struct swarm *s, unsigned int peer,
			struct swarm_range r, int64_t eta_ns,
			int64_t now) MUST_CHECK;

/* The peer begins to answer a request, with this piece. */
void swarm_begins(struct swarm *s, unsigned int peer, uint32_t piece);
/* Bytes of an answer arrive from a peer. */
void swarm_moves(struct swarm *s, unsigned int peer, uint32_t piece,
		 uint32_t bytes, int64_t now);
/* The piece is here and verified; `peer`, or SWARM_NONE for the origin, brought it. */
void swarm_got(struct swarm *s, unsigned int peer, uint32_t piece, int64_t now);
/* The bytes that the peer (or the origin) sent are wrong (-EBADMSG: a strike), or the transfer
 * failed otherwise. */
void swarm_lost(struct swarm *s, unsigned int peer, uint32_t piece, int rc,
		int64_t now);
/* A neighbour has all bytes of a piece that this node sent; SWARM_NONE: it has left the swarm. */
void swarm_sent(struct swarm *s, unsigned int peer, uint32_t piece);
void swarm_refused(struct swarm *s, unsigned int peer, uint32_t piece,
		   enum swarm_refusal why, int64_t retry_ns, int64_t now);

/*
 * The tracker's answer to one lease() for the `n_asked` pieces of `asked`: the pieces of `granted`
 * may be read from the origin within `ttl_ns`. Before this returns, origin() is called for the
 * granted pieces that are still wanted; the caller gives the other leases back. A piece that is
 * not granted is being read by another node or, if the origin `is_full`, was not considered; it is
 * asked for again in `retry_ns`. Report a call that failed as an answer with no grants, `is_full`
 * and a `retry_ns`.
 */
struct swarm_grant {
	const uint32_t *asked, *granted;
	size_t n_asked, n_granted;
	bool is_full;
	int64_t ttl_ns, retry_ns;
};
void swarm_leases(struct swarm *s, const struct swarm_grant *g, int64_t now);
/*
 * Does the tracker answer? Without it, nodes read the origin in turns that each node computes by
 * itself: first the member whose name has the highest hash with the piece, then the next. So the
 * nodes' lists of members need only be nearly the same. A new swarm assumes that it has a tracker.
 */
void swarm_tracker(struct swarm *s, bool is_there, int64_t now);
/* The other nodes that take part and are up, as far as known, as swarm_name() of each; more
 * than SWARM_MEMBERS_MAX are cut off. Replaces the earlier list. */
void swarm_members(struct swarm *s, const uint64_t *names, size_t n);
/* The swarm knows of no working tracker, so nodes take turns. */
bool swarm_takes_turns(const struct swarm *s);
/* Hash of a node's name; the same on all nodes and in all releases. */
uint64_t swarm_name(const char *node);

/* Do what is due. Returns when to call again at the latest (INT64_MAX: not before the next
 * event). */
int64_t swarm_tick(struct swarm *s, int64_t now) MUST_CHECK;

/* --------------------------------------------------------------- what callers may look up --- */

/*
 * News for a neighbour since the last call with this `peer`; a peer's first call returns
 * everything. Pieces that the peer has itself are left out. Returns whether more news is left to
 * fetch now.
 */
#define SWARM_NEWS_MAX 256u /* ranges of each kind in one call; ascending */
struct swarm_news {
	struct swarm_range have[SWARM_NEWS_MAX], lost[SWARM_NEWS_MAX],
		promised[SWARM_NEWS_MAX];
	size_t n_have, n_lost, n_promised;
	int64_t eta_ns; /* time until the promised pieces are here */
};
bool swarm_news(struct swarm *s, unsigned int peer, struct swarm_news *ret);
/* How long to wait between news, 10 to 500 ms, by how fast pieces arrive here: a message with
 * several pieces costs no more than a message with one, and goes to all neighbours. */
int64_t swarm_news_ns(const struct swarm *s);

bool swarm_has(const struct swarm *s, uint32_t piece);
/* The piece is here, and may be sent to other nodes. */
bool swarm_gives(const struct swarm *s, uint32_t piece);
/* The piece is not here, and a reader or a list wants it. */
bool swarm_wants(const struct swarm *s, uint32_t piece);

struct swarm_stats {
	uint32_t pieces, have, hot, hot_have;
	unsigned int peers;
	uint64_t bytes_peers[3]; /* by enum swarm_distance */
	uint64_t bytes_origin;
	uint64_t bytes_twice; /* bytes of pieces that were here already */
	uint64_t asks, refusals, stalls, strikes, wrong;
	uint64_t hedges, hedges_won;
	uint64_t leases_asked, leases_granted;
	uint64_t flying_bytes;
};
void swarm_get_stats(const struct swarm *s, struct swarm_stats *ret);

struct swarm_peer_stats {
	enum swarm_distance distance;
	uint32_t have;
	uint64_t bytes;    /* bytes that the peer sent */
	uint64_t rate;     /* bytes a second, smoothed */
	int64_t answer_ns; /* median time of an answer */
	uint64_t flying;   /* bytes asked for and not here yet */
	unsigned int strikes;
};
/* False: no peer has this number. */
bool swarm_get_peer(const struct swarm *s, unsigned int peer,
		    struct swarm_peer_stats *ret);

#endif
