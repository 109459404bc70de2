// SPDX-License-Identifier: Apache-2.0
/* Private functions shared by the files of this folder. */
#ifndef BOOTSEER_SNAPSHOTTER_TRUST_PRIV_H
#define BOOTSEER_SNAPSHOTTER_TRUST_PRIV_H

#include "snapshotter/trust.h"

/* Check a statement as trust_check(). `data` is one by its first bytes. */
int statement_check(const struct trust_keys *keys, const struct trust_query *q,
		    const void *data, size_t len, int64_t now_s,
		    const struct trust_revoked *revoked,
		    struct trust_result *ret, struct error *err) MUST_CHECK;

/* Check a cosign signature that trust_wrap_cosign() packed. */
int cosign_check(const struct trust_keys *keys, const struct trust_query *q,
		 const void *data, size_t len, int64_t now_s,
		 const struct trust_revoked *revoked, struct trust_result *ret,
		 struct error *err) MUST_CHECK;

/* May the key be used for the claim now, and was it not revoked? */
int trust_key_check(const struct trust_key *k, enum trust_claim claim,
		    int64_t now_s, const struct trust_revoked *revoked,
		    struct error *err) MUST_CHECK;

/* The key in a message: its name, or the begin of its id. */
#define TRUST_WHO_MAX (TRUST_NAME_MAX + 40)
void trust_key_who(const struct trust_key *k, char ret[TRUST_WHO_MAX]);

/* Format the begin of a digest: "sha256:0123456789ab". */
#define TRUST_SHORT_MAX 20
void trust_short(const struct digest *d, char ret[TRUST_SHORT_MAX]);

/* Normalise "index.docker.io/app" as trust_repository() does; false: it is no repository name. */
bool trust_normalise(const char *text, char ret[TRUST_PATTERN_MAX + 1]);

#endif
