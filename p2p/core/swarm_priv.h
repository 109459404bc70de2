// SPDX-License-Identifier: Apache-2.0
/*
 * Private structures of the core. swarm.c: creation and the round of decisions; swarm_want.c:
 * wanted pieces; swarm_choose.c: choice of piece and peer; swarm_flight.c: requests in flight;
 * swarm_late.c: late requests; swarm_others.c: alternative pieces of a request; swarm_origin.c:
 * leases and reads of the origin; swarm_turn.c: turns without a tracker; swarm_news.c: news from
 * and for neighbours.
 *
 * A decision costs the scan of one window: the holders of a piece are one word of bits, so its
 * rarity is a count of bits, and the peers to ask are an AND.
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
#define ORIGIN UINT8_MAX /* value of a flight's `peer` for the origin */

/* How often due work is checked while pieces are wanted; while only bulk is wanted, less often
 * the longer answers take. */
#define CHECK_NS (5 * NS_PER_MS)
#define CHECK_MAX_NS (20 * NS_PER_MS)
/* Checks within the shortest time of an answer. */
#define CHECKS_OF_ANSWER 8
#define NEWS_MAX_NS (500 * NS_PER_MS) /* between news */
/* A node without enough in flight looks for more pieces after news, but at most this often. */
#define PUMP_NS (NS_PER_MS / 2)
#define COLD_CHOICE 8u
/* Entries of the cold list considered for one choice. */
#define COLD_SAMPLE 256u

enum piece_flags {
	PIECE_HERE = 1,
	PIECE_HOT = 2, /* wanted by the hot list */
	PIECE_COLD = 4,
	PIECE_DEMAND = 8,
	PIECE_LEASING = 16,     /* the tracker was asked for a lease */
	PIECE_RANKED = 32,      /* `rank` is known */
	PIECE_IN_WINDOW = 64,   /* in the hot window */
	PIECE_IN_OFFERED = 128, /* in a list of struct cold */
	PIECE_IN_UNHELD = 256,
	PIECE_REFUSED = 512,    /* the tracker said that other nodes have or
	                      * read it */
	PIECE_UNVOUCHED = 1024, /* here, not verified, not announced */
	PIECE_OWED = 2048,      /* read from the origin, in `unvouched_read` */
};
#define FLAGS 0xfffu /* all flags of a piece */
#define PIECE_WANTED (PIECE_HOT | PIECE_COLD | PIECE_DEMAND)

struct piece {
	uint64_t holders; /* a bit for each peer */
	uint64_t resting; /* holders that bulk does not ask before `rest` */
	/* Tick before which the origin is not asked for the piece: the tracker refused, or the
	 * origin failed. See tick_of(). */
	uint32_t after;
	/* Tick until which neighbours promise the piece; and tick since which promises of it
	 * count: only for a while, however many neighbours make them. */
	uint32_t promised, promised_since;
	uint32_t rest; /* tick after which no holder rests */
	/* First flight of the piece, index plus one; 0: none. */
	uint16_t flight;
	uint16_t flags : 12;
	uint16_t failed : 4; /* how often the origin failed */
	/* This node's rank for the piece, see swarm_turn.c. */
	uint16_t rank;
};

struct piece_flight {
	/* Piece number; its bytes; bytes that came. */
	uint32_t piece, size, came;
	uint32_t unpacked;
	uint16_t next, prev; /* list by time of asking; index plus one */
	/* Second flight for the same piece, index plus one; 0: none. */
	uint16_t twin;
	uint8_t peer; /* or ORIGIN */
	uint8_t priority;
	bool is_hedge;
	bool is_turn; /* a read of the origin in this node's own turn */
	/* Bytes the peer still had to send then, with this piece. */
	uint64_t ahead;
	int64_t asked, expected_ns, expires;
	/* Other pieces that the request names. Until the peer begins to answer, any of them may
	 * be the one it sends. */
	uint32_t others[SWARM_OTHERS_MAX];
	uint8_t n_others;
};

struct answers { /* histogram of answer times: two buckets an octave */
	uint16_t n[ANSWER_BUCKETS];
	unsigned int total;
};

