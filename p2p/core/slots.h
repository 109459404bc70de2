// SPDX-License-Identifier: Apache-2.0
/*
 * Upload slots: whom this node serves, over all images.  Pure, as swarm.h is.
 */
#ifndef BOOTSEER_P2P_CORE_SLOTS_H
#define BOOTSEER_P2P_CORE_SLOTS_H

#include "blockstore/blockstore.h"

/*
 * Whom this node serves, over all images: so many answers at once, the rest is
 * told to come again, so that no queue hides behind a connection.  Demand has
 * slots of its own; of the rest what is hot goes first and has three quarters at
 * most, and while it is asked for what is cold has a quarter; requesters take turns.
 * An answer that takes far longer than others gives its slot to who waits, and whoever
 * it goes to gets nothing more of its kind, demand or bulk, until he has taken it.
 */
struct slots_config {
	unsigned int bulk, demand; /* answers at once: 8 and 4 */
	unsigned int queued;       /* requests of one peer that may wait */
	unsigned int
		waiting; /* requests of all peers that may wait, by priority */
	/* Answers with the same piece at once, where nobody waits: 2.  Who asks
	 * then gets it later from those who get it now, and the piece spreads
	 * as fast as there are more who have it, not as one uplink allows.  With
	 * 1 an uplink idles between two who ask for the only piece it has. */
	unsigned int copies;
	/* Time that an answer is thought to take before one was given; and the least and the
	 * most that refused peers are told to wait. */
	int64_t usual_ns, retry_min_ns, retry_max_ns;
};
#define SLOTS_MAX 64u /* of one kind */
#define SLOTS_WAITING_MAX 4096u
struct slots;
int slots_new(const struct slots_config *cfg, struct slots **ret,
	      struct error *err) MUST_CHECK;
void slots_free(struct slots *s);
DEFINE_AUTO(slots)

struct slot_request {
	unsigned int peer; /* any number of the host's */
	uint64_t tag;      /* the host's */
	uint64_t what;     /* the same for the same piece */
	uint32_t bytes;
	enum source_priority priority;
};
/* 0: it waits, slots_next() will give it.  Else refuse it, with `*ret_retry_ns`:
 * -EBUSY: no room; -EALREADY: the piece goes to others, who will have it then. */
int slots_add(struct slots *s, const struct slot_request *r, int64_t now,
	      int64_t *ret_retry_ns) MUST_CHECK;
/* The next to be served now; false: none, or no slot is free.  Each is ended by
 * slots_done(). */
bool slots_next(struct slots *s, int64_t now, struct slot_request *ret);
void slots_done(struct slots *s, const struct slot_request *r, int64_t now);
/* The same, but it was not taken: its time says nothing. */
void slots_failed(struct slots *s, const struct slot_request *r);
/* Time that an answer takes, smoothed. */
int64_t slots_usual_ns(const struct slots *s);
/* Forget what waits of a peer, or one request of it. */
void slots_drop_peer(struct slots *s, unsigned int peer);
void slots_drop(struct slots *s, unsigned int peer, uint64_t tag);

#endif
