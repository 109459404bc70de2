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
#ifndef BOOTSEER_P2P_SWARM_PRIV_H
#define BOOTSEER_P2P_SWARM_PRIV_H

#include "p2p/swarm.h"

#define FLIGHTS_MAX 512u
#define LEASE_CALLS_MAX 2u
#define LOG_PROMISES 256u
#define ANSWER_BUCKETS 32u
#define STRIKES_MAX 3u
#define FAILED_MAX 15u
#define ORIGIN UINT8_MAX /* as a flight's peer */

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)
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
};
#define FLAGS 0xfffu /* of a piece */
#define PIECE_WANTED (PIECE_HOT | PIECE_COLD | PIECE_DEMAND)

struct piece {
	uint64_t holders; /* a bit for each peer */
	uint64_t
		resting; /* of them, those that bulk does not ask before `rest` */
	/* The origin is not asked before: somebody promised it, or the tracker
	 * said no. In ticks, see tick_of(). */
	uint32_t after;
	uint32_t rest;   /* in ticks: after it nobody rests */
	uint16_t flight; /* the first of its flights, plus one; 0: none */
	uint16_t flags : 12;
	uint16_t failed : 4; /* how often the origin did */
	uint16_t rank;       /* of this node for it, see swarm_turn.c */
};

struct flight {
	uint32_t piece, size, came; /* bytes of it */
	uint16_t next, prev;        /* in order of being asked; plus one */
	uint16_t twin;              /* another one for the piece, plus one */
	uint8_t peer;               /* or ORIGIN */
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
	/* What it was told: places below `snapshot` and entries of the log
	 * before `told`; promises before `told_promises`. */
	uint32_t snapshot;
	uint64_t told, told_promises;
};

/* What a recorded start reads, in its order. */
struct hot {
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

	struct hot hot;
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

	struct flight flights[FLIGHTS_MAX];
	uint16_t first, last, unused;        /* plus one */
	unsigned int n_flights, n_unsettled; /* of them, those with others */
	uint64_t flying;
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
	int64_t looked; /* when what is offered was looked through last */

	uint64_t members[SWARM_MEMBERS_MAX]; /* others */
	size_t n_members;
	int64_t progress[2]; /* last news of what nobody had: hot, the rest */

	/* Pieces that came or went, newest at `logged`. A ring. */
	uint32_t *log;
	uint64_t logged;
	uint32_t log_room;
	uint32_t promises[LOG_PROMISES];
	uint64_t promised;

	struct swarm_stats stats;
};

/* swarm.c */
uint64_t swarm_random(struct swarm *s);
uint32_t tick_of(const struct swarm *s, int64_t t);
void swarm_pump(struct swarm *s, int64_t now);
/* Every source failed, or its time is over: forget that it is wanted. */
void swarm_give_up(struct swarm *s, uint32_t piece, int rc);

/* swarm_want.c */
/* Open the window as far as it may be; after what is not to be asked for any more
 * has left it. */
void hot_refill(struct swarm *s);
void hot_clean(struct swarm *s);
/* Take entry `i` of the window out if it is not to be asked for any more. */
bool hot_leaves(struct swarm *s, uint32_t i);
/* Put a piece where it belongs among the rest, if it belongs there. */
void cold_offer(struct swarm *s, uint32_t piece);
/* Take entry `i` out if it does not belong there any more. */
bool cold_offered_leaves(struct swarm *s, uint32_t i);
bool cold_unheld_leaves(struct swarm *s, uint32_t i);
/* Wanted again, since what was asked for did not come. */
void swarm_want_again(struct swarm *s, uint32_t piece);
/* It came: whoever waited need not any more. */
void swarm_satisfied(struct swarm *s, uint32_t piece, int64_t now);
bool is_open(const struct piece *p, unsigned int wanted); /* to be asked for */
bool is_all_asked(const struct swarm *s); /* nothing is left to ask for */
void demand_remove(struct swarm *s, uint32_t piece);
const struct demand *demand_of(const struct swarm *s, uint32_t piece);

