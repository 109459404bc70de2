// SPDX-License-Identifier: Apache-2.0
/* IP addresses as "ADDR:PORT"; host names are not resolved here. */
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
/* Is it 0.0.0.0 or [::], which other nodes cannot connect to? */
bool net_addr_is_any(const struct sockaddr_storage *ss);
/* Is it an address within this machine only? */
bool net_addr_is_loopback(const struct sockaddr_storage *ss);
enum net_addr_kind {
	NET_ADDR_PLAIN,
	NET_ADDR_LOOPBACK,
	NET_ADDR_LINK, /* link-local: 169.254.0.0/16, fe80::/10 */
	/* Not of a machine: multicast, 0.0.0.0/8, 240.0.0.0/4, ... */
	NET_ADDR_NOWHERE,
};
/* An IPv4 address mapped into IPv6 counts as IPv4. */
enum net_addr_kind net_addr_kind(const struct sockaddr_storage *ss);
/* Is it an address of this machine? No packet is sent. */
bool net_addr_is_own(const struct sockaddr_storage *ss, socklen_t len);
void net_addr_set_port(struct sockaddr_storage *ss, unsigned int port);

#endif
