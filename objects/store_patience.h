// SPDX-License-Identifier: Apache-2.0
/*
 * The option for how long to wait for a store without progress, and reports of a silent store.
 */
#ifndef BOOTSEER_OBJECTS_STORE_PATIENCE_H
#define BOOTSEER_OBJECTS_STORE_PATIENCE_H

#include "common/option.h"
#include "objects/store.h"

/* An option for common/option.h; the member is int64_t nanoseconds. */
#define STORE_TIMEOUT_OPTION(offset_, default_) \
	{ \
		.key = "store-timeout", .type = OPTION_DURATION, \
		.def = default_, .min = "100ms", .max = "1h", \
		.offset = offset_, \
		.help = "A store that makes no progress for so long has failed." \
	}

/* Timeout for programs that move checkpoints: longer than replacing a name node or a load
 * balancer takes. */
#define STORE_TIMEOUT_CKPT "60s"

/* Make calls fail after `timeout_ns` without progress, also if the store accepts no connection,
 * or accepts one and sends nothing. */
void object_store_set_timeout(struct object_store_config *cfg,
			      int64_t timeout_ns);

/* `line` names the silent store and the time it will be waited for; no newline. Called on a
 * thread of its own. */
typedef void object_store_say_fn(void *arg, const char *line);

/* Call `say` when the store has answered none of the running calls for half of its timeout, but
 * 5 s at most; once, until a call is answered or new ones begin. Never for a directory, nor for
 * waits under a second. Call before other threads use the store. */
int object_store_watch(struct object_store *s, object_store_say_fn *say,
		       void *arg, struct error *err) MUST_CHECK;

/* Does a caller wait for a server that was silent for 3 s or more? `*ret_ns`: for how long;
 * `*ret_why`: why the last attempt failed, or that there is no answer. */
bool object_store_is_away(struct object_store *s, int64_t *ret_ns,
			  struct error *ret_why);

#endif
