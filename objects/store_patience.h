// SPDX-License-Identifier: Apache-2.0
/*
 * How long a store is waited for that makes no progress, as whoever opens it is told by an
 * option, and a line for people who wait.
 */
#ifndef BOOTSEER_OBJECTS_STORE_PATIENCE_H
#define BOOTSEER_OBJECTS_STORE_PATIENCE_H

#include "common/option.h"
#include "objects/store.h"

/* A row of common/option.h; the member is int64_t nanoseconds. */
#define STORE_TIMEOUT_OPTION(offset_, default_) \
	{ \
		.key = "store-timeout", .type = OPTION_DURATION, \
		.def = default_, .min = "100ms", .max = "1h", \
		.offset = offset_, \
		.help = "A store that makes no progress for so long has failed." \
	}

/* Time-out of programs that move checkpoints: longer than a name node or a load balancer
 * is replaced. */
#define STORE_TIMEOUT_CKPT "60s"

/* Have it fail after `timeout_ns` without progress, whatever it does meanwhile: take no
 * connection, or take one and say nothing. */
void object_store_set_timeout(struct object_store_config *cfg,
			      int64_t timeout_ns);

/* `line` says which store does not answer, and how long it is waited for; no newline.
 * Called on a thread of the store's, which does nothing else. */
typedef void object_store_say_fn(void *arg, const char *line);

/* Call `say` when the store has answered none of the calls under way for half of its
 * timeout, but 5 s at most; once, until one is answered, or others begin.  Nothing is said of
 * a directory, nor of less than a second.  Call it once, before others have the store. */
int object_store_watch(struct object_store *s, object_store_say_fn *say,
		       void *arg, struct error *err) MUST_CHECK;

/* True while a caller waits for a server that has not been heard for 3 s or more: `*ret_ns` is for
 * how long, `*ret_why` why the last attempt failed, or that there is no answer. */
bool object_store_is_away(struct object_store *s, int64_t *ret_ns,
			  struct error *ret_why);

#endif
