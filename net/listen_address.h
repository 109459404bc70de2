/* SPDX-License-Identifier: Apache-2.0 */
/* ADDR:PORT, as options name where a program listens. */
#ifndef BOOTSEER_NET_LISTEN_ADDRESS_H
#define BOOTSEER_NET_LISTEN_ADDRESS_H

#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/error.h"

/*
 * Read `text`, an address and a port in digits, "0.0.0.0:9720" or "[::]:9720".
 * No name is looked up.  -EINVAL: it is something else; the message names `option`,
 * as "--listen", and what is wanted.
 */
int listen_address_parse(const char *option, const char *text,
			 struct sockaddr_storage *ret, socklen_t *ret_len,
			 struct error *err) MUST_CHECK;

#endif
