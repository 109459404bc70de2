// SPDX-License-Identifier: Apache-2.0
/* Checks whether the database answers. Any client may ask, without a token, and each check waits
 * for a database that hangs. So one thread asks at a time, and the others return its last
 * answer. */
#ifndef BOOTSEER_REGISTRY_READINESS_H
#define BOOTSEER_REGISTRY_READINESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* If the running check takes longer, other threads report that the database does not answer. */
#define READINESS_LATE_NS INT64_C(1000000000)

struct readiness {
	pthread_mutex_t lock; /* protects the other members */
	bool is_asking, is_known;
	int64_t asked_ns; /* when the running or last check began */
	int rc;           /* result of the last check; valid if is_known */
	struct error err;
};

/* Ask the database, and wait for it. 0: it answers. */
typedef int readiness_ping(void *arg, struct error *err);

void readiness_init(struct readiness *r);
void readiness_fini(struct readiness *r);

/* Returns 0 or the database's error; -EBUSY: another thread's check is running, and there is no
 * recent result. Any thread. */
int readiness_ask(struct readiness *r, int64_t now_ns, readiness_ping *ping,
		  void *arg, struct error *err) MUST_CHECK;

#endif
