// SPDX-License-Identifier: Apache-2.0
/* Does the database answer?  Anybody may ask, without a token, and a database that hangs
 * lets each who asks it wait: so one asks at a time, and the others hear what it said
 * last. */
#ifndef BOOTSEER_REGISTRY_READINESS_H
#define BOOTSEER_REGISTRY_READINESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* An answer that takes longer is none, for those who do not wait for it. */
#define READINESS_LATE_NS INT64_C(1000000000)

struct readiness {
	pthread_mutex_t lock; /* protects the rest */
	bool is_asking, is_known;
	int64_t asked_ns; /* when who asks began to */
	int rc;           /* what was said last, once it is known */
	struct error err;
};

/* Waits for the database; 0: it answers. */
typedef int readiness_ping(void *arg, struct error *err);

void readiness_init(struct readiness *r);
void readiness_fini(struct readiness *r);

/* 0, or why not; -EBUSY: another asks since, and nothing is known.  Any thread. */
int readiness_ask(struct readiness *r, int64_t now_ns, readiness_ping *ping,
		  void *arg, struct error *err) MUST_CHECK;

#endif
