// SPDX-License-Identifier: Apache-2.0
/* Functions that the files of the core have for each other; the structures that they share are
 * in swarm_priv.h. */
#ifndef BOOTSEER_P2P_CORE_SWARM_PARTS_PRIV_H
#define BOOTSEER_P2P_CORE_SWARM_PARTS_PRIV_H

#include "p2p/core/swarm_priv.h"

/* swarm.c */
uint64_t swarm_random(struct swarm *s);
uint32_t tick_of(const struct swarm *s, int64_t t);
/* Call before comparing ticks: moves their origin, so that no tick overflows in an old swarm. */
void ticks_follow(struct swarm *s, int64_t now);
void swarm_pump(struct swarm *s, int64_t now);
/* Every source failed, or the deadline passed: the piece is no longer wanted. */
void swarm_give_up(struct swarm *s, uint32_t piece, int rc);

/* swarm_want.c */
/* Fill the hot window up to its width; hot_clean() first removes pieces that need not be asked
 * for. */
void hot_refill(struct swarm *s);
void hot_clean(struct swarm *s);
/* Remove entry `i` from the window if its piece need not be asked for any more. */
bool hot_leaves(struct swarm *s, uint32_t i);
/* Put a piece into the cold lists that it belongs to. */
void cold_offer(struct swarm *s, uint32_t piece);
/* Remove entry `i` from the list if its piece does not belong there any more. */
bool cold_offered_leaves(struct swarm *s, uint32_t i);
bool cold_unheld_leaves(struct swarm *s, uint32_t i);
/* The request for the piece failed, so the piece may be asked for again. */
void swarm_want_again(struct swarm *s, uint32_t piece);
/* The piece came: its waiters need not wait any more. */
void swarm_satisfied(struct swarm *s, uint32_t piece, int64_t now);
/* Is the piece wanted by one of the flags `wanted`, and not here nor asked for? */
bool is_open(const struct piece *p, unsigned int wanted);
bool is_all_asked(const struct swarm *s); /* nothing is left to ask for */
void demand_remove(struct swarm *s, uint32_t piece);
const struct demand *demand_of(const struct swarm *s, uint32_t piece);

/* swarm_choose.c */
void choose_ready(struct swarm *s, int64_t now);
/* Choose the rarest piece of the hot window, or of the cold list, that a ready peer has;
 * SWARM_NONE: there is none. */
uint32_t choose_hot(struct swarm *s);
uint32_t choose_cold(struct swarm *s);
/* Ready peers that have the piece and did not just refuse it. */
uint64_t piece_askable(const struct swarm *s, const struct piece *p);
/* Does no known peer have the piece? */
bool piece_is_unheld(const struct swarm *s, const struct piece *p);
/* The best of the peers in the bit set `mask`, which is not 0. */
unsigned int choose_peer(struct swarm *s, uint64_t mask, uint32_t size);
/* Bytes of bulk that should be in flight. */
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
/* Would `piece` fit in the place of the piece that `f` carries? */
bool flight_fits_there(const struct swarm *s, const struct piece_flight *f,
		       uint32_t piece);
struct piece_flight *flight_start(struct swarm *s, uint8_t peer, uint32_t piece,
				  enum source_priority priority, int64_t now);
void flights_of_peer_end(struct swarm *s, uint8_t peer);
/* Cancel all requests for a piece that is no longer wanted. */
void flight_cancel_all(struct swarm *s, uint32_t piece);
struct piece_flight *flight_at(struct swarm *s, uint16_t index);
enum source_priority piece_priority(const struct piece *p);

uint16_t flight_index(const struct swarm *s, const struct piece_flight *f);
struct piece_flight *flight_of(struct swarm *s, unsigned int peer,
			       uint32_t piece);
/* End a flight; flight_cancel() tells the peer too. */
void flight_end(struct swarm *s, struct piece_flight *f);
void flight_cancel(struct swarm *s, struct piece_flight *f);
/* The source does not send the piece; another source may have it. */
void flight_fails(struct swarm *s, struct piece_flight *f);

/* swarm_late.c */
void flights_check(struct swarm *s, int64_t now);
/* Count a refusal; a peer that only refuses counts as useless in the end. */
void peer_refused_again(struct swarm *s, unsigned int peer, int64_t now);

/* swarm_others.c */
/* Choose pieces that the peer could send instead of the flight's piece, rarest first. */
void others_choose(struct swarm *s, struct piece_flight *f);
/* Let other requests name the pieces of others_choose() again. */
void others_release(struct swarm *s, struct piece_flight *f);

/* swarm_origin.c */
void origin_pump(struct swarm *s, int64_t now);
void origin_check(struct swarm *s, int64_t now);
/* An unverified piece was read from the origin here: its copies are owed to the neighbours, until
 * the layer of it is whole, or the piece is dropped. */
void origin_owes(struct swarm *s, uint32_t piece);
void origin_owes_no_more(struct swarm *s, uint32_t piece);
/* Read a demanded piece from the origin as well, since the peer that was asked for it is late. */
void origin_hedge(struct swarm *s, const struct demand *d, int64_t now);
void origin_moved(struct swarm *s, const struct piece_flight *f, int64_t now);

/* swarm_turn.c */
/* Without a tracker: may this node read the piece from the origin now? */
bool turn_is_ours(struct swarm *s, uint32_t piece, const struct demand *d,
		  int64_t now);
bool turn_is_first(struct swarm *s, uint32_t piece);
/* How much later than the first node this node has its turn; staggered, so that nodes do not
 * all begin together. */
int64_t turn_wait(struct swarm *s, uint32_t piece);
/* A neighbour announced a piece that no neighbour had. */
void turn_progress(struct swarm *s, uint32_t piece, int64_t now);
/* A neighbour promised a piece. Without pieces that really arrive, promises count only for a
 * while. */
void turn_promised(struct swarm *s, uint32_t piece, int64_t now);
/* Restart the wait for all turns. */
void turns_begin(struct swarm *s, int64_t now);
void turns_begin_cold(struct swarm *s, int64_t now);
void turns_check(struct swarm *s, int64_t now);
/* Time since the last news of a piece of this kind (hot or cold) that no neighbour had. */
int64_t turn_idle(const struct swarm *s, uint32_t piece, int64_t now);

/* swarm_news.c */
void news_log(struct swarm *s, uint32_t piece);
void news_promise(struct swarm *s, uint32_t piece);
/* Forget all promises: it is not recorded which of them a leaving peer made. */
void promises_forget(struct swarm *s);
/* How long a reader waits at most for pieces that other nodes are said to read. */
int64_t demand_patience(const struct swarm *s);
/* Tick until which a promise keeps the origin from being read. `d`: the demand to read it for;
 * NULL: bulk. */
uint32_t promise_ends(const struct swarm *s, uint32_t piece,
		      const struct demand *d);
void peer_strike(struct swarm *s, unsigned int peer, const char *why);

#endif
