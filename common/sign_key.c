// SPDX-License-Identifier: Apache-2.0
/* Signing and verifying keys; OpenSSL does Ed25519, ECDSA and PEM. */
#include "common/sign_key.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

#define RAW_SIZE 32u /* bytes of a raw Ed25519 public key */

struct sign_key {
	EVP_PKEY *pkey;
	struct digest id;
};

struct verify_key {
	EVP_PKEY *pkey;
	enum verify_key_kind kind;
	struct digest id;
};

static int ssl_fail(struct error *err, int code, const char *what)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return error_set(err, code, "%s: %s", what,
			 reason ? reason : "not usable");
}

static int hash_ed25519_key(const EVP_PKEY *pkey, struct digest *ret,
			    struct error *err)
{
	uint8_t raw[RAW_SIZE];
	size_t len = sizeof(raw);

	if (EVP_PKEY_get_base_id(pkey) != EVP_PKEY_ED25519 ||
	    EVP_PKEY_get_raw_public_key(pkey, raw, &len) != 1 ||
	    len != sizeof(raw)) {
		ERR_clear_error();
		return error_set(err, EINVAL,
				 "it is no Ed25519 key: 'bootseer key new' and "
				 "'openssl genpkey -algorithm ed25519' make "
				 "such");
	}
	return digest_of(raw, sizeof(raw), ret) < 0 ? error_nomem(err) : 0;
}

/* -------------------------------------------------------------------- private --- */

/* Make a key object of `pkey`, which it then owns; freed also on failure. */
static int take_private(EVP_PKEY *pkey, struct sign_key **ret,
			struct error *err)
{
	AUTO(sign_key) k = calloc(1, sizeof(*k));
	int rc;

	if (!k) {
		EVP_PKEY_free(pkey);
		return error_nomem(err);
	}
	k->pkey = pkey;
	rc = hash_ed25519_key(pkey, &k->id, err);
	if (rc == 0)
		*ret = steal_ptr(&k);
	return rc;
}

int sign_key_new(struct sign_key **ret, struct error *err)
{
	EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

	if (!pkey)
		return ssl_fail(err, EIO, "make a key");
	return take_private(pkey, ret, err);
}

/* Check the open file, not the path, which could be replaced between check and read. */
static int check_mode(FILE *f, const char *path, struct error *err)
{
	struct stat st;

	if (fstat(fileno(f), &st) < 0)
		return error_set(err, errno, "%s", strerror(errno));
	if (S_ISDIR(st.st_mode))
		return error_set(err, EISDIR,
				 "it is a folder: name the file of the key");
	if (fs_foreign_mode(&st))
		return error_set(err, EACCES,
				 "it is not its owner's alone: chmod 600 '%s'",
				 path);
	return 0;
}

/* For a file of another kind OpenSSL would only say "no start line". */
static int refuse_private(struct error *err)
{
	ERR_clear_error();
	return error_set(err, EINVAL,
			 "it holds no private key (PEM, without a password): "
			 "'openssl genpkey -algorithm ed25519' makes one");
}

int sign_key_load(const char *path, struct sign_key **ret, struct error *err)
{
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	EVP_PKEY *pkey;
	int rc;

	if (!f)
		return error_errno(err, errno, "'%s'", path);
	rc = check_mode(f, path, err);
	if (rc < 0)
		return error_wrap(err, rc, "'%s'", path);
	pkey = PEM_read_PrivateKey(f, NULL, NULL, NULL);
	rc = pkey ? take_private(pkey, ret, err) : refuse_private(err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

void sign_key_free(struct sign_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->pkey);
	free(k);
}

int sign_key_sign(const struct sign_key *k, const void *data, size_t len,
		  uint8_t ret[SIGN_KEY_SIGNATURE], struct error *err)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = SIGN_KEY_SIGNATURE;
	bool ok = ctx &&
		  EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
		  EVP_DigestSign(ctx, ret, &n, data, len) == 1 &&
		  n == SIGN_KEY_SIGNATURE;

	EVP_MD_CTX_free(ctx);
	return ok ? 0 : ssl_fail(err, EIO, "signing");
}

/* Move the text of `bio` to `ret`, and free `bio`. */
static int take_bio_text(BIO *bio, bool ok, struct buf *ret, struct error *err)
{
	char *text;
	int rc = -ENOMEM;

	if (ok) {
		long len = BIO_get_mem_data(bio, &text);

		rc = buf_append(ret, text, (size_t)len);
	}
	BIO_free(bio);
	ERR_clear_error();
	return rc < 0 ? error_nomem(err) : 0;
}

