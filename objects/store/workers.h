// SPDX-License-Identifier: Apache-2.0
/* The threads of a store on which requests run beside one another. */
#ifndef BOOTSEER_OBJECTS_STORE_WORKERS_H
#define BOOTSEER_OBJECTS_STORE_WORKERS_H

#include <stdbool.h>

#include "common/error.h"

struct workers;

/* The submitter embeds and keeps it until `run` has been called. */
struct worker_job {
	void (*run)(struct worker_job *j);
	struct worker_job *next; /* the workers' */
};

/* Threads are started as they are wanted, `max` at most; they take no signals. */
int workers_new(unsigned int max, struct workers **ret,
		struct error *err) MUST_CHECK;
/* Waits until every job has run. */
void workers_free(struct workers *w);
/* Callers bound what they submit.  Fails only where no thread can be started and
 * none is there. */
int workers_submit(struct workers *w, struct worker_job *j, bool first,
		   struct error *err) MUST_CHECK;

#endif
