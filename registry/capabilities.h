// SPDX-License-Identifier: Apache-2.0
/* Capabilities to have an image from peers: asks the image's registry, and signs. */
#ifndef BOOTSEER_REGISTRY_CAPABILITIES_H
#define BOOTSEER_REGISTRY_CAPABILITIES_H

#include "registry/config.h"

#define CAPABILITY_REQUEST_MAX (16u << 10) /* bytes of JSON */
#define REVOCATIONS_MAX 10000 /* p2p/rights/revoked.h: nodes take no more */

/* Key, and a client for the registries; any thread. */
struct issuer;
/* Reads the keys; without --capability-key it is there, and signs nothing. */
int issuer_new(const struct registry_config *cfg, struct issuer **ret,
	       struct error *err) MUST_CHECK;
void issuer_free(struct issuer *i);
/* The key files as they are now; a failure changes nothing. */
int issuer_reload(struct issuer *i, struct error *err) MUST_CHECK;

struct call;
/* An image, and what it would be pulled with; `repo` is HOST/REPOSITORY. */
struct issuer_pull {
	const char *image, *repo;
	const char *authorization; /* header of the registry; "": none */
};
/* Does its registry let it be pulled so?  Asks those of --registry only, and refuses the call
 * else, as it does when the answer is no. */
int issuer_check_pull(struct call *c, const struct issuer_pull *p,
		      struct error *err) MUST_CHECK;

struct issuer_stats {
	uint64_t granted_total, denied_total, failed_total;
};
void issuer_get_stats(const struct issuer *i, struct issuer_stats *ret);

#endif
