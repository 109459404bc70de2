// SPDX-License-Identifier: Apache-2.0
#include "net/tls_authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

bool tls_authority_load(SSL_CTX *ctx, const char *file)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	BIO *bio = BIO_new_file(file, "r");
	X509 *first = bio ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
	bool is_below = first && X509_self_signed(first, 0) == 0;
	bool ok;

	ERR_clear_error();
	if (is_below)
		ok = X509_STORE_add_cert(store, first) == 1;
	else
		ok = SSL_CTX_load_verify_file(ctx, file) == 1;
	X509_free(first);
	BIO_free(bio);
	return ok &&
	       X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) == 1;
}
