// SPDX-License-Identifier: Apache-2.0
#include "net/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "common/cleanup.h"

static void on_term(struct loop_signal *s, int signo)
{
	struct daemon_signals *d = container_of(s, struct daemon_signals, term);

	d->end(d->arg, signo);
}

static void on_interrupt(struct loop_signal *s, int signo)
{
	struct daemon_signals *d =
		container_of(s, struct daemon_signals, interrupt);

	d->end(d->arg, signo);
}

static void on_hangup(struct loop_signal *s, int signo)
{
	struct daemon_signals *d =
		container_of(s, struct daemon_signals, hangup);

	(void)signo;
	d->reload(d->arg);
}

static void mask_hangup(int how)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(how, &set, NULL);
}

void daemon_signals_hold(void)
{
	mask_hangup(SIG_BLOCK);
}

int daemon_signals_start(struct daemon_signals *s, struct loop *l,
			 struct error *err)
{
	int rc;

	(void)signal(SIGPIPE, SIG_IGN);
	s->term.fn = on_term;
	s->interrupt.fn = on_interrupt;
	s->hangup.fn = on_hangup;
	rc = loop_signal_start(l, &s->term, SIGTERM, err);
	if (rc == 0)
		rc = loop_signal_start(l, &s->interrupt, SIGINT, err);
	if (rc == 0 && s->reload)
		rc = loop_signal_start(l, &s->hangup, SIGHUP, err);
	if (rc == 0 && s->reload)
		mask_hangup(SIG_UNBLOCK);
	return rc;
}

void daemon_signals_stop(struct daemon_signals *s)
{
	loop_signal_stop(&s->term);
	loop_signal_stop(&s->interrupt);
	loop_signal_stop(&s->hangup);
}

int daemon_signals_fd(struct error *err)
{
	sigset_t set;
	int fd;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? error_errno(err, errno, "signalfd") : fd;
}
