// SPDX-License-Identifier: Apache-2.0
/*
 * The second step from a reference to an image: may an artifact of it be used here, and which?
 * This step is for an image that the node does not have; an image on the node needs
 * admission_recheck() alone.
 */
#ifndef BOOTSEER_NODE_ADMIT_H
#define BOOTSEER_NODE_ADMIT_H

#include "snapshotter/node/control/resolve.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/trust/admission.h"

/* A resolved image that the node does not have; all borrowed. */
struct admit_request {
	const struct image_name *name;
	const struct resolved *resolved;
	struct oci_store *store; /* the image's repository */
	struct admission *admission;
	struct offers *offers; /* NULL: the service has no indexes for us */
};

struct admitted {
	struct artifact artifact;
	int64_t decided_ns; /* when the registry's artifacts were judged */
	/* True: the artifact is an index of the service, in the file `offer`, because the
	 * registry has no usable artifact; registry_rc and registry_err say why. */
	bool is_offer;
	struct offer_found offer;
	int registry_rc;
	struct error registry_err;
};

/* Find a usable artifact: in the repository, else at the service.  -ENOENT, -ADMISSION_REFUSED:
 * there is none, so the image is to start the ordinary way; `why` is set then. */
int admit_artifact(const struct admit_request *r, struct admitted *ret,
		   enum admission_reason *why, struct error *err) MUST_CHECK;
/* The artifact whose files are to be fetched; borrowed. */
struct artifact *admitted_artifact(struct admitted *a);
void admitted_fini(struct admitted *a); /* zeroed is allowed */

#endif
