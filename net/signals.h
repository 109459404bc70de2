// SPDX-License-Identifier: Apache-2.0
/* The signals that daemons handle, on their loop. */
#ifndef BOOTSEER_NET_SIGNALS_H
#define BOOTSEER_NET_SIGNALS_H

#include "net/loop.h"

struct daemon_signals {
	void (*end)(void *arg, int signo); /* on SIGTERM or SIGINT; each time */
	void (*reload)(void *arg);         /* on SIGHUP; NULL: not handled */
	void *arg;
	struct loop_signal term, interrupt, hangup;
};

/* Block SIGHUP until daemon_signals_start(). A daemon that reloads calls this first in
 * main(): without a handler the signal would end it, and ignored, a reload would be lost. */
void daemon_signals_hold(void);
/* Handle the signals, and ignore SIGPIPE. On the main thread. */
int daemon_signals_start(struct daemon_signals *s, struct loop *l,
			 struct error *err) MUST_CHECK;
/* Stop before the loop is freed; allowed also when never started. */
void daemon_signals_stop(struct daemon_signals *s);

/* For a daemon without a loop: returns a signalfd for SIGTERM, SIGINT and SIGHUP, which are
 * blocked in this thread; SIGPIPE is ignored. */
int daemon_signals_fd(struct error *err) MUST_CHECK;

#endif
