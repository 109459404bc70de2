// SPDX-License-Identifier: Apache-2.0
/* Reports links that could not be made. Private to net*.c. */
#ifndef BOOTSEER_P2P_NET_NET_FAULT_H
#define BOOTSEER_P2P_NET_NET_FAULT_H

#include "p2p/net/net_priv.h"

/* `l` NULL: an incoming connection that did not say its name. */
void net_tell_failure(struct net *n, const struct net_link *l,
		      const struct sockaddr_storage *addr,
		      const struct error *why);

#endif
