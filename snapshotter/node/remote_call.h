// SPDX-License-Identifier: Apache-2.0
/*
 * A piece of work that waits, most often for registries, on somebody's behalf, and what ends it
 * early: its deadline, that nobody waits for it any more, the end of bootseerd.
 */
#ifndef BOOTSEER_NODE_REMOTE_CALL_H
#define BOOTSEER_NODE_REMOTE_CALL_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pace.h"

struct remote_call {
	struct pace pace; /* of its requests */
	const atomic_bool *is_ending;
	const atomic_bool *is_gone; /* NULL: somebody waits until the end */
	atomic_int_least64_t
		deadline_ns; /* CLOCK_MONOTONIC; 0: none (any more) */
	int64_t timeout_ns;  /* which led to it, for messages */
	bool is_local;       /* it may wait, but not for a registry */
};

/* The flags are borrowed; `begun_ns` is when the deadline began to run. */
void remote_call_init(struct remote_call *c, const atomic_bool *is_ending,
		      const atomic_bool *is_gone, int64_t begun_ns,
		      int64_t timeout_ns);

/* From here on only the rate of transfers is bounded. */
void remote_call_no_deadline(struct remote_call *c);

/*
 * Say why work for `host` ended with `rc`: -ECANCELED becomes -ETIMEDOUT where the
 * deadline is over.  Every other `rc` is returned as it is.
 */
int remote_call_why(const struct remote_call *c, const char *host, int rc,
		    struct error *err);

#endif
