// SPDX-License-Identifier: Apache-2.0
/*
 * The other end of a control server: blocking, one call at a time.  A client belongs
 * to one thread.
 */
#ifndef BOOTSEER_NET_CONTROL_CLIENT_H
#define BOOTSEER_NET_CONTROL_CLIENT_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

struct control_client;

/*
 * How long a server that is being started again is waited for: one that does not
 * listen when a client is opened, or that closes the connection during a call which
 * may be made twice.
 */
struct control_patience {
	/* The server does not listen, for `why`. Returns for how many more ms
	 * to try; called again after each attempt, and 0 gives up. */
	uint32_t (*left_ms)(struct control_patience *p,
			    const struct error *why);
	/* The server listens. */
	void (*is_there)(struct control_patience *p);
};

struct control_client_config {
	const char *path;
	const char *server;  /* kept; its name, for messages: "bootseerd" */
	uint32_t timeout_ms; /* of one call; 0 is none */
	/* Borrowed until the client is closed; NULL: wait for `wait_ms` each time
	 * that it does not listen. */
	struct control_patience *patience;
	uint32_t wait_ms;
	/* May this call be made twice?  NULL: each may. */
	bool (*is_repeatable)(const char *method);
};

/* -ENOENT or -ECONNREFUSED: the server does not run, the message says so.
 * -ETIMEDOUT: it takes no connection, for as long as a call may last. */
int control_client_open(const struct control_client_config *cfg,
			struct control_client **ret,
			struct error *err) MUST_CHECK;
void control_client_close(struct control_client *c); /* NULL is allowed */

/* Calls end with -ECANCELED within a moment after `*is_gone` became true; borrowed
 * until the client is closed.  NULL: nobody leaves. */
void control_client_heed(struct control_client *c, const atomic_bool *is_gone);

/* `params`, borrowed, may be NULL; `*ret` is the caller's.  A failure is the
 * server's, or of the connection: -ETIMEDOUT, -ECONNRESET; then -ENOTCONN. */
int control_client_call(struct control_client *c, const char *method,
			json_t *params, json_t **ret,
			struct error *err) MUST_CHECK;

/* Append the text that is at `path`, got by GET, or, when it is a call, by a POST without
 * parameters.  -EIO: the status is not 200; the text is in the message, too. */
int control_client_read(struct control_client *c, const char *path,
			bool is_call, struct buf *ret,
			struct error *err) MUST_CHECK;

#endif
