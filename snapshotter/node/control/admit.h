// SPDX-License-Identifier: Apache-2.0
/*
 * The second step from a reference to an image: may an artifact of it be used here, and
 * which?  Every question of the way to trust/admission.h is asked in admit.c.
 */
#ifndef BOOTSEER_NODE_ADMIT_H
#define BOOTSEER_NODE_ADMIT_H

#include "snapshotter/node/control/resolve.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/trust/admission.h"

/* May an image that is on the node be used now?  A signature or key that allowed it may
 * be over or revoked.  On success `ret_scope` says how far its snapshots may be shared: a
 * prefix of repositories that `a` owns. */
int admit_image(struct admission *a, const struct image *i,
		const char **ret_scope, struct error *err) MUST_CHECK;

/* Takes a use of an image, or NULL: `i` when it may be used, else NULL and why not.  The
 * use is put back then. */
struct image *admit_or_put(struct admission *a, struct image *i,
			   enum admission_reason *why,
			   struct error *err) MUST_CHECK;

/* A resolved image that the node does not have; all borrowed. */
struct admit_request {
	const struct image_name *name;
	const struct resolved *resolved;
	struct oci_store *store; /* its repository */
	struct admission *admission;
	struct offers *offers; /* NULL: the service is not asked */
};

struct admitted {
	struct artifact artifact;
	int64_t decided_ns; /* when the registry's artifacts were looked through */
	/* The artifact is an index that the service has, its file `offer`, since the
	 * registry has none that may be used: */
	bool is_offer;
	struct offer_found offer;
	int registry_rc;
	struct error registry_err;
};

/* Find the artifact that may be used: in the repository, else at the service.  -ENOENT,
 * -ADMISSION_REFUSED: none, so the image is to start the ordinary way; `why` is set
 * then. */
int admit_artifact(const struct admit_request *r, struct admitted *ret,
		   enum admission_reason *why, struct error *err) MUST_CHECK;
/* The artifact whose files are to be fetched; borrowed. */
struct artifact *admitted_artifact(struct admitted *a);
void admitted_fini(struct admitted *a); /* zeroed is allowed */

#endif
