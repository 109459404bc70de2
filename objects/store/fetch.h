// SPDX-License-Identifier: Apache-2.0
/*
 * Reads ranges of an object by several requests at once. Adjacent ranges are one request. A failed
 * request goes on where it stopped. A request much slower than the others gets a second one beside
 * it (a hedge), and the first to end is used.
 */
#ifndef BOOTSEER_OBJECTS_STORE_FETCH_H
#define BOOTSEER_OBJECTS_STORE_FETCH_H

#include "objects/store/retry.h"

/* An attempt at [pos, end) of an object. */
struct fetch_try {
	struct object *object;
	uint64_t pos; /* offset of the next byte; advanced by fetch_put() */
	uint64_t end; /* offset of the end */
	/* Use another server than the first request's, if possible. */
	bool is_hedge;
	int64_t until_ns; /* when the attempt must end */
	struct pace pace; /* stops the request when it is not wanted any more */
};

/* Deliver the next bytes of the attempt. -ECANCELED: they are not wanted; -EPROTO: more than
 * requested. */
int fetch_put(struct fetch_try *t, const void *data, size_t len,
	      struct error *err) MUST_CHECK;

/* Make one attempt; 0 only when pos has reached end. */
typedef int fetch_fn(struct fetch_try *t, struct retry_verdict *v,
		     struct error *err);

/* Durations of recent pieces, used to recognize slow ones. */
struct fetch_history;
int fetch_history_new(struct fetch_history **ret, struct error *err) MUST_CHECK;
void fetch_history_free(struct fetch_history *h);

/* Contract of object_read(); runs on the store's workers. */
int fetch_ranges(struct object *o, struct fetch_history *h, fetch_fn *fn,
		 const struct object_range *ranges, size_t n,
		 int64_t deadline_ns, struct error *err) MUST_CHECK;

#endif
