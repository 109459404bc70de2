// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of the core.  swarm.c owns life and the round of decisions,
 * swarm_want.c what is wanted, swarm_choose.c the choice of piece and peer,
 * swarm_flight.c what was asked for, swarm_late.c what of it is late,
 * swarm_others.c what would do as well, swarm_origin.c leases and reads,
 * swarm_turn.c whose turn it is without a tracker, swarm_news.c what neighbours
 * say and are told.
 *
 * A decision costs the scan of one window: who has a piece is one word of bits,
 * so its rarity is a count of bits, and whom it can be asked from is an AND.
 */
#ifndef BOOTSEER_P2P_CORE_SWARM_PRIV_H
#define BOOTSEER_P2P_CORE_SWARM_PRIV_H

#include "p2p/core/swarm.h"
#include "common/clock.h"

#define FLIGHTS_MAX 512u
#define LEASE_CALLS_MAX 2u
#define LOG_PROMISES 256u
#define ANSWER_BUCKETS 32u
#define STRIKES_MAX 3u
#define FAILED_MAX 15u
#define ORIGIN UINT8_MAX /* as a flight's peer */

/* While something is wanted, what is due is looked at so often; while only bulk is,
 * the seldomer the longer answers take. */
#define CHECK_NS (5 * NS_PER_MS)
#define CHECK_MAX_NS (20 * NS_PER_MS)
#define CHECKS_OF_ANSWER 8            /* in the shortest time of an answer */
#define NEWS_MAX_NS (500 * NS_PER_MS) /* between news */
/* News make a node without enough under way look for more at most so often. */
#define PUMP_NS (NS_PER_MS / 2)
#define COLD_CHOICE 8u
#define COLD_SAMPLE 256u /* looked at of the rest, for one choice */

enum piece_flags {
	PIECE_HERE = 1,
	PIECE_HOT = 2, /* wanted: (flag of an order) */
	PIECE_COLD = 4,
	PIECE_DEMAND = 8,
	PIECE_LEASING = 16,     /* the tracker was asked */
	PIECE_RANKED = 32,      /* `rank` is known */
	PIECE_IN_WINDOW = 64,   /* of the hot order */
	PIECE_IN_OFFERED = 128, /* lists of the cold one */
	PIECE_IN_UNHELD = 256,
	PIECE_REFUSED = 512, /* the tracker said that others have it */
	PIECE_UNVOUCHED =
		1024, /* here, but not verified: others are not told */
};
#define FLAGS 0xfffu /* of a piece */
#define PIECE_WANTED (PIECE_HOT | PIECE_COLD | PIECE_DEMAND)

struct piece {
	uint64_t holders; /* a bit for each peer */
	uint64_t
		resting; /* of them, those that bulk does not ask before `rest` */
	/* The origin is not asked before: the tracker said no, or the origin
	 * failed. In ticks, see tick_of(). */
	uint32_t after;
	/* Neighbours promise it until then; and since when promises of it count:
	 * they do for a while, however many neighbours make them. */
	uint32_t promised, promised_since;
	uint32_t rest;   /* in ticks: after it nobody rests */
	uint16_t flight; /* the first of its flights, plus one; 0: none */
	uint16_t flags : 12;
	uint16_t failed : 4; /* how often the origin did */
	uint16_t rank;       /* of this node for it, see swarm_turn.c */
};

struct piece_flight {
	uint32_t piece, size, came; /* bytes of it */
	uint32_t unpacked;
	uint16_t next, prev; /* in order of being asked; plus one */
	uint16_t twin;       /* another one for the piece, plus one */
	uint8_t peer;        /* or ORIGIN */
	uint8_t priority;
	bool is_hedge;
	bool is_turn;   /* from the origin, in this node's own turn */
	uint64_t ahead; /* bytes that its peer had to send then, with it */
	int64_t asked, expected_ns, expires;
	/* Until its peer begins to send one of them: it may be one of these
	 * as well. */
	uint32_t others[SWARM_OTHERS_MAX];
	uint8_t n_others;
};

struct answers { /* how long answers took: two buckets an octave */
	uint16_t n[ANSWER_BUCKETS];
	unsigned int total;
};

