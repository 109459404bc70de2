// SPDX-License-Identifier: Apache-2.0
/*
 * The server's side of one gRPC connection, without I/O: takes bytes and gives calls, takes
 * replies and gives bytes. For one thread.
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
#define GRPC_STREAMS_MAX 128               /* open calls of a connection */

/* A method that a service offers. A table of these ends with path NULL. */
struct grpc_method {
	const char *path; /* "/package.Service/Method" */

	/*
	 * A call with a whole request came.  The callee owns `c` until it calls
	 * grpc_call_finish(), here or later.
	 */
	void (*start)(struct grpc_call *c, void *arg);
};

/* Methods and callbacks of a connection's owner. */
struct grpc_conn_ops {
	const struct grpc_method *methods;
	void *arg; /* for `start` */

	/* Called when new bytes can be sent; not from within grpc_conn_receive(). */
	void (*wake)(void *owner);

	/* Called with the deadline of a new call: the owner must call grpc_conn_expire() in
	 * `timeout_ns`. May be NULL. */
	void (*deadline)(void *owner, int64_t timeout_ns);
	/* Monotonic clock in nanoseconds. */
	int64_t (*clock)(void);
};

int grpc_conn_new(const struct grpc_conn_ops *ops, void *owner,
		  struct grpc_conn **ret, struct error *err) MUST_CHECK;

/* Free the connection. Calls that a service still has go on without it. */
void grpc_conn_free(struct grpc_conn *c);

/* Take bytes of the peer.  A failure means: close the connection. */
int grpc_conn_receive(struct grpc_conn *c, const uint8_t *data, size_t len,
		      struct error *err) MUST_CHECK;

/* Append up to about `max` bytes to send to the peer; nothing if none are waiting. */
int grpc_conn_send(struct grpc_conn *c, struct buf *out, size_t max,
		   struct error *err) MUST_CHECK;

/* False: both sides have ended, so close the connection. */
bool grpc_conn_is_alive(struct grpc_conn *c);

/* The peer causes answers but does not read them: read nothing more from it until it has. */
bool grpc_conn_is_behind(const struct grpc_conn *c);

/* Ask the peer to start no further calls here. */
void grpc_conn_drain(struct grpc_conn *c);

/* Answer expired calls with DEADLINE_EXCEEDED. Returns the time in nanoseconds until the
 * next deadline, or -1. */
int64_t grpc_conn_expire(struct grpc_conn *c);

/* ---- for the service ---- */

/* The request's message; borrowed, valid until grpc_call_finish(). */
const uint8_t *grpc_call_request(const struct grpc_call *c, size_t *ret_len);

/* Send a message of the reply. After a failure the service must still call
 * grpc_call_finish(). Does nothing when the call was cancelled. */
int grpc_call_send(struct grpc_call *c, const void *data,
		   size_t len) MUST_CHECK;

/* Was the call reset, its connection closed, or its deadline passed? Then nobody waits for
 * the answer. */
bool grpc_call_is_cancelled(const struct grpc_call *c);

/* Deadline of the call by the connection's clock; 0: none was given. */
int64_t grpc_call_deadline(const struct grpc_call *c);

/* Have `fn` called once, when all sent bytes were passed on or the connection is gone. */
void grpc_call_when_drained(struct grpc_call *c,
			    void (*fn)(struct grpc_call *c, void *arg),
			    void *arg);

/* End the call; `text` (may be NULL) tells people why it failed.  `c` must not
 * be used after this. */
void grpc_call_finish(struct grpc_call *c, enum grpc_status status,
		      const char *text);

#endif
