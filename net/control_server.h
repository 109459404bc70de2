// SPDX-License-Identifier: Apache-2.0
/* The control socket: connections on the loop, calls on the pool. */
#ifndef BOOTSEER_NET_CONTROL_SERVER_H
#define BOOTSEER_NET_CONTROL_SERVER_H

#include <stdatomic.h>

#include "common/buf.h"
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

/* The process at the other end of a connection. */
struct control_peer {
	int pid;
	int pidfd; /* of the same process, whatever its number becomes; -1 on
		    * kernels before 6.5 */
};

/* A line at work. */
struct control_call {
	struct control_peer peer;
	int64_t arrived_ns;
	atomic_bool is_gone;    /* the peer left: nobody will hear the answer */
	enum control_kind kind; /* of the thread; CONTROL_QUICK at first */
	char lane[CONTROL_LANE_MAX]; /* see CONTROL_LATER; "": none */
	bool goes_on; /* set with CONTROL_LATER and no lane: also when the peer
	               * leaves */
};

/* From answer(): nothing was done; to be called again with another kind of thread,
 * which was put into call->kind, once call->lane has room. */
#define CONTROL_LATER 1

struct control_server_config {
	const char *path;  /* copied */
	const char *cure;  /* how to choose another: "choose another --run" */
	struct loop *loop; /* borrowed */
	/* Borrowed; only the first is needed where no answer is for later. */
	struct pool *pools[CONTROL_KINDS];
	struct lanes *lanes; /* borrowed; of what has a lane */
	/* Writes the message for people when a lane has no room left; with
	 * `lanes`. */
	void (*lane_is_full)(const char *lane, char *ret, size_t size);
	size_t line_max; /* bytes of a request */
	/* Everybody may connect, say one line, and has to hurry; else only
	 * root may, and stay.  The loop should be one of its own: see nudge.h. */
	bool everybody;
	/* Whom a peer belongs to, of whom none may have all places; with
	 * `everybody`. */
	uint64_t (*group)(const struct control_peer *peer);
	/* Answer a line; on a thread of a pool. */
	int (*answer)(void *arg, struct control_call *call, const char *line,
		      size_t len, struct buf *reply);
	void *arg;
};

/* Listen.  A socket that nobody listens on any more is replaced; -EADDRINUSE
 * when somebody does.  All functions: on the loop's thread. */
int control_server_new(const struct control_server_config *cfg,
		       struct control_server **ret,
		       struct error *err) MUST_CHECK;

/* Take no more connections and calls. */
void control_server_stop(struct control_server *s);

/* After the pools were freed and the loop has run what it posted. */
void control_server_free(struct control_server *s);

#endif
