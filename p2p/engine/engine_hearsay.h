// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses of other nodes that neighbours announce. Private to engine*.c; used on the loop only.
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_HEARSAY_H
#define BOOTSEER_P2P_ENGINE_ENGINE_HEARSAY_H

#include "p2p/net/net.h"

struct member;
struct p2p;

/* May a node be at this announced address? */
bool hearsay_may_be(const struct p2p *p, const char *addr);
/* Are announcements of this neighbour accepted now? */
bool hearsay_is_believed(const struct member *teller, int64_t now);
/* Must it be remembered that this neighbour was muted? */
bool hearsay_is_remembered(const struct member *teller, int64_t now);
/* member_know() for a node that `teller` announced. */
struct member *hearsay_know(struct p2p *p, const struct member *teller,
			    const struct net_node *node);
/* A node does not answer at the address that only `teller` announced. This may forget members
 * that `teller` announced and that have no link. */
void hearsay_note_bad(struct p2p *p, struct member *teller,
		      const struct net_node *node, int64_t now);
/* Clear the list of dead addresses that this neighbour announced. */
void hearsay_clear(struct member *teller);
/* hearsay_note_bad() for the neighbour that announced `m`, if any; `m` may be freed. */
void hearsay_failed(struct p2p *p, struct member *m, int64_t now);
/* The member answered, so the neighbour that announced it was right. */
void hearsay_proved(struct p2p *p, struct member *m);

#endif
