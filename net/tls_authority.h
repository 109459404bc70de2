// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_NET_TLS_AUTHORITY_H
#define BOOTSEER_NET_TLS_AUTHORITY_H

#include <stdbool.h>

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

/*
 * Have `ctx` trust the authorities in a PEM file.
 *
 * A file that begins with a root certificate is a list of authorities. In any other file the
 * first certificate is the authority, trusted without its issuer, and the others are its chain
 * of issuers: these also sign other parties' certificates, so they are not trusted.
 *
 * Returns false if the file has no certificate; the reason is in OpenSSL's error queue.
 */
bool tls_authority_load(struct ssl_ctx_st *ctx, const char *file);

#endif
