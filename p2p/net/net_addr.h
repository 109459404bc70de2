// SPDX-License-Identifier: Apache-2.0
/* "ADDR:PORT" as numbers, never as names: nothing here asks a resolver. */
#ifndef BOOTSEER_P2P_NET_NET_ADDR_H
#define BOOTSEER_P2P_NET_NET_ADDR_H

#include <stdbool.h>
#include <sys/socket.h>

#include "common/error.h"

/* "1.2.3.4:80" or "[::1]:80".  -EINVAL names the text. */
int net_addr_parse(const char *text, struct sockaddr_storage *ret,
		   socklen_t *ret_len, struct error *err) MUST_CHECK;
/* Text of an address; the end of what does not fit is cut. */
void net_addr_format(const struct sockaddr_storage *ss, char *ret, size_t size);
unsigned int net_addr_port(const struct sockaddr_storage *ss);
bool net_addr_same_host(const struct sockaddr_storage *a,
			const struct sockaddr_storage *b);
/* 0.0.0.0 or [::]: it says nothing to others. */
bool net_addr_is_any(const struct sockaddr_storage *ss);
/* The address is one of this machine alone. */
bool net_addr_is_loopback(const struct sockaddr_storage *ss);
enum net_addr_kind {
	NET_ADDR_PLAIN,
	NET_ADDR_LOOPBACK,
	NET_ADDR_LINK, /* of one wire: 169.254.0.0/16, fe80::/10 */
	NET_ADDR_NOWHERE, /* of no machine: multicast, 0.0.0.0/8, 240.0.0.0/4, ... */
};
/* An IPv4 address within an IPv6 one is what it is itself. */
enum net_addr_kind net_addr_kind(const struct sockaddr_storage *ss);
/* Does the kernel keep for itself what is sent there?  Nothing is sent. */
bool net_addr_is_own(const struct sockaddr_storage *ss, socklen_t len);
void net_addr_set_port(struct sockaddr_storage *ss, unsigned int port);

#endif
