// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of images that were pushed and are to be converted, which workers take from:
 * docs/formats/registry-api.md, "Conversions".  It blocks: threads of the pool only.  Times are
 * seconds since 1970, and the caller's.
 *
 * An owner is a registry's host and the first part of the repository.  Neither owners nor
 * registries fill the queue for others, and workers take from all of them in turn.
 */
#ifndef BOOTSEER_REGISTRY_CONVERSION_DB_H
#define BOOTSEER_REGISTRY_CONVERSION_DB_H

#include "common/buf.h"
#include "registry/db.h"

#define CONVERSIONS_MAX \
	10000 /* that wait or run; as many are kept that are over */
#define CONVERSION_LEASE_S 600 /* from the last word of its worker on */
#define CONVERSION_TRIES 5     /* then it has failed */
#define CONVERSION_BACK_OFF_S \
	60 /* after the first try, four times that after each more */
#define CONVERSION_ERROR_MAX 1024 /* bytes of a worker's words */
#define CONVERSION_KEEP_S 86400   /* what is done */
#define CONVERSION_KEEP_FAILED_S 604800

enum conversion_state {
	CONVERSION_WAITING,
	CONVERSION_RUNNING,
	CONVERSION_DONE,
	CONVERSION_FAILED,
	CONVERSION_STATES,
};

/* An image to convert, and how it is with that; texts are borrowed. */
struct conversion {
	int64_t id;
	const char *repo; /* HOST/REPOSITORY */
	const char *image, *tag, *form;
	enum conversion_state state;
	int64_t tries;  /* that began */
	int64_t queued; /* when it was pushed */
	/* Waiting: not before; running: the lease's end; else when it was over. */
	int64_t due;
	const char *worker, *error;
};

/* Queue an image; `most` may wait or run in all.  1: it waits now.  0: it is known: it waits, runs,
 * or was done in this form.  -EDQUOT: the queue has no room for this owner or registry. */
int conversion_db_put(struct db *db, const struct conversion *c, int64_t now,
		      int64_t most, struct error *err) MUST_CHECK;

/* The caller that asks for work, or tells of it. */
struct conversion_worker {
	const char *name;
	const char *prefix; /* only of repositories below it */
	const char *token_prefix;
	int64_t now;
	int64_t hourly; /* conversions of one owner that begin in an hour */
};

/* Take a conversion that is due, of the registry and owner that were served least recently: 1,
 * and `each` is called, or 0. */
int conversion_db_take(struct db *db, const struct conversion_worker *w,
		       void (*each)(void *arg, const struct conversion *c),
		       void *arg, struct error *err) MUST_CHECK;

enum conversion_said {
	CONVERSION_SAID_RUNNING,
	CONVERSION_SAID_DONE,
	CONVERSION_SAID_RETRY, /* it failed, and may not the next time */
	CONVERSION_SAID_FAILED,
};

/* Note what the worker says of try number `tries` of `id`.  0: it is another's by now, or over;
 * else 1 more than the state it has now. */
int conversion_db_say(struct db *db, const struct conversion_worker *w,
		      int64_t id, int64_t tries, enum conversion_said said,
		      const char *error, struct error *err) MUST_CHECK;

/* Conversions that a token may see: running, failed, waiting, done; of each the last first. */
int conversion_db_list(struct db *db, const char *token_prefix, int64_t limit,
		       int (*each)(void *arg, const struct conversion *c),
		       void *arg, struct error *err) MUST_CHECK;

struct conversion_counts {
	int64_t n[CONVERSION_STATES];
	int64_t due_since; /* when the first that waits could have been taken; 0: none waits */
};
int conversion_db_count(struct db *db, const char *token_prefix, int64_t now,
			struct conversion_counts *ret,
			struct error *err) MUST_CHECK;

/* Forget what is over, and what nobody took since `before`; conversions whose worker fell silent
 * too often have failed: how many these are. */
int conversion_db_sweep(struct db *db, int64_t before, int64_t now,
			struct error *err) MUST_CHECK;

#endif
