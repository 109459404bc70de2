// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/admit.h"

#include <errno.h>

#include "common/clock.h"

/* Judges each artifact that the registry has for the image by the rules of admission.c. */
struct admit_judge {
	struct artifact_judge judge;
	const struct admit_request *request;
	enum admission_reason *why;
};

static int admit_judge_accept(struct artifact_judge *judge,
			      struct oci_store *store,
			      const struct digest *artifact,
			      const struct digest *subject,
			      struct buf *evidence, struct error *err)
{
	const struct admit_judge *j =
		container_of(judge, struct admit_judge, judge);
	const struct oci_ref *ref = &j->request->name->ref;
	const struct admission_query q = { .host = ref->host,
					   .repo = ref->repo,
					   .artifact = artifact,
					   .subject = subject,
					   .why = j->why };

	return admission_judge(j->request->admission, &q, store, evidence, err);
}

/* The registry has no usable artifact, for the reason a->registry_rc: look for an index at the
 * service.  If the service has none either, the node may build one itself. */
static int find_offer(const struct admit_request *r, struct admitted *a)
{
	const struct offer_query query = {
		.host = r->name->ref.host,
		.repo = r->name->ref.repo,
		.plain_http = r->name->plain_http,
		.image = &r->resolved->manifest,
		.store = r->store,
		.pace = &r->name->call->pace,
	};
	struct error why = ERROR_INIT;
	int rc = offers_find(r->offers, &query, &a->offer, &why);

	if (rc < 0)
		offers_note(r->offers, &query, rc);
	return rc;
}

int admit_artifact(const struct admit_request *r, struct admitted *ret,
		   enum admission_reason *why, struct error *err)
{
	struct admit_judge judge = {
		.judge = { .accept = admit_judge_accept },
		.request = r,
		.why = why,
	};
	struct admitted a = { .is_offer = false };
	int rc;

	*why = ADMISSION_UNKNOWN;
	rc = artifact_find_of(r->store, &r->resolved->manifest, &judge.judge,
			      r->resolved->early, &a.artifact, err);
	a.decided_ns = clock_now_ns();
	if (rc == -ENOENT || rc == -ADMISSION_REFUSED) {
		a.registry_rc = rc;
		a.registry_err = *err;
		a.is_offer = r->offers && find_offer(r, &a) == 0;
	}
	*ret = a;
	return a.is_offer ? 0 : rc;
}

struct artifact *admitted_artifact(struct admitted *a)
{
	return a->is_offer ? &a->offer.artifact : &a->artifact;
}

void admitted_fini(struct admitted *a)
{
	artifact_fini(&a->artifact);
	offer_found_fini(&a->offer);
}
