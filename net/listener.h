// SPDX-License-Identifier: Apache-2.0
/*
 * A listening socket on the loop.  At a shortage of descriptors or memory accepting pauses,
 * and connections wait in the kernel's queue (net/shortage.h).
 */
#ifndef BOOTSEER_NET_LISTENER_H
#define BOOTSEER_NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/error.h"
#include "net/loop.h"
#include "net/shortage.h"

/* Its owner embeds it, and sets the first members before listener_start(). */
struct listener {
	const char *name; /* of the socket, for the log: "control" */

	/* A connection came; takes `fd`, which does not block and is closed on
	 * exec.  May pause or stop the listener. */
	void (*accepted)(struct listener *l, int fd,
			 const struct sockaddr_storage *from);

	/* A Unix socket: connections of root and of our own user only. */
	bool is_private;

	/* The rest is the listener's; zeroed, it counts as stopped. */
	struct loop *loop; /* NULL: stopped */
	struct loop_watch watch;
	struct loop_timer again;
	struct accept_shortage shortage;
	int fd;
	bool is_paused; /* by its owner */
	bool is_short;  /* `again` runs */
};

/*
 * Accept on `fd`, which listens already and is made non-blocking.  Takes `fd`, also
 * on failure.  All functions that take a listener: on the loop's thread.
 */
int listener_start(struct listener *l, struct loop *loop, int fd,
		   struct error *err) MUST_CHECK;

/* Close the socket.  A listener that is stopped may be stopped again. */
void listener_stop(struct listener *l);

/* Leave connections in the kernel's queue, until listener_resume(). */
void listener_pause(struct listener *l);
void listener_resume(struct listener *l);

/* The port of a listener on TCP. */
unsigned int listener_port(const struct listener *l);

/* ---- sockets that listen ---- */

/*
 * Listen on an address of TCP.  A failure names `option` and `where`, what people
 * gave for it, and says what to do.
 */
int listener_open_tcp(const struct sockaddr_storage *addr, socklen_t len,
		      int backlog, const char *option, const char *where,
		      int *ret, struct error *err) MUST_CHECK;

/*
 * Listen on the socket `path`, which has `mode` from the moment that it is there,
 * and replaces one that nobody listens on any more.  Never waits for another
 * process.  `cure` says how to choose another path: "name another socket".
 *   -EADDRINUSE    a process serves it
 *   -EEXIST        something that is no socket has that name
 *   -ENAMETOOLONG  no socket can have it
 */
int listener_open_unix(const char *path, mode_t mode, int backlog,
		       const char *cure, int *ret,
		       struct error *err) MUST_CHECK;

#endif
