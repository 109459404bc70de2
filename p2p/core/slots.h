// SPDX-License-Identifier: Apache-2.0
/*
 * Upload slots: which peers this node sends to, over all images. Pure code, as in swarm.h.
 */
#ifndef BOOTSEER_P2P_CORE_SLOTS_H
#define BOOTSEER_P2P_CORE_SLOTS_H

#include "blockstore/blockstore.h"

/*
 * A node sends a limited number of answers at once, over all images. Other requests are refused
 * with a time to retry, so that no queue hides in a connection. Demand has slots of its own. In
 * the other slots, hot pieces go first but have three quarters at most; while hot pieces are asked
 * for, cold ones have a quarter. Peers take turns. An answer that takes far longer than others
 * loses its slot to waiting requests; its peer then gets nothing more of that kind (demand or
 * bulk) until the answer is taken.
 */
struct slots_config {
	unsigned int bulk, demand; /* answers at once: 8 and 4 */
	unsigned int queued;       /* requests of one peer that may wait */
	unsigned int
		waiting; /* requests of all peers that may wait, by priority */
	/* Copies of one piece sent at once: 2. Further requests for the piece are refused, and
	 * their senders get it later from the peers that get it now; so a piece spreads as fast
	 * as its holders grow in number, not as fast as one uplink sends. With 1, an uplink
	 * idles between two peers that ask for the only piece it has. */
	unsigned int copies;
	/* Expected time of an answer, until one has been measured; then the shortest and the
	 * longest time after which a refused peer is told to retry. */
	int64_t usual_ns, retry_min_ns, retry_max_ns;
};
#define SLOTS_MAX 64u /* slots of a kind (demand or bulk) */
#define SLOTS_WAITING_MAX 4096u
struct slots;
int slots_new(const struct slots_config *cfg, struct slots **ret,
	      struct error *err) MUST_CHECK;
void slots_free(struct slots *s);
DEFINE_AUTO(slots)

struct slot_request {
	unsigned int peer; /* number that the host gave the peer */
	uint64_t tag;      /* number by which the host finds the request */
	uint64_t what;     /* key of the piece: equal for equal pieces */
	uint32_t bytes;
	enum source_priority priority;
};
/* Queue a request. 0: it waits until slots_next() returns it. Otherwise the peer must be
 * refused and told to retry in `*ret_retry_ns`: -EBUSY: no room; -EALREADY: enough peers are
 * being sent this piece, and will soon pass it on. */
int slots_add(struct slots *s, const struct slot_request *r, int64_t now,
	      int64_t *ret_retry_ns) MUST_CHECK;
/* Get the next request to serve now; false: none waits, or no slot is free. End each request
 * with slots_done() or slots_failed(). */
bool slots_next(struct slots *s, int64_t now, struct slot_request *ret);
void slots_done(struct slots *s, const struct slot_request *r, int64_t now);
/* Like slots_done() for an answer that the peer did not take; its time is not learnt from. */
void slots_failed(struct slots *s, const struct slot_request *r);
/* Average time of an answer, smoothed. */
int64_t slots_usual_ns(const struct slots *s);
/* Forget the waiting requests of a peer, or one of them. */
void slots_drop_peer(struct slots *s, unsigned int peer);
void slots_drop(struct slots *s, unsigned int peer, uint64_t tag);

#endif
