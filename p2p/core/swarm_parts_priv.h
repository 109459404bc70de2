// SPDX-License-Identifier: Apache-2.0
/* Functions that the files of the core have for each other; the structures that they share are
 * in swarm_priv.h. */
#ifndef BOOTSEER_P2P_CORE_SWARM_PARTS_PRIV_H
#define BOOTSEER_P2P_CORE_SWARM_PARTS_PRIV_H

#include "p2p/core/swarm_priv.h"

/* swarm.c */
uint64_t swarm_random(struct swarm *s);
uint32_t tick_of(const struct swarm *s, int64_t t);
/* Before ticks are compared: none of them runs over, however old the swarm is. */
void ticks_follow(struct swarm *s, int64_t now);
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
/* The piece came: its waiters need not wait any more. */
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
/* Does no known peer have the piece? */
bool piece_is_unheld(const struct swarm *s, const struct piece *p);
/* The best of the peers in `mask`, which is not 0. */
unsigned int choose_peer(struct swarm *s, uint64_t mask, uint32_t size);
/* Bytes of bulk that are to be under way. */
uint64_t flying_wanted(const struct swarm *s);
uint64_t peer_credit(const struct swarm *s, const struct peer *p);
int64_t peer_expected(const struct swarm *s, const struct peer *p,
		      uint32_t size);
void answers_add(struct answers *a, int64_t ns);
int64_t answers_quantile(const struct answers *a, unsigned int percent);

/* swarm_flight.c */
uint32_t unpacked_of(const struct swarm *s, uint32_t piece);
bool flight_fits(const struct swarm *s, uint32_t piece, bool is_demand);
/* Is there room for any request of bulk? */
bool some_flight_fits(const struct swarm *s);
/* In the place of what it carries. */
bool flight_fits_there(const struct swarm *s, const struct piece_flight *f,
		       uint32_t piece);
struct piece_flight *flight_start(struct swarm *s, uint8_t peer, uint32_t piece,
				  enum source_priority priority, int64_t now);
void flights_of_peer_end(struct swarm *s, uint8_t peer);
/* Nothing wants this piece any more. */
void flight_cancel_all(struct swarm *s, uint32_t piece);
struct piece_flight *flight_at(struct swarm *s, uint16_t index);
enum source_priority piece_priority(const struct piece *p);

uint16_t flight_index(const struct swarm *s, const struct piece_flight *f);
struct piece_flight *flight_of(struct swarm *s, unsigned int peer,
			       uint32_t piece);
/* Nothing is awaited of it any more; and who was asked is told. */
void flight_end(struct swarm *s, struct piece_flight *f);
void flight_cancel(struct swarm *s, struct piece_flight *f);
/* The piece will not come from there; somebody else may have it. */
void flight_fails(struct swarm *s, struct piece_flight *f);

/* swarm_late.c */
void flights_check(struct swarm *s, int64_t now);
/* A peer that only refuses is left in the end. */
void peer_refused_again(struct swarm *s, unsigned int peer, int64_t now);

/* swarm_others.c */
/* Pieces that `peer` could send in the place of `piece`, rarest first. */
void others_choose(struct swarm *s, struct piece_flight *f);
/* Have the pieces of others_choose() be asked for again. */
void others_release(struct swarm *s, struct piece_flight *f);

/* swarm_origin.c */
void origin_pump(struct swarm *s, int64_t now);
void origin_check(struct swarm *s, int64_t now);
/* All that pieces of so many bytes, which were read here, are part of is whole. */
void origin_vouched(struct swarm *s, uint64_t bytes);
/* Read it besides, since what is under way of the demand is late. */
void origin_hedge(struct swarm *s, const struct demand *d, int64_t now);
void origin_moved(struct swarm *s, const struct piece_flight *f, int64_t now);

/* swarm_turn.c */
/* Without a tracker: this node may read it from the origin now. */
bool turn_is_ours(struct swarm *s, uint32_t piece, const struct demand *d,
		  int64_t now);
bool turn_is_first(struct swarm *s, uint32_t piece);
/* How much later than the first node this one has its turn, so that not all begin
 * together. */
int64_t turn_wait(struct swarm *s, uint32_t piece);
/* A neighbour has what nobody had. */
void turn_progress(struct swarm *s, uint32_t piece, int64_t now);
/* A neighbour reads it.  Without what nobody had, that counts for a while. */
void turn_promised(struct swarm *s, uint32_t piece, int64_t now);
/* All turns begin to be waited for now. */
void turns_begin(struct swarm *s, int64_t now);
void turns_begin_cold(struct swarm *s, int64_t now);
void turns_check(struct swarm *s, int64_t now);
/* How long nothing was heard of that could be asked for, of this kind. */
int64_t turn_idle(const struct swarm *s, uint32_t piece, int64_t now);

/* swarm_news.c */
void news_log(struct swarm *s, uint32_t piece);
void news_promise(struct swarm *s, uint32_t piece);
/* Any promise may have been this peer's, so all are forgotten. */
void promises_forget(struct swarm *s);
/* How long a reader waits at most for what others are said to read. */
int64_t demand_patience(const struct swarm *s);
/* Until when a promise keeps the origin from being read, in ticks; `d`: the demand
 * for it, NULL: it is bulk. */
uint32_t promise_ends(const struct swarm *s, uint32_t piece,
		      const struct demand *d);
void peer_strike(struct swarm *s, unsigned int peer, const char *why);

#endif
