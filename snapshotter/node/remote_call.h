// SPDX-License-Identifier: Apache-2.0
/*
 * Work for a caller, which may wait for registries, and what ends it early: its deadline, the
 * caller's leaving, the end of bootseerd.
 */
#ifndef BOOTSEER_NODE_REMOTE_CALL_H
#define BOOTSEER_NODE_REMOTE_CALL_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pace.h"

struct remote_call {
	struct pace pace; /* the pace of its requests to registries */
	const atomic_bool *is_ending;
	/* the caller has left; NULL: the caller waits until the end */
	const atomic_bool *is_gone;
	atomic_int_least64_t
		deadline_ns; /* CLOCK_MONOTONIC; 0: no deadline (any more) */
	int64_t timeout_ns;  /* the deadline's length, for messages */
	bool is_local;       /* the work may wait, but not for a registry */
};

/* The flags are borrowed; `begun_ns` is when the deadline began to run. */
void remote_call_init(struct remote_call *c, const atomic_bool *is_ending,
		      const atomic_bool *is_gone, int64_t begun_ns,
		      int64_t timeout_ns);

/* Remove the deadline: from here on only slow transfers end the work. */
void remote_call_no_deadline(struct remote_call *c);

/*
 * Say why work for `host` ended with `rc`: -ECANCELED becomes -ETIMEDOUT where the
 * deadline is over.  Every other `rc` is returned as it is.
 */
int remote_call_why(const struct remote_call *c, const char *host, int rc,
		    struct error *err);

#endif
