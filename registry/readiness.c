// SPDX-License-Identifier: Apache-2.0
#include "registry/readiness.h"

#include <errno.h>

void readiness_init(struct readiness *r)
{
	*r = (struct readiness){ .is_known = false };
	(void)pthread_mutex_init(&r->lock, NULL);
}

void readiness_fini(struct readiness *r)
{
	(void)pthread_mutex_destroy(&r->lock);
}

/* Return the last answer while another thread asks the database. Called with the lock held. */
static int return_last_answer(const struct readiness *r, int64_t now_ns,
			      struct error *err)
{
	if (!r->is_known || now_ns - r->asked_ns > READINESS_LATE_NS)
		return error_set(err, EBUSY,
				 "the database was asked and has not answered "
				 "yet");
	if (r->rc < 0)
		*err = r->err;
	return r->rc;
}

int readiness_ask(struct readiness *r, int64_t now_ns, readiness_ping *ping,
		  void *arg, struct error *err)
{
	int rc;

	(void)pthread_mutex_lock(&r->lock);
	if (r->is_asking) {
		rc = return_last_answer(r, now_ns, err);
		(void)pthread_mutex_unlock(&r->lock);
		return rc;
	}
	r->is_asking = true;
	r->asked_ns = now_ns;
	(void)pthread_mutex_unlock(&r->lock);
	rc = ping(arg, err);
	(void)pthread_mutex_lock(&r->lock);
	r->is_asking = false;
	r->is_known = true;
	r->rc = rc;
	r->err = *err;
	(void)pthread_mutex_unlock(&r->lock);
	return rc;
}
