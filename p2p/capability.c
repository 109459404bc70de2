// SPDX-License-Identifier: Apache-2.0
/* Capabilities: docs/formats/capability.md.  Ed25519 is OpenSSL's. */
#include "p2p/capability.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/fs.h"

#define MAGIC "BSCP"
#define VERSION 1
#define HEAD_SIZE 72u
#define SIGNATURE_SIZE 64u
#define KEY_SIZE 32u /* raw, public */
#define KEY_ID_SIZE 8u
#define PEM_FILE_MAX (64u << 10)

enum offset {
	AT_MAGIC = 0,
	AT_VERSION = 4,
	AT_NODE_LEN = 6,
	AT_RIGHTS = 8,
	AT_ZERO = 12,
	AT_KEY_ID = 16,
	AT_NOT_BEFORE = 24,
	AT_NOT_AFTER = 32,
	AT_IMAGE = 40,
	AT_NODE = HEAD_SIZE,
};

struct key {
	EVP_PKEY *pkey;
	uint8_t id[KEY_ID_SIZE];
};

struct capability_signer {
	struct key key;
};

struct capability_keys {
	struct key v[CAPABILITY_KEYS_MAX];
	size_t n;
};

static int ssl_fail(struct error *err, int code, const char *what)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return error_set(err, code, "%s: %s", what,
			 reason ? reason : "not usable");
}

/* Takes `pkey`, also on failure. */
static int key_init(struct key *k, EVP_PKEY *pkey, struct error *err)
{
	uint8_t raw[KEY_SIZE];
	size_t len = sizeof(raw);
	struct digest d;

	if (EVP_PKEY_get_base_id(pkey) != EVP_PKEY_ED25519 ||
	    EVP_PKEY_get_raw_public_key(pkey, raw, &len) != 1 ||
	    len != sizeof(raw)) {
		EVP_PKEY_free(pkey);
		ERR_clear_error();
		return error_set(err, EINVAL, "it is no Ed25519 key");
	}
	if (digest_of(raw, sizeof(raw), &d) < 0) {
		EVP_PKEY_free(pkey);
		return error_nomem(err);
	}
	memcpy(k->id, d.b, sizeof(k->id));
	k->pkey = pkey;
	return 0;
}

/* -------------------------------------------------------------------- private --- */

static int check_mode(const char *path, struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	if (st.st_mode & 077)
		return error_set(err, EACCES,
				 "'%s' is not its owner's alone: chmod 600",
				 path);
	return 0;
}

int capability_signer_load(const char *path, struct capability_signer **ret,
			   struct error *err)
{
	AUTO(capability_signer) s = calloc(1, sizeof(*s));
	AUTO_FCLOSE FILE *f = NULL;
	EVP_PKEY *pkey;
	int rc;

	if (!s)
		return error_nomem(err);
	rc = check_mode(path, err);
	if (rc < 0)
		return rc;
	f = fopen(path, "re");
	if (!f)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	pkey = PEM_read_PrivateKey(f, NULL, NULL, NULL);
	rc = pkey ? key_init(&s->key, pkey, err)
		  : ssl_fail(err, EINVAL, "private key (PEM)");
	if (rc < 0)
		return error_wrap(err, rc, "'%s'", path);
	*ret = steal_ptr(&s);
	return 0;
}

void capability_signer_free(struct capability_signer *s)
{
	if (!s)
		return;
	EVP_PKEY_free(s->key.pkey);
	free(s);
}

int capability_signer_public(const struct capability_signer *s, struct buf *ret,
			     struct error *err)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	long len;
	int rc = -ENOMEM;

	if (bio && PEM_write_bio_PUBKEY(bio, s->key.pkey) == 1) {
		len = BIO_get_mem_data(bio, &text);
		rc = buf_append(ret, text, (size_t)len);
	}
	BIO_free(bio);
	return rc < 0 ? error_nomem(err) : 0;
}

