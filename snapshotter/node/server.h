// SPDX-License-Identifier: Apache-2.0
/* The control socket: connections on the loop, calls on the pool. */
#ifndef BOOTSEER_NODE_SERVER_H
#define BOOTSEER_NODE_SERVER_H

#include "common/buf.h"
#include "common/loop.h"
#include "common/pool.h"

#define SERVER_CONNECTIONS_MAX 128
#define SERVER_CALLS_MAX 32 /* threads of the pool it is meant to run on */

struct server;

/* Who says a line. */
struct server_peer {
	int pid;
	int pidfd; /* of the same process, whatever its number becomes; -1 on
		    * kernels before 6.5 */
};

struct server_config {
	const char *path;  /* copied */
	struct loop *loop; /* borrowed */
	struct pool *pool; /* borrowed */
	size_t line_max;   /* bytes of a request */
	/* Everybody may connect, say one line, and has to hurry; else only
	 * root may, and stay. */
	bool everybody;
	/* Answer a line; on a thread of the pool. */
	int (*answer)(void *arg, const struct server_peer *peer,
		      const char *line, size_t len, struct buf *reply);
	void *arg;
};

/* Listen.  A socket that nobody listens on any more is replaced; -EADDRINUSE
 * when somebody does.  All functions: on the loop's thread. */
int server_new(const struct server_config *cfg, struct server **ret,
	       struct error *err) MUST_CHECK;

/* Take no more connections and calls. */
void server_stop(struct server *s);

/* After the pool was freed and the loop has run what it posted. */
void server_free(struct server *s);

#endif
