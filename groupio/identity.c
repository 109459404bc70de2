// SPDX-License-Identifier: Apache-2.0
#include "groupio/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fs.h"
#include "groupio/groupio.h"

/* The dates of certificates mean nothing: a certificate is useless once the process that
 * made it has ended, and the clocks of nodes may differ. So all are valid from 2020-01-01 to
 * the last possible date. */
#define NOT_BEFORE 1577836800
#define NOT_AFTER "99991231235959Z"
#define URI_PREFIX "URI:bootseer://node/"

/* ------------------------------------------------------------------ the secret --- */

static size_t trimmed_len(const struct buf *b)
{
	size_t n = b->len;

	while (n && (b->data[n - 1] == '\n' || b->data[n - 1] == '\r' ||
		     b->data[n - 1] == ' '))
		n--;
	return n;
}

int identity_read_secret(const char *path, struct digest *ret,
			 struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc = fs_check_private(path, NULL);
	size_t len;

	if (rc < 0)
		return error_set(err, -rc,
				 "the group's key '%s' is to be its owner's "
				 "alone: chmod 600 it",
				 path);
	rc = fs_read_file(path, GROUP_SECRET_MAX, &text, err);
	if (rc < 0)
		return error_wrap(err, rc, "the group's key");
	len = trimmed_len(&text);
	if (len < GROUP_SECRET_MIN)
		rc = error_set(err, EINVAL,
			       "the group's key '%s' has %zu bytes, of %u at "
			       "least: make one with 'openssl rand -hex 32'",
			       path, len, GROUP_SECRET_MIN);
	else if (digest_of(text.data, len, ret) < 0)
		rc = error_nomem(err);
	return rc;
}

int identity_derive(const struct digest *secret, const char *text,
		    struct digest *ret)
{
	return digest_hmac(secret->b, sizeof(secret->b), text, strlen(text),
			   ret);
}

/* ---------------------------------------------------------------- certificates --- */

static bool add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
	bool ok = ext && X509_add_ext(cert, ext, -1) == 1;

	X509_EXTENSION_free(ext);
	return ok;
}

static bool set_names(X509 *cert, const char *subject, const char *issuer)
{
	return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN",
					  MBSTRING_ASC,
					  (const unsigned char *)subject, -1,
					  -1, 0) == 1 &&
	       X509_NAME_add_entry_by_txt(X509_get_issuer_name(cert), "CN",
					  MBSTRING_ASC,
					  (const unsigned char *)issuer, -1, -1,
					  0) == 1;
}

/* Make a certificate without extensions and signature. */
static X509 *begin_cert(EVP_PKEY *key, const char *subject)
{
	X509 *cert = X509_new();
	uint64_t serial = 0;
	bool ok;

	if (!cert)
		return NULL;
	ok = RAND_bytes((unsigned char *)&serial, sizeof(serial)) == 1 &&
	     X509_set_version(cert, 2) == 1 &&
	     ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert),
				     serial >> 1 | 1) == 1 &&
	     ASN1_TIME_set(X509_getm_notBefore(cert), NOT_BEFORE) &&
	     ASN1_TIME_set_string_X509(X509_getm_notAfter(cert), NOT_AFTER) ==
		     1 &&
	     set_names(cert, subject, "bootseer group") &&
	     X509_set_pubkey(cert, key) == 1;
	if (ok)
		return cert;
	X509_free(cert);
	return NULL;
}

static X509 *make_authority(EVP_PKEY *key)
{
	X509 *cert = begin_cert(key, "bootseer group");

	if (cert &&
	    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE") &&
	    X509_sign(cert, key, NULL) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

static X509 *make_member(EVP_PKEY *key, EVP_PKEY *authority, const char *name,
			 const char *host)
{
	X509 *cert = begin_cert(key, "bootseer member");
	char uri[sizeof(URI_PREFIX) + 256 + 4 + 64];

	(void)snprintf(uri, sizeof(uri), URI_PREFIX "%s%s%s", name,
		       host ? ",IP:" : "", host ? host : "");
	if (cert &&
	    add_extension(cert, NID_ext_key_usage, "serverAuth,clientAuth") &&
	    add_extension(cert, NID_subject_alt_name, uri) &&
	    X509_sign(cert, authority, NULL) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

/* -------------------------------------------------------------------- the files --- */

static bool open_file(int *fd, char path[32], FILE **ret)
{
	int copy;

	*fd = memfd_create("bootseer-group", MFD_CLOEXEC);
	if (*fd < 0)
		return false;
	(void)snprintf(path, 32, "/proc/self/fd/%d", *fd);
	copy = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
	*ret = copy < 0 ? NULL : fdopen(copy, "w");
	if (!*ret && copy >= 0)
		(void)close(copy);
	/* Unbuffered, since a buffer would leave the key in memory that is freed. */
	return *ret && setvbuf(*ret, NULL, _IONBF, 0) == 0;
}

static bool write_cert(int *fd, char path[32], X509 *cert)
{
	FILE *f;
	bool ok;

	if (!open_file(fd, path, &f))
		return false;
	ok = PEM_write_X509(f, cert) == 1;
	return fclose(f) == 0 && ok;
}

static bool write_key(int *fd, char path[32], EVP_PKEY *key)
{
	FILE *f;
	bool ok;

	if (!open_file(fd, path, &f))
		return false;
	ok = PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1;
	return fclose(f) == 0 && ok;
}

int identity_make(const struct digest *secret, const char *name,
		  const char *host, struct identity_files *ret,
		  struct error *err)
{
	EVP_PKEY *authority = NULL, *key = NULL;
	X509 *ca = NULL, *cert = NULL;
	struct digest seed;
	bool ok =
		identity_derive(secret, "bootseer group authority", &seed) == 0;

	*ret = (struct identity_files){ .fds = { -1, -1, -1 } };
	if (ok)
		authority =
			EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL,
						     seed.b, sizeof(seed.b));
	OPENSSL_cleanse(&seed, sizeof(seed));
	key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	if (authority && key) {
		ca = make_authority(authority);
		cert = make_member(key, authority, name, host);
	}
	ok = ca && cert && write_cert(&ret->fds[0], ret->ca, ca) &&
	     write_cert(&ret->fds[1], ret->cert, cert) &&
	     write_key(&ret->fds[2], ret->key, key);
	X509_free(ca);
	X509_free(cert);
	EVP_PKEY_free(authority);
	EVP_PKEY_free(key);
	ERR_clear_error();
	if (ok)
		return 0;
	identity_close(ret);
	return error_set(err, EIO,
			 "no certificate for the group: out of memory, or this "
			 "OpenSSL has no Ed25519");
}

void identity_close(struct identity_files *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->fds); i++)
		fd_close(f->fds[i]);
}
