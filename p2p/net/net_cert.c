// SPDX-License-Identifier: Apache-2.0
/*
 * Certificates of nodes: the name in one, whether other nodes trust it, its validity, and advice
 * when it is not trusted.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "p2p/net/net_cert.h"

#define NAME_PREFIX "bootseer://node/"

const char *cert_trouble(long verified)
{
	static const struct {
		long code;
		const char *text;
	} all[] = {
#define OF_ANOTHER "it is of no authority in ca.crt of --p2p-tls"
		{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, OF_ANOTHER },
		{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, OF_ANOTHER },
		{ X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, OF_ANOTHER },
		{ X509_V_ERR_CERT_SIGNATURE_FAILURE, OF_ANOTHER },
		{ X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, OF_ANOTHER },
		{ X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, OF_ANOTHER },
#undef OF_ANOTHER
		{ X509_V_ERR_CERT_HAS_EXPIRED,
		  "it, or its authority's, has expired: renew it, and reload "
		  "its bootseerd; or this machine's clock is wrong: see date" },
		{ X509_V_ERR_CERT_NOT_YET_VALID,
		  "it is not good yet: is this machine's clock slow? See "
		  "date" },
		{ X509_V_ERR_INVALID_PURPOSE,
		  "it is not for both a server and a client" },
	};

	for (size_t k = 0; k < ARRAY_SIZE(all); k++)
		if (all[k].code == verified)
			return all[k].text;
	return X509_verify_cert_error_string(verified);
}

/* ----------------------------------------------------------------- names --- */

/* Name of the node in a certificate's URI, or NULL. */
static const char *find_node_name(const GENERAL_NAME *g, size_t *ret_len)
{
	const size_t prefix = sizeof(NAME_PREFIX) - 1;
	const char *uri;
	size_t n;

	if (g->type != GEN_URI)
		return NULL;
	uri = (const char *)ASN1_STRING_get0_data(
		g->d.uniformResourceIdentifier);
	n = (size_t)ASN1_STRING_length(g->d.uniformResourceIdentifier);
	if (n <= prefix || memcmp(uri, NAME_PREFIX, prefix) != 0)
		return NULL;
	*ret_len = n - prefix;
	return uri + prefix;
}

int cert_name(X509 *cert, char *ret, size_t size, struct error *err)
{
	GENERAL_NAMES *names =
		X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	size_t len = 0, n;
	int found = 0;

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const char *node =
			find_node_name(sk_GENERAL_NAME_value(names, i), &n);

		if (!node)
			continue;
		found++;
		len = n;
		if (len < size && !memchr(node, '\0', len)) {
			memcpy(ret, node, len);
			ret[len] = '\0';
		} else {
			found++;
		}
	}
	GENERAL_NAMES_free(names);
	if (found == 1)
		return 0;
	return error_set(err, EACCES,
			 "a certificate names %s node (SAN URI " NAME_PREFIX
			 "NAME): docs/peers.md has how to make one",
			 found ? "no single" : "no");
}

/* ---------------------------------------------------------------- checks --- */

int cert_check_own(SSL_CTX *ctx, const struct net_node *self, const char *file,
		   struct error *err)
{
	char name[sizeof(self->name)];

	if (cert_name(SSL_CTX_get0_certificate(ctx), name, sizeof(name), err) <
	    0)
		return error_wrap(err, -err->code, "certificate '%s'", file);
	if (strcmp(name, self->name) != 0)
		return error_set(err, EINVAL,
				 "certificate '%s' is of node '%s', and this "
				 "is '%s': set --node-name, or take that "
				 "node's (tls.crt of --p2p-tls)",
				 file, name, self->name);
	return 0;
}

int cert_check_chain(SSL_CTX *ctx, const char *file, struct error *err)
{
	X509_STORE_CTX *v = X509_STORE_CTX_new();
	X509 *cert = SSL_CTX_get0_certificate(ctx);
	STACK_OF(X509) *chain = NULL;
	int rc = 0;

	(void)SSL_CTX_get0_chain_certs(ctx, &chain);
	if (!v || X509_STORE_CTX_init(v, SSL_CTX_get_cert_store(ctx), cert,
				      chain) != 1)
		rc = error_nomem(err);
	else if (X509_verify_cert(v) != 1)
		rc = error_set(err, EINVAL, "certificate '%s': %s", file,
			       cert_trouble(X509_STORE_CTX_get_error(v)));
	else if (X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0) != 1 ||
		 X509_check_purpose(cert, X509_PURPOSE_SSL_CLIENT, 0) != 1)
		rc = error_set(err, EINVAL,
			       "certificate '%s' is not for both a server and "
			       "a client",
			       file);
	X509_STORE_CTX_free(v);
	ERR_clear_error();
	return rc;
}

int net_check_ca(const char *ca_file, struct error *err)
{
	AUTO_FCLOSE FILE *f = fopen(ca_file, "re");
	unsigned int n = 0, n_good = 0;
	X509 *cert;

	if (!f)
		return error_errno(err, errno, "CA's certificate (PEM) '%s'",
				   ca_file);
	for (; (cert = PEM_read_X509(f, NULL, NULL, NULL)); n++) {
		n_good += X509_cmp_current_time(X509_get0_notAfter(cert)) > 0;
		X509_free(cert);
	}
	ERR_clear_error();
	if (n == 0)
		return error_set(err, EINVAL,
				 "CA's certificate (PEM) '%s': there is none "
				 "in it",
				 ca_file);
	if (n_good == 0)
		return error_set(err, EINVAL,
				 "CA's certificate (PEM) '%s': it has expired: "
				 "make a new one",
				 ca_file);
	return 0;
}

/* ------------------------------------------------------------------ time --- */

static int64_t seconds_of(const ASN1_TIME *t)
{
	struct tm tm;

	return t && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

void cert_times(SSL_CTX *ctx, struct net_times *ret)
{
	X509_STORE_CTX *v = X509_STORE_CTX_new();
	X509 *cert = SSL_CTX_get0_certificate(ctx);
	STACK_OF(X509) *chain = NULL, *all;

	ret->not_before = seconds_of(X509_get0_notBefore(cert));
	ret->not_after = seconds_of(X509_get0_notAfter(cert));
	(void)SSL_CTX_get0_chain_certs(ctx, &chain);
	if (v && X509_STORE_CTX_init(v, SSL_CTX_get_cert_store(ctx), cert,
				     chain) == 1) {
		/* Read the times even of an expired certificate. */
		X509_STORE_CTX_set_flags(v, X509_V_FLAG_NO_CHECK_TIME);
		(void)X509_verify_cert(v);
		all = X509_STORE_CTX_get0_chain(v);
		for (int k = 0; k < sk_X509_num(all); k++) {
			int64_t end = seconds_of(
				X509_get0_notAfter(sk_X509_value(all, k)));

			if (end < ret->not_after)
				ret->not_after = end;
		}
	}
	X509_STORE_CTX_free(v);
	ERR_clear_error();
}
