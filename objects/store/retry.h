// SPDX-License-Identifier: Apache-2.0
/* Attempts with a budget: what fails in passing is tried again until no progress has
 * been made for the store's retry_ms. */
#ifndef BOOTSEER_OBJECTS_STORE_RETRY_H
#define BOOTSEER_OBJECTS_STORE_RETRY_H

#include "common/pace.h"
#include "objects/store/backend.h"

/* The verdict on an attempt that failed. */
struct retry_verdict {
	bool can_retry;
	uint64_t after_ms;       /* the server's wish; 0: none */
	bool at_once;            /* another server is asked next */
	unsigned int most_tries; /* without progress; 0: as time allows */
};

struct retry_budget {
	struct object_store *store;
	struct pace *pace;   /* NULL: it is always wanted */
	int64_t give_up_ns;  /* without progress */
	int64_t deadline_ns; /* with it; 0: none */
	unsigned int n;      /* failed attempts since the last progress */
};

void retry_init(struct retry_budget *r, struct object_store *s,
		int64_t deadline_ns);
/* The attempt that failed had got on: the budget is whole again. */
void retry_progress(struct retry_budget *r);
/* Until when an attempt that begins now may take. */
int64_t retry_until(const struct retry_budget *r);
/* Wait before the next attempt, since the last failed for `why` (may be NULL).  false:
 * there is to be none. */
bool retry_again(struct retry_budget *r, const struct retry_verdict *v,
		 const struct error *why);

#endif