struct peer {
	bool is_joined, takes_one;
	enum swarm_distance distance;
	uint32_t have;
	uint64_t bytes, flying, rate;
	unsigned int n_flying, strikes, quarantines, refusals;
	struct answers answers;
	/* Bytes or an answer of it; first refusal of those without an answer. */
	int64_t busy_until, moved, heard, refused;
	int64_t quiet; /* since when, though it was asked again; 0: it is not */
	/* State of what the peer was told: places below `snapshot` and entries of the log
	 * before `told`; promises before `told_promises`. */
	uint32_t snapshot;
	uint64_t told, told_promises;
};

/* Pieces that a recorded start reads, in its order. */
struct hot_pieces {
	uint32_t *pieces;
	uint32_t n, next; /* those before `next` have been in the window */
	uint32_t *window; /* wanted and not asked for; also what came back */
	uint32_t n_window, width, room;
	uint32_t total, here; /* wanted in all, of those here */
	int64_t since, came;  /* the order; the last of them, or the order */
};

/* The rest, in no order: what somebody has, and what nobody has.  Both lists may
 * hold what left them; that is seen when one comes across it. */
struct cold {
	uint32_t *offered, *unheld;
	uint32_t n_offered, n_unheld;
	uint32_t total, here;
};

struct demand {
	uint32_t piece;
	int64_t since, first, deadline; /* first of its readers', last */
};

struct lease_call {
	uint32_t pieces[SWARM_LEASE_MAX];
	size_t n;
	int64_t asked;
};

struct swarm {
	struct swarm_config cfg;
	struct swarm_limits lim;
	int64_t born;
	uint64_t random;
	struct piece *pieces;
	uint32_t have;

	struct hot_pieces hot;
	struct cold cold;
	bool is_paused;
	struct demand *demands; /* by `first` */
	size_t n_demands, demands_room;

	struct peer peers[SWARM_PEERS_MAX];
	/* Peers that only refuse, and those that were asked and send nothing:
	 * they hold nothing back. */
	uint64_t useless, silent;
	int64_t checked;        /* when flights were looked at */
	int64_t heard;          /* of anybody */
	uint64_t ready;         /* peers that may be asked, for this round */
	uint32_t tick;          /* of this round */
	uint64_t rate;          /* of a peer, smoothed over all */
	struct answers answers; /* of all */
	int64_t pumped;

	struct piece_flight flights[FLIGHTS_MAX];
	uint16_t first, last, unused;        /* plus one */
	unsigned int n_flights, n_unsettled; /* of them, those with others */
	uint64_t flying, unpacked; /* bytes; those that they unpack to */
	uint64_t hedged_bytes, came_bytes;
	uint64_t came_rate, came_counted; /* bytes a second; at the last look */
	int64_t came_at;
	unsigned int n_measured; /* of that rate, 8 at most */
	int64_t got, gap_ns; /* the last piece came; between two, smoothed */
	unsigned int
		n_longer;   /* all is waited for twice as long, so often ... */
	int64_t longer;     /* ... since then */
	int64_t answer_min; /* shortest time of an answer; 0: none yet */
	int64_t refusal_ns; /* that refusals take, smoothed */
	uint64_t size;      /* of a piece, usually */

	bool has_tracker;
	struct lease_call calls[LEASE_CALLS_MAX];
	unsigned int n_calls;
	uint64_t leasing, origin_flying, origin_rate;
	int64_t lease_next, origin_came, origin_answer_ns;
	/* Stored bytes of unverified pieces that this node read from the origin, and bytes of the
	 * copies that neighbours got of them from here: both without pieces of what is whole. */
	uint64_t unvouched_read, unvouched_sent;
	/* Bytes sent in all, and at the last measurement; bytes a second, smoothed. */
	uint64_t sent_bytes, sent_counted, sent_rate;
	int64_t looked; /* when what is offered was looked through last */

	uint64_t members[SWARM_MEMBERS_MAX]; /* others */
	size_t n_members;
	/* Last news of what nobody had: hot, the rest; and those that were more
	 * than a promise. */
	int64_t progress[2], brought[2];

	/* Pieces that came or went, newest at `logged`. A ring. */
	uint32_t *log;
	uint64_t logged;
	uint32_t log_room;
	uint32_t promises[LOG_PROMISES];
	uint64_t promised;

	struct swarm_stats stats;
};

#endif
