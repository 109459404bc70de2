// SPDX-License-Identifier: Apache-2.0
/* Telling of links that do not come about.  Private to net*.c. */
#ifndef BOOTSEER_P2P_NET_NET_FAULT_H
#define BOOTSEER_P2P_NET_NET_FAULT_H

#include "p2p/net/net_priv.h"

/* `l` NULL: one who came, and said nothing of himself. */
void net_tell_failure(struct net *n, const struct net_link *l,
		      const struct sockaddr_storage *addr,
		      const struct error *why);

#endif
