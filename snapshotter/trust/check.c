// SPDX-License-Identifier: Apache-2.0
/* trust_check(): what every kind of signature has in common. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "snapshotter/trust/trust_priv.h"

void trust_short(const struct digest *d, char ret[TRUST_SHORT_MAX])
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	(void)snprintf(ret, TRUST_SHORT_MAX, "%.19s", text);
}

void trust_time_format(int64_t at_s, char ret[TRUST_TIME_MAX])
{
	time_t at = (time_t)at_s;
	struct tm tm;

	if (!gmtime_r(&at, &tm) ||
	    strftime(ret, TRUST_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		(void)snprintf(ret, TRUST_TIME_MAX, "the end of time");
}

void trust_key_who(const struct trust_key *k, char ret[TRUST_WHO_MAX])
{
	char id[TRUST_SHORT_MAX];

	trust_short(verify_key_id(k->key), id);
	if (k->name[0])
		(void)snprintf(ret, TRUST_WHO_MAX, "'%s' (%s)", k->name, id);
	else
		(void)snprintf(ret, TRUST_WHO_MAX, "key %s", id);
}

int trust_key_check(const struct trust_key *k, enum trust_claim claim,
		    int64_t now_s, const struct trust_revoked *revoked,
		    struct error *err)
{
	unsigned int use = claim == TRUST_CLAIM_VERIFIED ? TRUST_USE_VERIFY
							 : TRUST_USE_SIGN;
	char who[TRUST_WHO_MAX], at[TRUST_TIME_MAX];

	trust_key_who(k, who);
	if (revoked && revoked->has(revoked->arg, verify_key_id(k->key)))
		return error_set(err, EKEYREVOKED,
				 "it was signed with a key that was revoked, "
				 "%s: sign it with another one",
				 who);
	if (k->not_after_s && now_s >= k->not_after_s) {
		trust_time_format(k->not_after_s, at);
		return error_set(err, EKEYEXPIRED,
				 "it was signed with a key that ended at %s, "
				 "%s: sign it with another one",
				 at, who);
	}
	if (!(k->uses & use))
		return error_set(
			err, EPERM,
			"it was signed with a key whose 'uses' have no "
			"'%s', %s",
			claim == TRUST_CLAIM_VERIFIED ? "verify" : "sign", who);
	return 0;
}

int trust_check(const struct trust_keys *keys, const struct trust_query *q,
		const void *sig, size_t len, int64_t now_s,
		const struct trust_revoked *revoked, struct trust_result *ret,
		struct error *err)
{
	if (len > TRUST_SIGNATURE_MAX)
		return error_set(err, EBADMSG, "signature: bad length");
	if (trust_is_cosign(sig, len))
		return cosign_check(keys, q, sig, len, now_s, revoked, ret,
				    err);
	return statement_check(keys, q, sig, len, now_s, revoked, ret, err);
}
