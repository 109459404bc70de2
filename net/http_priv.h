// SPDX-License-Identifier: Apache-2.0
#ifndef BOOTSEER_NET_HTTP_PRIV_H
#define BOOTSEER_NET_HTTP_PRIV_H

#include <curl/curl.h>
#include <stdbool.h>

#include "common/error.h"
#include "net/http.h"

/*
 * Translate a failure of libcurl into an errno and a message with a cure. `why`
 * is libcurl's text; `plain`: the URL was http://; `answered`: headers of an
 * answer came; `cures` NULL: those of registries. Returns -errno as http_do()
 * documents it.
 */
int http_error(CURLcode code, const char *why, bool plain, bool answered,
	       const struct http_cures *cures, struct error *err) MUST_CHECK;

/* Prepare libcurl's TLS connections, as a CURLOPT_SSL_CTX_FUNCTION; `arg` is PEM text of
 * further trusted certificates, or NULL. */
CURLcode http_tls_prepare(CURL *h, void *ssl_ctx, void *arg);

#endif
