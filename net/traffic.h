// SPDX-License-Identifier: Apache-2.0
/* The class of traffic that a socket's packets have (RFC 2474), by which switches and this
 * machine's own queues tell them from others. */
#ifndef BOOTSEER_NET_TRAFFIC_H
#define BOOTSEER_NET_TRAFFIC_H

/* Have the packets of a TCP socket of either family carry the DSCP; 0 leaves them as they are.
 * Before it is connected, so that the first packet carries it, too. */
void traffic_mark(int fd, unsigned int dscp);

#endif
