// SPDX-License-Identifier: Apache-2.0
/* How much the other side of a link may say, and what becomes of that with the link. */
#ifndef BOOTSEER_P2P_NET_NET_CALM_H
#define BOOTSEER_P2P_NET_NET_CALM_H

#include "p2p/net/net.h"
#include "p2p/net/net_rate.h"

#define NET_CALM_RATE 5000 /* control messages a second, of one link */
#define NET_CALM_BURST 10000
#define NET_NAMES_RATE 1000 /* in PEX, each for each image of the link */
#define NET_NAMES_BURST 2048
#define NET_SPENT_MAX 64u /* nodes whose last link's use of these is known */

/* Allowance that the last link to a node had left. */
struct net_spent {
	char name[sizeof(((struct net_node *)NULL)->name)]; /* "": none */
	struct bucket calm, names;
};

/* A link that was up ends. */
void calm_keep(struct net_link *l);
/* A link comes up: it goes on with what the last one to that node had left. */
void calm_recall(struct net_link *l);

#endif
