// SPDX-License-Identifier: Apache-2.0
/* Certificates of nodes.  Private to net_tls.c. */
#ifndef BOOTSEER_P2P_NET_NET_CERT_H
#define BOOTSEER_P2P_NET_NET_CERT_H

#include <openssl/ssl.h>

#include "p2p/net/net.h"

/* Text for an X509_V_ERR_.. code: why a certificate is not trusted ("it ..."), and what to do. */
const char *cert_trouble(long verified);
/* Get the node name in the certificate: -EACCES: none, or several. */
int cert_name(X509 *cert, char *ret, size_t size, struct error *err) MUST_CHECK;
/* Check this node's own certificate at the start: if peers would not trust it, the
 * configuration is wrong. */
int cert_check_own(SSL_CTX *ctx, const struct net_node *self, const char *file,
		   struct error *err) MUST_CHECK;
/* Would another node trust the certificate today? */
int cert_check_chain(SSL_CTX *ctx, const char *file,
		     struct error *err) MUST_CHECK;
/* Validity of the certificate and its authorities. */
void cert_times(SSL_CTX *ctx, struct net_times *ret);

#endif
