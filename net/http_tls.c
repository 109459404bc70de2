// SPDX-License-Identifier: Apache-2.0
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "net/http_priv.h"

/* Trust every certificate in a PEM text. */
static CURLcode trust_more(SSL_CTX *ctx, const char *pem)
{
	BIO *in = BIO_new_mem_buf(pem, -1);
	unsigned int n = 0;
	X509 *cert;

	while (in && (cert = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
		n += X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert);
		X509_free(cert);
	}
	ERR_clear_error(); /* the end of the text leaves an error */
	BIO_free(in);
	return n ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

/* Without this, SSL_read() would go on as long as records without data arrive, and neither
 * deadline nor pace would be checked. */
CURLcode http_tls_prepare(CURL *h, void *ssl_ctx, void *arg)
{
	(void)h;
	SSL_CTX_clear_mode(ssl_ctx, SSL_MODE_AUTO_RETRY);
	return arg ? trust_more(ssl_ctx, arg) : CURLE_OK;
}
