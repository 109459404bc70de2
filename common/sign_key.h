// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of detached signatures, as PEM: Ed25519 (RFC 8032) to sign and to check,
 * ECDSA P-256 with SHA-256 to check only.  What is signed is the caller's matter.
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

/* Make one of random bytes. */
int sign_key_new(struct sign_key **ret, struct error *err) MUST_CHECK;
/* From a PEM file; -EACCES when others than its owner may read it. */
int sign_key_load(const char *path, struct sign_key **ret,
		  struct error *err) MUST_CHECK;
void sign_key_free(struct sign_key *k);
DEFINE_AUTO(sign_key)

int sign_key_sign(const struct sign_key *k, const void *data, size_t len,
		  uint8_t ret[SIGN_KEY_SIGNATURE],
		  struct error *err) MUST_CHECK;
/* The halves as PEM, appended. */
int sign_key_format(const struct sign_key *k, struct buf *ret,
		    struct error *err) MUST_CHECK;
int sign_key_format_public(const struct sign_key *k, struct buf *ret,
			   struct error *err) MUST_CHECK;
/* As verify_key_id() of its public half. */
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

/* -EBADMSG when it is not this key's signature of just these bytes. */
int verify_key_check(const struct verify_key *k, const void *data, size_t len,
		     const void *signature, size_t signature_len,
		     struct error *err) MUST_CHECK;
enum verify_key_kind verify_key_kind(const struct verify_key *k);
/* Its name: SHA-256 of the 32 raw bytes of an Ed25519 key, of the DER form
 * (SubjectPublicKeyInfo) of a P-256 key. */
const struct digest *verify_key_id(const struct verify_key *k);

#endif