int capability_sign(const struct capability_signer *s,
		    const struct capability *c, uint8_t ret[CAPABILITY_MAX],
		    size_t *ret_len, struct error *err)
{
	size_t n = strnlen(c->node, sizeof(c->node)), len = SIGNATURE_SIZE;
	EVP_MD_CTX *ctx;
	bool ok;

	if (n < 1 || n > CAPABILITY_NODE_MAX || c->not_after <= c->not_before)
		return error_set(err, EINVAL,
				 "capability: no node, or no time");
	memset(ret, 0, HEAD_SIZE);
	memcpy(ret + AT_MAGIC, MAGIC, 4);
	put_le16(ret + AT_VERSION, VERSION);
	put_le16(ret + AT_NODE_LEN, (uint16_t)n);
	put_le32(ret + AT_RIGHTS, c->rights);
	memcpy(ret + AT_KEY_ID, s->key.id, KEY_ID_SIZE);
	put_le64(ret + AT_NOT_BEFORE, (uint64_t)c->not_before);
	put_le64(ret + AT_NOT_AFTER, (uint64_t)c->not_after);
	memcpy(ret + AT_IMAGE, c->image.b, DIGEST_SIZE);
	memcpy(ret + AT_NODE, c->node, n);
	ctx = EVP_MD_CTX_new();
	ok = ctx &&
	     EVP_DigestSignInit(ctx, NULL, NULL, NULL, s->key.pkey) == 1 &&
	     EVP_DigestSign(ctx, ret + AT_NODE + n, &len, ret, AT_NODE + n) ==
		     1 &&
	     len == SIGNATURE_SIZE;
	EVP_MD_CTX_free(ctx);
	if (!ok)
		return ssl_fail(err, EIO, "capability: signing");
	*ret_len = AT_NODE + n + SIGNATURE_SIZE;
	return 0;
}

/* --------------------------------------------------------------------- public --- */

static size_t count_keys(const char *pem, size_t len)
{
	static const char begin[] = "-----BEGIN ";
	const char *end = pem + len, *at = pem;
	size_t n = 0;

	while ((at = memmem(at, (size_t)(end - at), begin, strlen(begin)))) {
		at += strlen(begin);
		n++;
	}
	return n;
}

int capability_keys_parse(const char *pem, size_t len,
			  struct capability_keys **ret, struct error *err)
{
	AUTO(capability_keys) k = calloc(1, sizeof(*k));
	EVP_PKEY *pkey;
	BIO *bio;
	int rc = 0;

	if (len > PEM_FILE_MAX)
		return error_set(err, EFBIG, "public keys: too long");
	if (memmem(pem, len, " PRIVATE KEY-----", 17))
		return error_set(err, EINVAL,
				 "a private key, which only the one who signs "
				 "may have: the public half is made by openssl "
				 "pkey -pubout");
	bio = BIO_new_mem_buf(pem, (int)len);
	if (!k || !bio) {
		BIO_free(bio);
		return error_nomem(err);
	}
	while (rc == 0 && (pkey = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL))) {
		if (k->n == CAPABILITY_KEYS_MAX) {
			EVP_PKEY_free(pkey);
			rc = error_set(err, E2BIG, "more than %u public keys",
				       CAPABILITY_KEYS_MAX);
		} else {
			rc = key_init(&k->v[k->n], pkey, err);
			k->n += rc == 0;
		}
	}
	/* OpenSSL tells the end of the text as it tells a bad key. */
	if (rc == 0 && k->n != count_keys(pem, len))
		rc = error_set(err, EINVAL,
			       "what is in it are not all public keys, as PEM: "
			       "openssl pkey -pubout makes one of the key that "
			       "signs");
	ERR_clear_error();
	BIO_free(bio);
	if (rc == 0 && k->n == 0)
		rc = error_set(err, EINVAL,
			       "no public key is in it, as PEM: openssl pkey "
			       "-pubout makes one of the key that signs");
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&k);
	return 0;
}