struct peer {
	bool is_joined, takes_one;
	enum swarm_distance distance;
	uint32_t have;
	uint64_t bytes, flying, rate;
	/* of `unvouched_read`, the bytes of pieces that it got from here */
	uint64_t unvouched_sent;
	unsigned int n_flying, strikes, quarantines, refusals;
	struct answers answers;
	/* busy_until: not asked before; moved: last bytes; heard: last answer; refused: first
	 * refusal since its last answer. */
	int64_t busy_until, moved, heard, refused;
	/* Silent since then, though asked again; 0: not silent. */
	int64_t quiet;
	/* News that the peer was told: pieces below `snapshot`, log entries before `told`, and
	 * promises before `told_promises`. */
	uint32_t snapshot;
	uint64_t told, told_promises;
};

/* Hot list: pieces that a recorded start reads, in its order. */
struct hot_pieces {
	uint32_t *pieces;
	uint32_t n, next; /* entries before `next` have been in the window */
	uint32_t *window; /* pieces to ask for, also after a failed request */
	uint32_t n_window, width, room;
	/* Pieces wanted in all; of these, pieces here. */
	uint32_t total, here;
	/* When the list was set; when its last piece came. */
	int64_t since, came;
};

/* Cold list, unordered: pieces that a neighbour has, and pieces that none has. An entry that no
 * longer belongs in its list is removed when a scan meets it. */
struct cold {
	uint32_t *offered, *unheld;
	uint32_t n_offered, n_unheld;
	uint32_t total, here;
};

struct demand {
	uint32_t piece;
	/* When the first reader came; earliest and latest deadline of its readers. */
	int64_t since, first, deadline;
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
	struct demand *demands; /* sorted by `first` */
	size_t n_demands, demands_room;

	struct peer peers[SWARM_PEERS_MAX];
	/* Bits of peers that only refuse, and of peers that were asked and send nothing: pieces
	 * of theirs may be read from the origin. */
	uint64_t useless, silent;
	int64_t checked; /* time of the last check of flights */
	int64_t heard;   /* when any peer was last heard */
	/* Bits of the peers that may be asked in this round. */
	uint64_t ready;
	uint32_t tick;          /* tick of this round */
	uint64_t rate;          /* rate of a peer, averaged over all */
	struct answers answers; /* answer times of all peers */
	int64_t pumped;

	struct piece_flight flights[FLIGHTS_MAX];
	uint16_t first, last, unused; /* index plus one */
	/* Flights; those that still name several pieces. */
	unsigned int n_flights, n_unsettled;
	/* Stored bytes in flight; the same unpacked. */
	uint64_t flying, unpacked;
	uint64_t hedged_bytes, came_bytes;
	/* Bytes arriving a second; came_bytes when last measured. */
	uint64_t came_rate, came_counted;
	int64_t came_at;
	unsigned int n_measured; /* samples in came_rate, 8 at most */
	/* When the last piece came; average gap between pieces. */
	int64_t got, gap_ns;
	unsigned int n_longer; /* how often the patience was doubled ... */
	int64_t longer;        /* ... and when last */
	int64_t answer_min;    /* shortest time of an answer; 0: none yet */
	int64_t refusal_ns;    /* average time until a refusal comes */
	uint64_t size;         /* average bytes of a piece */

	bool has_tracker;
	struct lease_call calls[LEASE_CALLS_MAX];
	unsigned int n_calls;
	uint64_t leasing, origin_flying, origin_rate;
	int64_t lease_next, origin_came, origin_answer_ns;
	/* Stored bytes of unverified pieces that this node read from the origin, without pieces of
	 * what is whole. */
	uint64_t unvouched_read;
	/* Bytes sent in all, and at the last measurement; bytes a second, smoothed. */
	uint64_t sent_bytes, sent_counted, sent_rate;
	int64_t looked; /* when the offered pieces were last searched */

	uint64_t members[SWARM_MEMBERS_MAX]; /* other nodes */
	size_t n_members;
	/* [0] hot, [1] cold: time of the last news of a piece that no neighbour had; `brought`
	 * leaves out promises. */
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