int sign_key_format(const struct sign_key *k, struct buf *ret,
		    struct error *err)
{
	BIO *bio = BIO_new(BIO_s_mem());
	bool ok = bio && PEM_write_bio_PrivateKey(bio, k->pkey, NULL, NULL, 0,
						  NULL, NULL) == 1;

	return take_bio_text(bio, ok, ret, err);
}

int sign_key_format_public(const struct sign_key *k, struct buf *ret,
			   struct error *err)
{
	BIO *bio = BIO_new(BIO_s_mem());
	bool ok = bio && PEM_write_bio_PUBKEY(bio, k->pkey) == 1;

	return take_bio_text(bio, ok, ret, err);
}

const struct digest *sign_key_id(const struct sign_key *k)
{
	return &k->id;
}

/* --------------------------------------------------------------------- public --- */

static bool is_p256(const EVP_PKEY *pkey)
{
	char group[64];
	size_t len;

	return EVP_PKEY_get_base_id(pkey) == EVP_PKEY_EC &&
	       EVP_PKEY_get_group_name(pkey, group, sizeof(group), &len) == 1 &&
	       strcmp(group, "prime256v1") == 0;
}

static int hash_key_der(const EVP_PKEY *pkey, struct digest *ret,
			struct error *err)
{
	uint8_t *der = NULL;
	int len = i2d_PUBKEY(pkey, &der);
	int rc = len > 0 ? digest_of(der, (size_t)len, ret) : -ENOMEM;

	OPENSSL_free(der);
	return rc < 0 ? error_nomem(err) : 0;
}

static int set_public_key_id(struct verify_key *k, struct error *err)
{
	int rc;

	if (is_p256(k->pkey)) {
		k->kind = VERIFY_KEY_P256;
		return hash_key_der(k->pkey, &k->id, err);
	}
	k->kind = VERIFY_KEY_ED25519;
	rc = hash_ed25519_key(k->pkey, &k->id, err);
	return rc == -EINVAL
		       ? error_set(err, EINVAL,
				   "it is neither an Ed25519 key nor one of "
				   "ECDSA P-256")
		       : rc;
}

static int check_blocks(const char *pem, size_t len, struct error *err)
{
	static const char begin[] = "-----BEGIN ";
	const char *at = memmem(pem, len, begin, strlen(begin));

	if (memmem(pem, len, " PRIVATE KEY-----", 17))
		return error_set(err, EINVAL,
				 "a private key, which only the one who signs "
				 "may have: the public half is made by openssl "
				 "pkey -pubout");
	if (!at)
		return error_set(err, EINVAL,
				 "no public key is in it, as PEM: openssl pkey "
				 "-pubout makes one of the key that signs");
	at += strlen(begin);
	if (memmem(at, len - (size_t)(at - pem), begin, strlen(begin)))
		return error_set(err, EINVAL, "it is more than one key");
	return 0;
}

int verify_key_parse(const char *pem, size_t len, struct verify_key **ret,
		     struct error *err)
{
	AUTO(verify_key) k = calloc(1, sizeof(*k));
	BIO *bio;
	int rc;

	if (len > SIGN_KEY_FILE_MAX)
		return error_set(err, EFBIG, "public key: too long");
	rc = check_blocks(pem, len, err);
	if (rc < 0)
		return rc;
	bio = BIO_new_mem_buf(pem, (int)len);
	if (!k || !bio) {
		BIO_free(bio);
		return error_nomem(err);
	}
	k->pkey = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
	BIO_free(bio);
	ERR_clear_error();
	if (!k->pkey)
		return error_set(err, EINVAL,
				 "what is in it is no public key, as PEM: "
				 "openssl pkey -pubout makes one of the key "
				 "that signs");
	rc = set_public_key_id(k, err);
	if (rc == 0)
		*ret = steal_ptr(&k);
	return rc;
}

void verify_key_free(struct verify_key *k)
{
	if (!k)
		return;
	EVP_PKEY_free(k->pkey);
	free(k);
}

int verify_key_check(const struct verify_key *k, const void *data, size_t len,
		     const void *signature, size_t signature_len,
		     struct error *err)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const EVP_MD *md = k->kind == VERIFY_KEY_P256 ? EVP_sha256() : NULL;
	int rc = -ENOMEM;

	if (ctx && EVP_DigestVerifyInit(ctx, NULL, md, NULL, k->pkey) == 1)
		rc = EVP_DigestVerify(ctx, signature, signature_len, data,
				      len) == 1
			     ? 0
			     : -EBADMSG;
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	if (rc == -ENOMEM)
		return error_nomem(err);
	return rc < 0 ? error_set(err, EBADMSG, "it was changed") : 0;
}

enum verify_key_kind verify_key_kind(const struct verify_key *k)
{
	return k->kind;
}

const struct digest *verify_key_id(const struct verify_key *k)
{
	return &k->id;
}
