// SPDX-License-Identifier: Apache-2.0
/* Limits on the peer's messages, kept from one link to the next. */
#ifndef BOOTSEER_P2P_NET_NET_CALM_H
#define BOOTSEER_P2P_NET_NET_CALM_H

#include "p2p/net/net.h"
#include "p2p/net/net_rate.h"

#define NET_CALM_RATE 5000 /* control messages a second, of one link */
#define NET_CALM_BURST 10000
/* Names in PEX messages a second, counted for each image of the link. */
#define NET_NAMES_RATE 1000
#define NET_NAMES_BURST 2048
#define NET_SPENT_MAX 64u /* nodes whose left-over allowance is remembered */

/* Allowance that the last link to a node had left. */
struct net_spent {
	char name[sizeof(((struct net_node *)NULL)->name)]; /* "": none */
	struct bucket calm, names;
};

/* Save the allowance of a link that ends. */
void calm_keep(struct net_link *l);
/* A link comes up: restore what the last link to that node had left. */
void calm_recall(struct net_link *l);

#endif
