// SPDX-License-Identifier: Apache-2.0
/*
 * Serves calls by HTTP on a Unix socket or over TCP: connections on the loop, answers on pools.
 * Paths below /v1/ are calls, made by POST; all other paths are read by GET.
 */
#ifndef BOOTSEER_NET_CONTROL_SERVER_H
#define BOOTSEER_NET_CONTROL_SERVER_H

#include <stdatomic.h>

#include "common/buf.h"
#include "net/httpd.h"
#include "net/loop.h"
#include "net/pool.h"

#define CONTROL_CONNECTIONS_MAX 512

#define CONTROL_LANE_MAX 256 /* bytes of a lane's name, NUL included */

struct lanes;
struct control_server;

/* Kinds of calls, by what they may wait for. Each kind has its own threads, so that none
 * keeps the others from being answered. */
enum control_kind {
	CONTROL_QUICK, /* this machine's disk */
	/* work that was begun before, other processes, or other calls for the same thing */
	CONTROL_WAITS,
	CONTROL_REMOTE, /* the network */
	CONTROL_KINDS,
};

/* A call that is being answered. */
struct control_call {
	const char *path; /* "/v1/node.status" */
	const char *body;
	size_t len;                    /* bytes of the body */
	const struct httpd_peer *peer; /* NULL over TCP */
	int64_t arrived_ns;
	/* the peer disconnected: nobody will read the answer */
	atomic_bool is_gone;
	/* kind of the thread that runs it; CONTROL_QUICK at first */
	enum control_kind kind;
	/* lane to wait in after CONTROL_LATER; "": none */
	char lane[CONTROL_LANE_MAX];
	/* set with CONTROL_LATER and no lane: run the call even if the peer disconnects */
	bool goes_on;
	const char *type; /* content type of the answer; JSON at first */
};

/* Result of answer(): nothing was done yet; call it again on a thread of the kind in
 * call->kind, once call->lane has room. */
#define CONTROL_LATER 1

struct control_server_config {
	const char *name; /* in the log */
	/* path of a Unix socket, copied, for root; NULL: use `listen` */
	const char *path;
	const char *listen; /* "ADDR:PORT" */
	/* how users choose another address: "choose another --run", or the option that gave
	 * `listen` */
	const char *option;
	struct loop *loop; /* borrowed */
	/* Borrowed; only the first is needed if answer() never returns CONTROL_LATER. */
	struct pool *pools[CONTROL_KINDS];
	struct lanes *lanes; /* borrowed; for calls with a lane */
	/* Write the message for users when a lane is full; needed with `lanes`. */
	void (*lane_is_full)(const char *lane, char *ret, size_t size);
	size_t body_max; /* bytes of a call's body */
	/* Set: everybody may connect to the Unix socket, with short time limits: see
	 * httpd_config. */
	uint64_t (*group)(const struct httpd_peer *peer);
	/* Answer, on a thread of a pool: an HTTP status, CONTROL_LATER, or -errno when
	 * there is no memory for an answer. */
	int (*answer)(void *arg, struct control_call *call, struct buf *reply);
	void *arg;
};

/* Listen. Replaces a socket on which no process listens any more; -EADDRINUSE when one does.
 * All functions must be called on the loop's thread. */
int control_server_new(const struct control_server_config *cfg,
		       struct control_server **ret,
		       struct error *err) MUST_CHECK;

/* The port it listens on. */
unsigned int control_server_port(const struct control_server *s);

/* Take no more connections and calls. */
void control_server_stop(struct control_server *s);

/* Call it after the pools were freed and the loop has run the calls that they posted. */
void control_server_free(struct control_server *s);

/* ---- answers ---- */

/* Write a failed answer, as JSON; returns the HTTP status for its errno. */
int control_fail(const struct error *why, struct buf *reply);

/* Answer GET /metrics with the metrics that `text` appends, in Prometheus format; all other
 * paths are not found. */
int control_figures(struct control_call *call,
		    int (*text)(void *arg, struct buf *ret), void *arg,
		    struct buf *reply);

#endif
