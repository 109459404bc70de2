// SPDX-License-Identifier: Apache-2.0
/*
 * A listening socket on the loop. When descriptors or memory are short, accepting pauses, and
 * connections wait in the kernel's queue (net/shortage.h).
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

/* The owner embeds it, and sets the first members before listener_start(). */
struct listener {
	const char *name; /* of the socket, for the log: "control" */

	/* A connection was accepted; takes `fd`, which is non-blocking and close-on-exec.
	 * May pause or stop the listener. */
	void (*accepted)(struct listener *l, int fd,
			 const struct sockaddr_storage *from);

	/* For a Unix socket: accept only root and this process's own user. */
	bool is_private;

	/* The rest is the listener's; zeroed, it counts as stopped. */
	struct loop *loop; /* NULL: stopped */
	struct loop_watch watch;
	struct loop_timer again;
	struct accept_shortage shortage;
	int fd;
	bool is_paused; /* paused by its owner */
	bool is_short;  /* paused for a shortage: `again` is running */
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
 * Open a listening TCP socket. The message of a failure names `option` and `where` (its value),
 * and gives advice.
 */
int listener_open_tcp(const struct sockaddr_storage *addr, socklen_t len,
		      int backlog, const char *option, const char *where,
		      int *ret, struct error *err) MUST_CHECK;

/*
 * Open a listening Unix socket at `path`, which has `mode` from its first moment, and replaces
 * one that no process listens on. Never waits for another process. `cure` is the advice to
 * choose another path: "name another socket".
 *
 *   -EADDRINUSE    a process serves it
 *
 *   -EEXIST       `path` exists and is no socket
 *
 *   -ENAMETOOLONG  the path is too long for a socket
 */
int listener_open_unix(const char *path, mode_t mode, int backlog,
		       const char *cure, int *ret,
		       struct error *err) MUST_CHECK;

#endif
