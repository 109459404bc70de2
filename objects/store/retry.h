// SPDX-License-Identifier: Apache-2.0
/* Retries with a budget: a temporary failure is retried until there was no progress for the
 * store's retry_ms. */
#ifndef BOOTSEER_OBJECTS_STORE_RETRY_H
#define BOOTSEER_OBJECTS_STORE_RETRY_H

#include "common/pace.h"
#include "objects/store/backend.h"

/* How to go on after a failed attempt. */
struct retry_verdict {
	bool can_retry;
	uint64_t after_ms; /* wait that the server asked for; 0: none */
	/* Retry at once, as another server is next. */
	bool at_once;
	/* Attempts without progress; 0: no limit but time. */
	unsigned int most_tries;
};

struct retry_budget {
	struct object_store *store;
	struct pace *pace;   /* NULL: cannot be stopped */
	int64_t give_up_ns;  /* when to give up without progress */
	int64_t deadline_ns; /* when to give up in any case; 0: never */
	unsigned int n;      /* failed attempts since the last progress */
};

void retry_init(struct retry_budget *r, struct object_store *s,
		int64_t deadline_ns);
/* The attempt made progress: the budget starts anew. */
void retry_progress(struct retry_budget *r);
/* Latest end of an attempt that begins now. */
int64_t retry_until(const struct retry_budget *r);
/* Wait before the next attempt, after a failure for `why` (may be NULL). false: no further
 * attempt. */
bool retry_again(struct retry_budget *r, const struct retry_verdict *v,
		 const struct error *why);

#endif
