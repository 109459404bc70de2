// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges of an object by several requests at a time.  What is adjacent is one
 * request; a request that fails goes on where it was; one that is much slower than
 * the others gets a second one beside it (a hedge), and the first to end wins.
 */
#ifndef BOOTSEER_OBJECTS_STORE_FETCH_H
#define BOOTSEER_OBJECTS_STORE_FETCH_H

#include "objects/store/retry.h"

/* An attempt at [pos, end) of an object. */
struct fetch_try {
	struct object *object;
	uint64_t pos;  /* of the next byte; moved by fetch_put() */
	uint64_t end;  /* of the last */
	bool is_hedge; /* ask another server than the first one, if there are */
	int64_t until_ns; /* when the attempt has to end */
	struct pace pace; /* stops the request when it is not wanted any more */
};

/* The next bytes of the attempt.  -ECANCELED: they are not wanted; -EPROTO: they are
 * more than was asked for. */
int fetch_put(struct fetch_try *t, const void *data, size_t len,
	      struct error *err) MUST_CHECK;

/* Make one attempt; 0 only when pos has reached end. */
typedef int fetch_fn(struct fetch_try *t, struct retry_verdict *v,
		     struct error *err);

/* Durations of the last pieces, by which a slow one is known. */
struct fetch_history;
int fetch_history_new(struct fetch_history **ret, struct error *err) MUST_CHECK;
void fetch_history_free(struct fetch_history *h);

/* Contract of object_read(); runs on the store's workers. */
int fetch_ranges(struct object *o, struct fetch_history *h, fetch_fn *fn,
		 const struct object_range *ranges, size_t n,
		 int64_t deadline_ns, struct error *err) MUST_CHECK;

#endif
