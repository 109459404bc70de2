// SPDX-License-Identifier: Apache-2.0
/* The signals that daemons obey, on their loop. */
#ifndef BOOTSEER_NET_SIGNALS_H
#define BOOTSEER_NET_SIGNALS_H

#include "net/loop.h"

struct daemon_signals {
	void (*end)(void *arg, int signo); /* SIGTERM, SIGINT; each time */
	void (*reload)(void *arg);         /* SIGHUP; NULL: it is not watched */
	void *arg;
	struct loop_signal term, interrupt, hangup;
};

/* Keep SIGHUP waiting until daemon_signals_start().  A daemon that reloads calls this first in
 * main(): a process without a handler is ended by the signal, and one that ignores it loses a
 * reload. */
void daemon_signals_hold(void);
/* Watch them, and ignore SIGPIPE.  The main thread's. */
int daemon_signals_start(struct daemon_signals *s, struct loop *l,
			 struct error *err) MUST_CHECK;
/* Before the loop goes; also when it never started. */
void daemon_signals_stop(struct daemon_signals *s);

/* For a daemon without a loop: a descriptor of SIGTERM, SIGINT and SIGHUP, which are blocked for
 * this thread; SIGPIPE is ignored. */
int daemon_signals_fd(struct error *err) MUST_CHECK;

#endif