int capability_keys_load(const char *path, struct capability_keys **ret,
			 struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(path, PEM_FILE_MAX, &text, err);

	if (rc == 0)
		rc = capability_keys_parse(text.data ? text.data : "", text.len,
					   ret, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

void capability_keys_free(struct capability_keys *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->n; i++)
		EVP_PKEY_free(k->v[i].pkey);
	free(k);
}

/* ------------------------------------------------------------------- checking --- */

int capability_decode(const void *data, size_t len, struct capability *ret,
		      struct error *err)
{
	const uint8_t *p = data;
	size_t n;

	if (len == 0)
		return error_set(
			err, EBADMSG,
			"it showed no capability: it has no "
			"--p2p-capability-keys, or was given none (its "
			"log says why)");
	if (len < HEAD_SIZE || memcmp(p, MAGIC, 4) != 0)
		return error_set(err, EBADMSG, "it is no capability");
	if (get_le16(p + AT_VERSION) != VERSION)
		return error_set(err, EBADMSG, "capability of version %u",
				 get_le16(p + AT_VERSION));
	n = get_le16(p + AT_NODE_LEN);
	if (n < 1 || n > CAPABILITY_NODE_MAX ||
	    len != HEAD_SIZE + n + SIGNATURE_SIZE ||
	    get_le32(p + AT_ZERO) != 0 || memchr(p + AT_NODE, 0, n))
		return error_set(err, EBADMSG, "capability: bad length");
	*ret = (struct capability){
		.not_before = (int64_t)get_le64(p + AT_NOT_BEFORE),
		.not_after = (int64_t)get_le64(p + AT_NOT_AFTER),
		.rights = get_le32(p + AT_RIGHTS),
	};
	memcpy(ret->image.b, p + AT_IMAGE, DIGEST_SIZE);
	memcpy(ret->node, p + AT_NODE, n);
	return 0;
}

static const struct key *find_key(const struct capability_keys *k,
				  const uint8_t id[KEY_ID_SIZE])
{
	for (size_t i = 0; i < k->n; i++)
		if (memcmp(k->v[i].id, id, KEY_ID_SIZE) == 0)
			return &k->v[i];
	return NULL;
}

static int verify(const struct key *k, const uint8_t *p, size_t len,
		  struct error *err)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = len - SIGNATURE_SIZE;
	int rc = -ENOMEM;

	if (ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k->pkey) == 1)
		rc = EVP_DigestVerify(ctx, p + n, SIGNATURE_SIZE, p, n) == 1
			     ? 0
			     : -EBADMSG;
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	if (rc == -ENOMEM)
		return error_nomem(err);
	return rc < 0 ? error_set(err, EBADMSG, "capability: it was changed")
		      : 0;
}

int capability_check(const struct capability_keys *k, const void *data,
		     size_t len, const struct digest *image, const char *node,
		     int64_t now_s, struct capability *ret, struct error *err)
{
	const struct key *key;
	struct capability c;
	int rc = capability_decode(data, len, &c, err);

	if (rc < 0)
		return rc;
	key = find_key(k, (const uint8_t *)data + AT_KEY_ID);
	if (!key)
		return error_set(err, EACCES,
				 "capability: signed by a key that "
				 "--p2p-capability-keys has not");
	rc = verify(key, data, len, err);
	if (rc < 0)
		return rc;
	if (!digest_equal(&c.image, image))
		return error_set(err, EACCES, "capability: of another image");
	if (strcmp(c.node, node) != 0)
		return error_set(err, EACCES, "capability: of node '%s'",
				 c.node);
	if (!(c.rights & CAPABILITY_PULL))
		return error_set(err, EACCES, "capability: not to pull");
	if (now_s < c.not_before)
		return error_set(err, EACCES,
				 "capability: not yet, by %" PRId64 " s",
				 c.not_before - now_s);
	if (now_s >= c.not_after)
		return error_set(err, EACCES,
				 "capability: over since %" PRId64 " s",
				 now_s - c.not_after);
	*ret = c;
	return 0;
}
