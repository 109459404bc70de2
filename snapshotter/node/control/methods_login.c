// SPDX-License-Identifier: Apache-2.0
/* login.show: what bootseer-snapshotter saw a pod's pull carry. */
#include <errno.h>

#include "snapshotter/node/control/methods.h"
#include "snapshotter/node/images/kept_logins.h"
#include "snapshotter/node/node.h"

json_t *method_login(struct node *n, json_t *params, struct error *err)
{
	struct oci_login login = { .host = NULL };
	struct oci_ref ref = { .repo = NULL };
	const char *image;
	int rc = params_unpack(params, err, "{s:s, s:s, s?s, s?s, s?s}",
			       "image", &image, "namespace", &login.shown_by,
			       "user", &login.user, "password", &login.password,
			       "identity_token", &login.identity_token);

	if (rc == 0)
		rc = oci_ref_parse(image, &ref, err);
	if (rc == 0 && ref.transport != OCI_TRANSPORT_REGISTRY)
		rc = error_set(err, EINVAL, "'%.120s' is in no registry",
			       image);
	if (rc == 0) {
		login.host = ref.host;
		login.repo = ref.repo;
		rc = kept_logins_show(n->logins, &login, err);
	}
	oci_ref_fini(&ref);
	return rc < 0 ? NULL : json_object();
}
