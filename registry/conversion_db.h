// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of pushed images that workers convert: docs/formats/registry-api.md, "Conversions". All
 * functions block: call them on pool threads only. Times are seconds since 1970, and passed in by
 * the caller.
 *
 * An owner is a registry's host with the first part of the repository. No owner or registry can
 * fill the queue for the others: each has a share, and workers get conversions from all in turn.
 */
#ifndef BOOTSEER_REGISTRY_CONVERSION_DB_H
#define BOOTSEER_REGISTRY_CONVERSION_DB_H

#include "common/buf.h"
#include "registry/db.h"

#define CONVERSIONS_MAX \
	10000 /* conversions that wait or run; as many finished ones are kept */
#define CONVERSION_LEASE_S 600 /* counted from the worker's last report */
#define CONVERSION_TRIES 5     /* after so many tries a conversion has failed */
/* pause after the first try; four times as long after each further one */
#define CONVERSION_BACK_OFF_S 60
#define CONVERSION_ERROR_MAX 1024 /* bytes of a worker's error message */
#define CONVERSION_KEEP_S 86400   /* how long finished conversions are kept */
#define CONVERSION_KEEP_FAILED_S 604800

enum conversion_state {
	CONVERSION_WAITING,
	CONVERSION_RUNNING,
	CONVERSION_DONE,
	CONVERSION_FAILED,
	CONVERSION_STATES,
};

/* An image to convert, and the state of its conversion; texts are borrowed. */
struct conversion {
	int64_t id;
	const char *repo; /* HOST/REPOSITORY */
	const char *image, *tag, *form;
	enum conversion_state state;
	int64_t tries;  /* tries that began, the running one included */
	int64_t queued; /* when it was pushed */
	/* Waiting: the next try begins no earlier. Running: the lease ends. Otherwise: when it
	 * finished. */
	int64_t due;
	const char *worker, *error;
};

/* Queue an image; in all, `most` conversions may wait or run. Returns 1: queued. 0: the image waits
 * or runs already, or was converted to this form. -EDQUOT: this owner's or registry's share of the
 * queue is used up. */
int conversion_db_put(struct db *db, const struct conversion *c, int64_t now,
		      int64_t most, struct error *err) MUST_CHECK;

/* The worker that calls, to take a conversion or report on it. */
struct conversion_worker {
	const char *name;
	const char *prefix; /* take only images of repositories below it */
	const char *token_prefix;
	int64_t now;
	int64_t hourly; /* conversions of one owner that may begin in an hour */
};

/* Take a conversion that is due, of the registry and owner that were served least recently. Returns
 * 1, after calling `each`, or 0: none is due. */
int conversion_db_take(struct db *db, const struct conversion_worker *w,
		       void (*each)(void *arg, const struct conversion *c),
		       void *arg, struct error *err) MUST_CHECK;

enum conversion_said {
	CONVERSION_SAID_RUNNING,
	CONVERSION_SAID_DONE,
	CONVERSION_SAID_RETRY, /* it failed; another try may succeed */
	CONVERSION_SAID_FAILED,
};

/* Store what the worker reports on try number `tries` of `id`. Returns 0: another worker has it
 * now, or it is finished; otherwise 1 plus its new state. */
int conversion_db_say(struct db *db, const struct conversion_worker *w,
		      int64_t id, int64_t tries, enum conversion_said said,
		      const char *error, struct error *err) MUST_CHECK;

/* List the conversions that a token may see: first running, then failed, waiting, done; within each
 * state the latest first. */
int conversion_db_list(struct db *db, const char *token_prefix, int64_t limit,
		       int (*each)(void *arg, const struct conversion *c),
		       void *arg, struct error *err) MUST_CHECK;

struct conversion_counts {
	int64_t n[CONVERSION_STATES];
	/* when the oldest waiting conversion became due; 0: none waits */
	int64_t due_since;
};
int conversion_db_count(struct db *db, const char *token_prefix, int64_t now,
			struct conversion_counts *ret,
			struct error *err) MUST_CHECK;

/* Delete finished conversions, and those that no worker took since `before`. A conversion whose
 * workers stopped reporting too often is set to failed; returns how many were. */
int conversion_db_sweep(struct db *db, int64_t before, int64_t now,
			struct error *err) MUST_CHECK;

#endif
