// SPDX-License-Identifier: Apache-2.0
/*
 * The server's end of one gRPC connection, without I/O: bytes in, calls out,
 * replies in, bytes out.  One thread.
 */
#ifndef BOOTSEER_NET_GRPC_CONN_H
#define BOOTSEER_NET_GRPC_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"
#include "net/grpc_wire.h"

struct grpc_conn;
struct grpc_call;

#define GRPC_REQUEST_MAX ((size_t)1 << 20) /* bytes of a request's message */
#define GRPC_STREAMS_MAX 128               /* calls under way a connection */

/* A method that a service offers. A table of these ends with path NULL. */
struct grpc_method {
	const char *path; /* "/package.Service/Method" */

	/*
	 * A call with a whole request came.  The callee owns `c` until it calls
	 * grpc_call_finish(), here or later.
	 */
	void (*start)(struct grpc_call *c, void *arg);
};

/* Callbacks and methods that a connection is given by its owner. */
struct grpc_conn_ops {
	const struct grpc_method *methods;
	void *arg; /* for `start` */

	/* There is something to send that was not there before.  Not called
	 * from within grpc_conn_receive(). */
	void (*wake)(void *owner);

	/* May be NULL.  The deadline of a call that came: the owner calls
	 * grpc_conn_expire() when `timeout_ns` from now is over. */
	void (*deadline)(void *owner, int64_t timeout_ns);
	/* Monotonic clock in nanoseconds. */
	int64_t (*clock)(void);
};

int grpc_conn_new(const struct grpc_conn_ops *ops, void *owner,
		  struct grpc_conn **ret, struct error *err) MUST_CHECK;

/* Calls that are still with their service go on without a connection. */
void grpc_conn_free(struct grpc_conn *c);

/* Take bytes of the peer.  A failure means: close the connection. */
int grpc_conn_receive(struct grpc_conn *c, const uint8_t *data, size_t len,
		      struct error *err) MUST_CHECK;

/* Append up to about `max` bytes for the peer; none when there is nothing. */
int grpc_conn_send(struct grpc_conn *c, struct buf *out, size_t max,
		   struct error *err) MUST_CHECK;

/* False: both ends are finished, close it. */
bool grpc_conn_is_alive(struct grpc_conn *c);

/* The peer makes us answer, and takes no answers: nothing more is to be read of it
 * until it has taken some. */
bool grpc_conn_is_behind(const struct grpc_conn *c);

/* Ask the peer to start no further calls here. */
void grpc_conn_drain(struct grpc_conn *c);

/* Answer calls whose deadline is over with DEADLINE_EXCEEDED.  Returns the time
 * until the next one in nanoseconds, or -1. */
int64_t grpc_conn_expire(struct grpc_conn *c);

/* ---- for the service ---- */

/* The request's message; borrowed, valid until grpc_call_finish(). */
const uint8_t *grpc_call_request(const struct grpc_call *c, size_t *ret_len);

/* Send a message of the reply.  A failure ends the call: the service goes on to
 * grpc_call_finish().  Does nothing when nobody listens any more. */
int grpc_call_send(struct grpc_call *c, const void *data,
		   size_t len) MUST_CHECK;

/* Nobody waits for the answer any more: reset, disconnected or expired. */
bool grpc_call_is_cancelled(const struct grpc_call *c);

/* When the peer waits no more, by the connection's clock; 0: it did not say. */
int64_t grpc_call_deadline(const struct grpc_call *c);

/* Call `fn` once: when the peer has taken what was sent, or is gone. */
void grpc_call_when_drained(struct grpc_call *c,
			    void (*fn)(struct grpc_call *c, void *arg),
			    void *arg);

/* End the call; `text` (may be NULL) tells people why it failed.  `c` must not
 * be used after this. */
void grpc_call_finish(struct grpc_call *c, enum grpc_status status,
		      const char *text);

#endif
