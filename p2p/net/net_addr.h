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
/* What does not fit is cut. */
void net_addr_format(const struct sockaddr_storage *ss, char *ret, size_t size);
unsigned int net_addr_port(const struct sockaddr_storage *ss);
bool net_addr_same_host(const struct sockaddr_storage *a,
			const struct sockaddr_storage *b);
/* 0.0.0.0 or [::]: it says nothing to others. */
bool net_addr_is_any(const struct sockaddr_storage *ss);
/* Of this machine alone. */
bool net_addr_is_loopback(const struct sockaddr_storage *ss);
void net_addr_set_port(struct sockaddr_storage *ss, unsigned int port);

#endif
