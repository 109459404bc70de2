// SPDX-License-Identifier: Apache-2.0
/* Bytes that a connection may move before others have their turn. Private to net*.c. */
#ifndef BOOTSEER_P2P_NET_NET_TURN_H
#define BOOTSEER_P2P_NET_NET_TURN_H

#include "p2p/net/net_priv.h"

#define NET_BUDGET (1u << 20) /* bytes of a bulk connection */
/* Bytes of a control connection, or under a rate limit. */
#define NET_SLICE (64u << 10)

static inline uint32_t turn_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Bytes in one turn, so that the others have theirs. */
static inline uint32_t turn_budget(const struct conn *c, const struct bucket *b)
{
	return c->bulk && !b->rate ? NET_BUDGET : NET_SLICE;
}

#endif
