// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_NET_TLS_AUTHORITY_H
#define BOOTSEER_NET_TLS_AUTHORITY_H

#include <stdbool.h>

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

/*
 * Have `ctx` believe certificates of the authorities in a PEM file.
 *
 * A file that begins with a root is a list of authorities.  In any other file the first
 * certificate is the authority, which counts without the one that signed it, and those
 * after it are the chain that did: they have also signed certificates of strangers, so
 * they are not believed.
 *
 * Returns false where the file has none; OpenSSL's queue of errors then has the reason.
 */
bool tls_authority_load(struct ssl_ctx_st *ctx, const char *file);

#endif
