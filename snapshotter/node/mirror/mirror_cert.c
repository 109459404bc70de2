// SPDX-License-Identifier: Apache-2.0
/*
 * The key and certificate that both sides use: containerd trusts the server that has the key, and
 * the mirror trusts a client that can read it, which is root.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "snapshotter/node/mirror/mirror_priv.h"

/* The certificate is valid at any time, even with a wrong clock (from 2020-01-01 on): each
 * start of bootseerd makes a new one. */
#define NOT_BEFORE 1577836800
#define NOT_AFTER "99991231235959Z"
#define OWN_NAME "URI:bootseer://node/" MIRROR_PEER

static bool add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
	bool ok = ext && X509_add_ext(cert, ext, -1) == 1;

	X509_EXTENSION_free(ext);
	return ok;
}

static bool fill_cert(X509 *cert, EVP_PKEY *key, const char *names)
{
	static const unsigned char name[] = "bootseer mirror";
	uint64_t serial = 0;

	return RAND_bytes((unsigned char *)&serial, sizeof(serial)) == 1 &&
	       X509_set_version(cert, 2) == 1 &&
	       ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert),
				       serial >> 1 | 1) == 1 &&
	       ASN1_TIME_set(X509_getm_notBefore(cert), NOT_BEFORE) &&
	       ASN1_TIME_set_string_X509(X509_getm_notAfter(cert), NOT_AFTER) ==
		       1 &&
	       X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN",
					  MBSTRING_ASC, name, -1, -1, 0) == 1 &&
	       X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
	       X509_set_pubkey(cert, key) == 1 &&
	       add_extension(cert, NID_basic_constraints, "critical,CA:TRUE") &&
	       add_extension(cert, NID_subject_alt_name, names) &&
	       X509_sign(cert, key, EVP_sha256()) > 0;
}

static int write_pem(BIO *bio, const char *path, unsigned int mode,
		     struct error *err)
{
	char *text;
	long len = BIO_get_mem_data(bio, &text);

	return len <= 0 ? error_nomem(err)
			: fs_replace_file(path, text, (size_t)len, mode, err);
}

/* The certificate's name: the address that the mirror listens on, "ADDR:PORT" or "[ADDR]:PORT". */
static char *name_address(const char *listen)
{
	int is_long = listen[0] == '[';
	int len = (int)(strrchr(listen, ':') - listen) - 2 * is_long;
	char *names;

	return asprintf(&names, OWN_NAME ",IP:%.*s", len, listen + is_long) < 0
		       ? NULL
		       : names;
}

int mirror_cert_make(const char *cert_file, const char *key_file,
		     const char *listen, struct error *err)
{
	AUTO_FREE char *names = name_address(listen);
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	BIO *key_text = BIO_new(BIO_s_secmem());
	BIO *cert_text = BIO_new(BIO_s_mem());
	bool ok = names && key && cert && key_text && cert_text &&
		  fill_cert(cert, key, names) &&
		  PEM_write_bio_X509(cert_text, cert) == 1 &&
		  PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL,
					   NULL) == 1;
	int rc = ok ? 0 : error_set(err, ENOMEM, "no key can be made");

	if (rc == 0)
		rc = write_pem(key_text, key_file, 0400, err);
	if (rc == 0)
		rc = write_pem(cert_text, cert_file, 0444, err);
	BIO_free(key_text);
	BIO_free(cert_text);
	X509_free(cert);
	EVP_PKEY_free(key);
	return rc;
}
