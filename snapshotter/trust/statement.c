// SPDX-License-Identifier: Apache-2.0
/* Our own signatures: docs/formats/signature.md.  No I/O in here. */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "snapshotter/trust/trust_priv.h"

#define MAGIC "BSSG"
#define VERSION 1
#define HEAD_SIZE 128u

enum offset {
	AT_MAGIC = 0,
	AT_VERSION = 4,
	AT_CLAIM = 6,
	AT_REPOSITORY_LEN = 8,
	AT_ZERO = 10,
	AT_NOT_BEFORE = 16,
	AT_NOT_AFTER = 24,
	AT_KEY = 32,
	AT_ARTIFACT = 64,
	AT_SUBJECT = 96,
	AT_REPOSITORY = HEAD_SIZE,
};

/* Signed in front of the statement's bytes, so that a signature which the same key makes for
 * another purpose is not valid here. */
static const char domain[] = "bootseer image signature 1";

#define TO_SIGN_MAX (sizeof(domain) + HEAD_SIZE + TRUST_PATTERN_MAX)

/* Put the domain before head and pattern, which have `len` bytes together. */
static size_t domain_text(const uint8_t *data, size_t len,
			  uint8_t ret[TO_SIGN_MAX])
{
	memcpy(ret, domain, sizeof(domain));
	memcpy(ret + sizeof(domain), data, len);
	return sizeof(domain) + len;
}

const char *trust_claim_name(enum trust_claim c)
{
	return c == TRUST_CLAIM_VERIFIED ? "verified" : "signed";
}

int trust_sign(const struct sign_key *key, const struct trust_statement *s,
	       uint8_t ret[TRUST_SIGNATURE_MAX], size_t *ret_len,
	       struct error *err)
{
	size_t n = strnlen(s->repository, sizeof(s->repository));
	size_t len = AT_REPOSITORY + n;
	uint8_t text[TO_SIGN_MAX];
	int rc = trust_pattern_check(s->repository, err);

	if (rc < 0)
		return rc;
	if (s->claim != TRUST_CLAIM_SIGNED && s->claim != TRUST_CLAIM_VERIFIED)
		return error_set(err, EINVAL, "signature: no claim");
	if (s->not_before_s < 0 || s->not_after_s < 0 ||
	    (s->not_after_s && s->not_after_s <= s->not_before_s))
		return error_set(err, EINVAL,
				 "signature: it would end before it begins");
	memset(ret, 0, HEAD_SIZE);
	memcpy(ret + AT_MAGIC, MAGIC, 4);
	put_le16(ret + AT_VERSION, VERSION);
	put_le16(ret + AT_CLAIM, (uint16_t)s->claim);
	put_le16(ret + AT_REPOSITORY_LEN, (uint16_t)n);
	put_le64(ret + AT_NOT_BEFORE, (uint64_t)s->not_before_s);
	put_le64(ret + AT_NOT_AFTER, (uint64_t)s->not_after_s);
	memcpy(ret + AT_KEY, sign_key_id(key)->b, DIGEST_SIZE);
	memcpy(ret + AT_ARTIFACT, s->artifact.b, DIGEST_SIZE);
	memcpy(ret + AT_SUBJECT, s->subject.b, DIGEST_SIZE);
	memcpy(ret + AT_REPOSITORY, s->repository, n);
	rc = sign_key_sign(key, text, domain_text(ret, len, text), ret + len,
			   err);
	if (rc == 0)
		*ret_len = len + SIGN_KEY_SIGNATURE;
	return rc < 0 ? error_wrap(err, rc, "signature") : 0;
}

int trust_decode(const void *data, size_t len, struct trust_statement *ret,
		 struct error *err)
{
	struct trust_statement s = { .claim = 0 };
	const uint8_t *p = data;
	size_t n;

	if (len < HEAD_SIZE || memcmp(p, MAGIC, 4) != 0)
		return error_set(err, EBADMSG, "it is no signature");
	if (get_le16(p + AT_VERSION) != VERSION)
		return error_set(err, EBADMSG,
				 "signature of version %u: a newer BootSeer "
				 "made it",
				 get_le16(p + AT_VERSION));
	n = get_le16(p + AT_REPOSITORY_LEN);
	if (n < 1 || n > TRUST_PATTERN_MAX ||
	    len != HEAD_SIZE + n + SIGN_KEY_SIGNATURE)
		return error_set(err, EBADMSG, "signature: bad length");
	s.claim = get_le16(p + AT_CLAIM);
	s.not_before_s = (int64_t)get_le64(p + AT_NOT_BEFORE);
	s.not_after_s = (int64_t)get_le64(p + AT_NOT_AFTER);
	memcpy(s.repository, p + AT_REPOSITORY, n);
	if ((s.claim != TRUST_CLAIM_SIGNED &&
	     s.claim != TRUST_CLAIM_VERIFIED) ||
	    s.not_before_s < 0 || s.not_after_s < 0 ||
	    !bytes_are_zero(p + AT_ZERO, AT_NOT_BEFORE - AT_ZERO) ||
	    memchr(p + AT_REPOSITORY, 0, n) ||
	    trust_pattern_check(s.repository, NULL) < 0)
		return error_set(err, EBADMSG,
				 "signature: it says what none can say");
	memcpy(s.key.b, p + AT_KEY, DIGEST_SIZE);
	memcpy(s.artifact.b, p + AT_ARTIFACT, DIGEST_SIZE);
	memcpy(s.subject.b, p + AT_SUBJECT, DIGEST_SIZE);
	*ret = s;
	return 0;
}

