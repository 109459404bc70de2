// SPDX-License-Identifier: Apache-2.0
/* Certificates of nodes.  Private to net_tls.c. */
#ifndef BOOTSEER_P2P_NET_NET_CERT_H
#define BOOTSEER_P2P_NET_NET_CERT_H

#include <openssl/ssl.h>

#include "p2p/net/net.h"

/* Why one is not believed (X509_V_ERR_..), "it ..", and what mends that. */
const char *cert_trouble(long verified);
/* The node that it names: -EACCES when that is none, or more. */
int cert_name(X509 *cert, char *ret, size_t size, struct error *err) MUST_CHECK;
/* A net that nobody believes is a mistake of its configuration. */
int cert_check_own(SSL_CTX *ctx, const struct net_node *self, const char *file,
		   struct error *err) MUST_CHECK;
/* Would another node believe it, today? */
int cert_check_chain(SSL_CTX *ctx, const char *file,
		     struct error *err) MUST_CHECK;
/* From when, and until when by it and its authorities. */
void cert_times(SSL_CTX *ctx, struct net_times *ret);

#endif
