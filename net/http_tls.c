// SPDX-License-Identifier: Apache-2.0
#include <openssl/ssl.h>

#include "net/http_priv.h"

/* Else SSL_read() goes on for as long as what comes is no data, and neither deadline
 * nor pace is looked at. */
CURLcode http_tls_prepare(CURL *h, void *ssl_ctx, void *arg)
{
	(void)h;
	(void)arg;
	SSL_CTX_clear_mode(ssl_ctx, SSL_MODE_AUTO_RETRY);
	return CURLE_OK;
}
