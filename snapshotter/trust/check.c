// SPDX-License-Identifier: Apache-2.0
/* trust_check(): the checks that all kinds of signatures share. */
#include <errno.h>

#include "snapshotter/trust/trust_priv.h"

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