/* swarm_choose.c */
void choose_ready(struct swarm *s, int64_t now);
/* The rarest of the window, or of the rest, that one of the ready has; SWARM_NONE. */
uint32_t choose_hot(struct swarm *s);
uint32_t choose_cold(struct swarm *s);
/* The ready that have it and did not just refuse it. */
uint64_t piece_askable(const struct swarm *s, const struct piece *p);
/* What nobody has from whom it could be had. */
bool piece_is_unheld(const struct swarm *s, const struct piece *p);
/* Of the peers in `mask`, which is not 0. */
unsigned int choose_peer(struct swarm *s, uint64_t mask, uint32_t size);
/* Bytes of bulk that are to be under way. */
uint64_t flying_wanted(const struct swarm *s);
uint64_t peer_credit(const struct swarm *s, const struct peer *p);
int64_t peer_expected(const struct swarm *s, const struct peer *p,
		      uint32_t size);
void answers_add(struct answers *a, int64_t ns);
int64_t answers_quantile(const struct answers *a, unsigned int percent);

/* swarm_flight.c */
bool flight_fits(const struct swarm *s, uint32_t size, bool is_demand);
struct flight *flight_start(struct swarm *s, uint8_t peer, uint32_t piece,
			    enum source_priority priority, int64_t now);
void flights_of_peer_end(struct swarm *s, uint8_t peer);
/* Nothing wants this piece any more. */
void flight_cancel_all(struct swarm *s, uint32_t piece);
struct flight *flight_at(struct swarm *s, uint16_t index);
enum source_priority piece_priority(const struct piece *p);

uint16_t flight_index(const struct swarm *s, const struct flight *f);
struct flight *flight_of(struct swarm *s, unsigned int peer, uint32_t piece);
/* Nothing is awaited of it any more; and who was asked is told. */
void flight_end(struct swarm *s, struct flight *f);
void flight_cancel(struct swarm *s, struct flight *f);
/* It will not come from there; somebody else may have it. */
void flight_fails(struct swarm *s, struct flight *f);

/* swarm_late.c */
void flights_check(struct swarm *s, int64_t now);
/* Who only refuses is of no use in the end. */
void peer_refused_again(struct swarm *s, unsigned int peer, int64_t now);

/* swarm_others.c */
/* Pieces that `peer` could send in the place of `piece`, rarest first. */
void others_choose(struct swarm *s, struct flight *f);
/* They can be asked for again. */
void others_release(struct swarm *s, struct flight *f);

/* swarm_origin.c */
void origin_pump(struct swarm *s, int64_t now);
void origin_check(struct swarm *s, int64_t now);
/* Read it besides, since what is under way is late. */
void origin_hedge(struct swarm *s, uint32_t piece, int64_t now);
void origin_moved(struct swarm *s, const struct flight *f, int64_t now);

/* swarm_turn.c */
/* Without a tracker: this node may read it from the origin now. */
bool turn_is_ours(struct swarm *s, uint32_t piece, int64_t now);
bool turn_is_first(struct swarm *s, uint32_t piece);
/* A neighbour has it, or reads it, whom nobody here had before. */
void turn_progress(struct swarm *s, uint32_t piece, int64_t now);
/* All turns begin to be waited for now. */
void turns_begin(struct swarm *s, int64_t now);
void turns_begin_cold(struct swarm *s, int64_t now);
void turns_check(struct swarm *s, int64_t now);
/* How long nothing was heard of that could be asked for, of this kind. */
int64_t turn_idle(const struct swarm *s, uint32_t piece, int64_t now);

/* swarm_news.c */
void news_log(struct swarm *s, uint32_t piece);
void news_promise(struct swarm *s, uint32_t piece);
/* It may be this peer that promised something. */
void promises_forget(struct swarm *s);
void peer_strike(struct swarm *s, unsigned int peer, const char *why);

#endif
