// SPDX-License-Identifier: Apache-2.0
/*
 * A client of a control server: blocking, one call at a time. Only one thread may use a client.
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
 * How long to wait for a restarting server: for one that does not listen when a client is
 * opened, or that closes the connection during a call that may be repeated.
 */
struct control_patience {
	/* Called after each failed attempt to connect, with its reason `why`. Returns the ms
	 * for which to go on trying; 0 gives up. */
	uint32_t (*left_ms)(struct control_patience *p,
			    const struct error *why);
	/* Called when the server listens. */
	void (*is_there)(struct control_patience *p);
};

struct control_client_config {
	const char *path;
	const char *server;  /* kept; its name, for messages: "bootseerd" */
	uint32_t timeout_ms; /* limit of one call; 0: none */
	/* Borrowed until the client is closed; NULL: wait for `wait_ms` each time the server
	 * does not listen. */
	struct control_patience *patience;
	uint32_t wait_ms;
	/* May this call be sent twice? NULL: every call may. */
	bool (*is_repeatable)(const char *method);
};

/* -ENOENT or -ECONNREFUSED: the server does not run, and the message says so. -ETIMEDOUT: it
 * did not accept the connection within the limit of a call. */
int control_client_open(const struct control_client_config *cfg,
			struct control_client **ret,
			struct error *err) MUST_CHECK;
void control_client_close(struct control_client *c); /* NULL is allowed */

/* Have calls end with -ECANCELED soon after `*is_gone` became true; borrowed until the
 * client is closed. NULL: never. */
void control_client_heed(struct control_client *c, const atomic_bool *is_gone);

/* Make a call. `params`, borrowed, may be NULL; the caller owns `*ret`. Fails with the
 * server's error, or with one of the connection: -ETIMEDOUT, -ECONNRESET; later calls then get
 * -ENOTCONN. */
int control_client_call(struct control_client *c, const char *method,
			json_t *params, json_t **ret,
			struct error *err) MUST_CHECK;

/* Append the text at `path`, fetched by GET or, if it is a call, by a POST without
 * parameters. -EIO: the status is not 200; the message has the text too. */
int control_client_read(struct control_client *c, const char *path,
			bool is_call, struct buf *ret,
			struct error *err) MUST_CHECK;

#endif