static int check_time(const struct trust_statement *s, const char *who,
		      int64_t now_s, struct error *err)
{
	char at[TRUST_TIME_MAX];

	if (now_s < s->not_before_s) {
		trust_time_format(s->not_before_s, at);
		return error_set(err, EKEYREJECTED,
				 "the signature by %s is good from %s on: is "
				 "this machine's clock right?",
				 who, at);
	}
	if (s->not_after_s && now_s >= s->not_after_s) {
		trust_time_format(s->not_after_s, at);
		return error_set(err, EKEYEXPIRED,
				 "the signature by %s ended at %s: 'bootseer "
				 "image sign' makes a new one",
				 who, at);
	}
	return 0;
}

static int check_thing(const struct trust_statement *s, const char *who,
		       const struct trust_query *q, struct error *err)
{
	char text[TRUST_SHORT_MAX];

	if (!digest_equal(&s->artifact, q->artifact)) {
		trust_short(&s->artifact, text);
		return error_set(err, EKEYREJECTED,
				 "the signature by %s is of another artifact, "
				 "%s",
				 who, text);
	}
	if (!digest_equal(&s->subject, q->subject)) {
		trust_short(&s->subject, text);
		return error_set(err, EKEYREJECTED,
				 "the signature by %s is for another image, %s",
				 who, text);
	}
	if (!trust_pattern_matches(s->repository, q->repository))
		return error_set(err, EKEYREJECTED,
				 "the signature by %s is for repository "
				 "'%.80s', not '%.80s': 'bootseer image sign "
				 "--repository' makes one for it",
				 who, s->repository, q->repository);
	if (s->claim < q->claim)
		return error_set(
			err, EPERM,
			"it was signed by %s but not compared with the "
			"image's layers: 'bootseer image verify' does",
			who);
	return 0;
}

static const struct trust_key *find_key(const struct trust_keys *keys,
					const struct digest *id)
{
	for (size_t i = 0; i < keys->n; i++)
		if (digest_equal(verify_key_id(keys->v[i].key), id) &&
		    verify_key_kind(keys->v[i].key) == VERIFY_KEY_ED25519)
			return &keys->v[i];
	return NULL;
}

static int64_t earlier_end(int64_t a, int64_t b)
{
	if (a == 0 || b == 0)
		return a ? a : b;
	return a < b ? a : b;
}

int statement_check(const struct trust_keys *keys, const struct trust_query *q,
		    const void *data, size_t len, int64_t now_s,
		    const struct trust_revoked *revoked,
		    struct trust_result *ret, struct error *err)
{
	uint8_t text[TO_SIGN_MAX];
	char who[TRUST_WHO_MAX], id[TRUST_SHORT_MAX];
	const struct trust_key *k;
	const uint8_t *p = data;
	struct trust_statement s;
	int rc = trust_decode(data, len, &s, err);

	if (rc < 0)
		return rc;
	k = find_key(keys, &s.key);
	if (!k) {
		trust_short(&s.key, id);
		return error_set(err, ENOKEY,
				 "it was %s with key %s, which is not of the "
				 "trusted keys",
				 s.claim == TRUST_CLAIM_VERIFIED
					 ? "compared with the layers and signed"
					 : "signed",
				 id);
	}
	trust_key_who(k, who);
	len -= SIGN_KEY_SIGNATURE;
	rc = verify_key_check(k->key, text, domain_text(p, len, text), p + len,
			      SIGN_KEY_SIGNATURE, err);
	if (rc < 0)
		return error_wrap(err, rc, "the signature by %s", who);
	rc = trust_key_check(k, s.claim, now_s, revoked, err);
	if (rc == 0)
		rc = check_time(&s, who, now_s, err);
	if (rc == 0)
		rc = check_thing(&s, who, q, err);
	if (rc < 0)
		return rc;
	*ret = (struct trust_result){
		.claim = s.claim,
		.key = s.key,
		.not_after_s = earlier_end(s.not_after_s, k->not_after_s),
	};
	memcpy(ret->key_name, k->name, sizeof(ret->key_name));
	return 0;
}
