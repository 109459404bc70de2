// SPDX-License-Identifier: Apache-2.0
#include "certs.h"

#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ca {
	char dir[256];
	EVP_PKEY *key;
	X509 *cert;
	long serial;
};

static FILE *create(const char *dir, const char *name, const char *suffix)
{
	char path[512];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s.%s", dir, name, suffix);
	f = fopen(path, "w");
	cr_assert_not_null(f);
	return f;
}

static void write_cert(const char *dir, const char *name, X509 *cert)
{
	FILE *f = create(dir, name, "pem");

	cr_assert_eq(PEM_write_X509(f, cert), 1);
	cr_assert_eq(fclose(f), 0);
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	cr_assert_not_null(ext);
	cr_assert_eq(X509_add_ext(cert, ext, -1), 1);
	X509_EXTENSION_free(ext);
}

static X509 *make(EVP_PKEY *key, const char *name, X509 *issuer, long serial,
		  long seconds)
{
	X509 *cert = X509_new();
	X509_NAME *subject = X509_get_subject_name(cert);

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
	X509_gmtime_adj(X509_getm_notBefore(cert), -86400);
	X509_gmtime_adj(X509_getm_notAfter(cert), seconds);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(cert,
			     issuer ? X509_get_subject_name(issuer) : subject);
	X509_set_pubkey(cert, key);
	return cert;
}

static struct ca *ca_make(const char *dir, const char *name, struct ca *above)
{
	struct ca *ca = calloc(1, sizeof(*ca));
	FILE *f;

	cr_assert_not_null(ca);
	(void)snprintf(ca->dir, sizeof(ca->dir), "%s", dir);
	ca->key = EVP_EC_gen("P-256");
	ca->cert = make(ca->key, name, above ? above->cert : NULL,
			++(above ? above : ca)->serial, 86400);
	add_extension(ca->cert, above ? above->cert : ca->cert,
		      NID_basic_constraints, "critical,CA:TRUE");
	cr_assert_gt(X509_sign(ca->cert, (above ? above : ca)->key,
			       EVP_sha256()),
		     0);
	f = create(dir, name, "pem");
	cr_assert_eq(PEM_write_X509(f, ca->cert), 1);
	if (above)
		cr_assert_eq(PEM_write_X509(f, above->cert), 1);
	cr_assert_eq(fclose(f), 0);
	return ca;
}

struct ca *ca_new(const char *dir, const char *name)
{
	return ca_make(dir, name, NULL);
}

struct ca *ca_below(struct ca *above, const char *name)
{
	return ca_make(above->dir, name, above);
}

void ca_free(struct ca *ca)
{
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	free(ca);
}

void ca_issue(struct ca *ca, const char *name, const char *san, long seconds)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = make(key, name, ca->cert, ++ca->serial, seconds);
	FILE *f;

	add_extension(cert, ca->cert, NID_ext_key_usage,
		      "serverAuth,clientAuth");
	if (san)
		add_extension(cert, ca->cert, NID_subject_alt_name, san);
	cr_assert_gt(X509_sign(cert, ca->key, EVP_sha256()), 0);
	write_cert(ca->dir, name, cert);
	f = create(ca->dir, name, "key");
	cr_assert_eq(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL),
		     1);
	cr_assert_eq(fclose(f), 0);
	X509_free(cert);
	EVP_PKEY_free(key);
}
