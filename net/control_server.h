// SPDX-License-Identifier: Apache-2.0
/*
 * Calls by HTTP, on a Unix socket or over TCP: connections on the loop, answers on pools.
 * Below /v1/ are calls, which are POSTs; all else is read, by GET.
 */
#ifndef BOOTSEER_NET_CONTROL_SERVER_H
#define BOOTSEER_NET_CONTROL_SERVER_H

#include <stdatomic.h>

#include "common/buf.h"
#include "net/httpd.h"
#include "net/loop.h"
#include "net/pool.h"

#define CONTROL_CONNECTIONS_MAX 512

#define CONTROL_LANE_MAX 256 /* bytes of its name, NUL included */

struct lanes;
struct control_server;

/* Kinds of calls by what they may wait for: each kind has threads of its own,
 * so that none keeps the others from being answered. */
enum control_kind {
	CONTROL_QUICK,  /* this machine's disk */
	CONTROL_WAITS,  /* what was begun already, other processes, others at
			 * work on the same thing */
	CONTROL_REMOTE, /* the network */
	CONTROL_KINDS,
};

/* A call at work. */
struct control_call {
	const char *path; /* "/v1/node.status" */
	const char *body;
	size_t len;                    /* bytes of the body */
	const struct httpd_peer *peer; /* NULL over TCP */
	int64_t arrived_ns;
	atomic_bool is_gone;    /* the peer left: nobody will hear the answer */
	enum control_kind kind; /* of the thread; CONTROL_QUICK at first */
	char lane[CONTROL_LANE_MAX]; /* see CONTROL_LATER; "": none */
	bool goes_on; /* set with CONTROL_LATER and no lane: also when the peer
	               * leaves */
	const char *type; /* of the answer; JSON at first */
};

/* From answer(): nothing was done; to be called again with another kind of thread,
 * which was put into call->kind, once call->lane has room. */
#define CONTROL_LATER 1

struct control_server_config {
	const char *name;   /* in the log */
	const char *path;   /* of a Unix socket, copied, for root; or */
	const char *listen; /* "ADDR:PORT" */
	const char *option; /* how to choose another: "choose another --run", or
	                     * the option that gave `listen` */
	struct loop *loop;  /* borrowed */
	/* Borrowed; only the first is needed where no answer is for later. */
	struct pool *pools[CONTROL_KINDS];
	struct lanes *lanes; /* borrowed; of what has a lane */
	/* Writes the message for people when a lane has no room left; with
	 * `lanes`. */
	void (*lane_is_full)(const char *lane, char *ret, size_t size);
	size_t body_max; /* bytes of a call's body */
	/* Everybody may connect to the Unix socket, and has to hurry: see
	 * httpd_config. */
	uint64_t (*group)(const struct httpd_peer *peer);
	/* Answer, on a thread of a pool: an HTTP status, CONTROL_LATER, or -errno when
	 * there is no memory for an answer. */
	int (*answer)(void *arg, struct control_call *call, struct buf *reply);
	void *arg;
};

/* Listen.  A socket that nobody listens on any more is replaced; -EADDRINUSE
 * when somebody does.  All functions: on the loop's thread. */
int control_server_new(const struct control_server_config *cfg,
		       struct control_server **ret,
		       struct error *err) MUST_CHECK;

/* The port it listens on. */
unsigned int control_server_port(const struct control_server *s);

/* Take no more connections and calls. */
void control_server_stop(struct control_server *s);

/* After the pools were freed and the loop has run what it posted. */
void control_server_free(struct control_server *s);

/* ---- answers ---- */

/* An answer that fails, as JSON, with the status of its errno. */
int control_fail(const struct error *why, struct buf *reply);

/* Answer GET /metrics, the figures that `text` appends, for Prometheus; nothing else is there. */
int control_figures(struct control_call *call,
		    int (*text)(void *arg, struct buf *ret), void *arg,
		    struct buf *reply);

#endif
