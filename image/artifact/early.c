// SPDX-License-Identifier: Apache-2.0
/* Fetches the list of an image's referrers before the image's manifest has arrived. */
#include "common/thread.h"
#include "image/artifact/artifact.h"

struct artifact_early {
	struct oci_store *store;
	struct digest image;
	bool is_guess;
	struct thread thread;
	int rc;
	struct error err;
	struct oci_referrers list;
};

static void *early_main(void *arg)
{
	struct artifact_early *e = arg;
	const struct oci_referrers_query q = {
		.subject = &e->image,
		.artifact_type = ARTIFACT_TYPE,
		.is_guess = e->is_guess,
	};

	e->rc = oci_list_noted(e->store, &q, &e->list, &e->err);
	return NULL;
}

struct artifact_early *artifact_early_begin(struct oci_store *store,
					    const struct digest *image,
					    bool is_guess)
{
	AUTO_FREE struct artifact_early *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->store = store;
	e->image = *image;
	e->is_guess = is_guess;
	return thread_start(&e->thread, early_main, e, NULL) < 0
		       ? NULL
		       : steal_ptr(&e);
}

bool artifact_early_is_of(const struct artifact_early *e,
			  const struct digest *image)
{
	return e && digest_equal(&e->image, image);
}

int artifact_early_take(struct artifact_early *e, struct oci_referrers *ret,
			struct error *err)
{
	thread_join(&e->thread);
	if (e->rc < 0 && err)
		*err = e->err;
	if (e->rc < 0)
		return e->rc;
	*ret = e->list;
	e->list = (struct oci_referrers){ .n = 0 };
	return 0;
}

void artifact_early_free(struct artifact_early *e)
{
	if (!e)
		return;
	thread_join(&e->thread);
	oci_referrers_fini(&e->list);
	free(e);
}
