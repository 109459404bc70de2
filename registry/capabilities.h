// SPDX-License-Identifier: Apache-2.0
/* Issues capabilities, with which a node may get an image from its peers. Asks the image's registry
 * whether the node may pull the image, then signs. */
#ifndef BOOTSEER_REGISTRY_CAPABILITIES_H
#define BOOTSEER_REGISTRY_CAPABILITIES_H

#include "registry/config.h"

#define CAPABILITY_REQUEST_MAX (16u << 10) /* bytes of JSON */
#define REVOCATIONS_MAX 10000 /* p2p/rights/revoked.h: nodes take no more */

/* The signing key and the HTTP client for registries. Any thread may use it. */
struct issuer;
/* Read the keys. Without --capability-key the issuer is created as well, but signs nothing. */
int issuer_new(const struct registry_config *cfg, struct issuer **ret,
	       struct error *err) MUST_CHECK;
void issuer_free(struct issuer *i);
/* Read the key files again; after a failure the old keys stay in use. */
int issuer_reload(struct issuer *i, struct error *err) MUST_CHECK;

struct call;
/* An image, and the credentials to pull it with; `repo` is HOST/REPOSITORY. */
struct issuer_pull {
	const char *image, *repo;
	/* Authorization header for the registry; "": none */
	const char *authorization;
};
/* Ask the image's registry whether these credentials may pull it. Refuse the call if they may not,
 * or if the registry is not listed in --registry. */
int issuer_check_pull(struct call *c, const struct issuer_pull *p,
		      struct error *err) MUST_CHECK;

struct issuer_stats {
	uint64_t granted_total, denied_total, failed_total;
};
void issuer_get_stats(const struct issuer *i, struct issuer_stats *ret);

#endif
