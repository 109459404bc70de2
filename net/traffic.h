// SPDX-License-Identifier: Apache-2.0
/* Sets the traffic class of a socket's packets (RFC 2474), by which switches and this
 * machine's queues distinguish them. */
#ifndef BOOTSEER_NET_TRAFFIC_H
#define BOOTSEER_NET_TRAFFIC_H

/* Set the DSCP of a TCP socket of either family; 0 changes nothing. Call it before
 * connecting, so that the first packet carries it too. */
void traffic_mark(int fd, unsigned int dscp);

#endif
