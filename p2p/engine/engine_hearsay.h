// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses of others that neighbours tell.  Private to engine*.c; everything is the loop's.
 */
#ifndef BOOTSEER_P2P_ENGINE_ENGINE_HEARSAY_H
#define BOOTSEER_P2P_ENGINE_ENGINE_HEARSAY_H

#include "p2p/net/net.h"

struct member;
struct p2p;

/* May a node be at this address, which another one says it is at? */
bool hearsay_may_be(const struct p2p *p, const char *addr);
/* Is what this one says of others heard? */
bool hearsay_is_believed(const struct member *teller, int64_t now);
/* Is it to be remembered that it was not heard? */
bool hearsay_is_remembered(const struct member *teller, int64_t now);
/* member_know() of what `teller` says. */
struct member *hearsay_know(struct p2p *p, const struct member *teller,
			    const struct net_node *node);
/* Nobody answers where it alone said that this node is.  What it said may be forgotten: members
 * without a link. */
void hearsay_note_bad(struct p2p *p, struct member *teller,
		      const struct net_node *node, int64_t now);
/* All that it said so far may be there. */
void hearsay_clear(struct member *teller);
/* The same of the node that said where `m` is, if one did; `m` may be gone then. */
void hearsay_failed(struct p2p *p, struct member *m, int64_t now);
/* The member answered, so that whoever told of it was right. */
void hearsay_proved(struct p2p *p, struct member *m);

#endif
