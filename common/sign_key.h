// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of detached signatures, as PEM: Ed25519 (RFC 8032) signs and verifies; ECDSA P-256 with
 * SHA-256 only verifies.  The caller decides which bytes are signed.
 */
#ifndef BOOTSEER_COMMON_SIGN_KEY_H
#define BOOTSEER_COMMON_SIGN_KEY_H

#include "common/buf.h"
#include "common/digest.h"
#include "common/error.h"

#define SIGN_KEY_FILE_MAX (64u << 10) /* bytes of a file with keys */
#define SIGN_KEY_SIGNATURE 64u        /* bytes that sign_key_sign() makes */

/* The private half.  Any thread. */
struct sign_key;

/* Make a key of random bytes. */
int sign_key_new(struct sign_key **ret, struct error *err) MUST_CHECK;
/* Load a private key from a PEM file; -EACCES when others than its owner may read it. */
int sign_key_load(const char *path, struct sign_key **ret,
		  struct error *err) MUST_CHECK;
void sign_key_free(struct sign_key *k);
DEFINE_AUTO(sign_key)

int sign_key_sign(const struct sign_key *k, const void *data, size_t len,
		  uint8_t ret[SIGN_KEY_SIGNATURE],
		  struct error *err) MUST_CHECK;
/* Append the private key, or its public half, as PEM. */
int sign_key_format(const struct sign_key *k, struct buf *ret,
		    struct error *err) MUST_CHECK;
int sign_key_format_public(const struct sign_key *k, struct buf *ret,
			   struct error *err) MUST_CHECK;
/* verify_key_id() of the key's public half. */
const struct digest *sign_key_id(const struct sign_key *k);

enum verify_key_kind { VERIFY_KEY_ED25519, VERIFY_KEY_P256 };

/* The public half.  Any thread. */
struct verify_key;

/* Parse a single "PUBLIC KEY" block; a text with none or with more is refused.
 * -EINVAL says what the text is instead. */
int verify_key_parse(const char *pem, size_t len, struct verify_key **ret,
		     struct error *err) MUST_CHECK;
void verify_key_free(struct verify_key *k);
DEFINE_AUTO(verify_key)

/* Verify a signature: -EBADMSG when it is not this key's, or not for exactly these bytes. */
int verify_key_check(const struct verify_key *k, const void *data, size_t len,
		     const void *signature, size_t signature_len,
		     struct error *err) MUST_CHECK;
enum verify_key_kind verify_key_kind(const struct verify_key *k);
/* The key's identity: SHA-256 of the 32 raw bytes of an Ed25519 key, or of the DER form
 * (SubjectPublicKeyInfo) of a P-256 key. */
const struct digest *verify_key_id(const struct verify_key *k);

#endif
