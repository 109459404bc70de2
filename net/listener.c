// SPDX-License-Identifier: Apache-2.0
/* Accepts connections. Listening sockets are opened in listener_open.c. */
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

/* connections accepted in a row, before other events get their turn */
#define BATCH 64

static void listener_update(struct listener *l)
{
	unsigned int want = l->is_paused || l->is_short ? 0 : LOOP_READ;

	if (l->loop && loop_watch_set(&l->watch, want) < 0)
		log_error(l->name, "cannot accept any more");
}

static void on_retry_timer(struct loop_timer *t)
{
	struct listener *l = container_of(t, struct listener, again);

	l->is_short = false;
	listener_update(l);
}

/* Pause accepting: the connection stays in the queue, so the watch would fire again at once. */
static void wait_for_room(struct listener *l, int code)
{
	shortage_note(&l->shortage, l->name, code);
	l->is_short = loop_timer_start(l->loop, &l->again, SHORTAGE_PAUSE_NS,
				       NULL) == 0;
	listener_update(l);
}

/* Did this connection fail, so that it is out of the queue? accept(2) also reports errors of
 * the network. */
static bool is_of_connection(int code)
{
	switch (code) {
	case EINTR:
	case ECONNABORTED:
	case EPERM: /* a firewall's rule */
	case EPROTO:
	case ENOPROTOOPT:
	case EOPNOTSUPP:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENONET:
	case ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

/* On a private listener, refuse a peer of another user: the socket's folder may be open to
 * everybody. */
static bool may_connect(const struct listener *l, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (!l->is_private)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	log_warning(l->name, "refused uid=%u pid=%d", peer.uid, peer.pid);
	return false;
}

/* Accept a connection; false: there are none now. */
static bool accept_one(struct listener *l)
{
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(from);
	int fd = accept4(l->fd, (struct sockaddr *)&from, &len,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && may_connect(l, fd)) {
		l->accepted(l, fd, &from);
		return true;
	}
	if (fd >= 0) {
		(void)close(fd);
		return true;
	}
	if (errno == EAGAIN)
		return false;
	if (is_of_connection(errno))
		return true;
	wait_for_room(l, errno);
	return false;
}

static void on_ready(struct loop_watch *w, unsigned int ready)
{
	struct listener *l = container_of(w, struct listener, watch);
	int n = BATCH;

	(void)ready;
	while (n-- > 0 && l->loop && !l->is_paused && accept_one(l))
		;
}

int listener_start(struct listener *l, struct loop *loop, int fd,
		   struct error *err)
{
	int flags = fcntl(fd, F_GETFL), rc;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		rc = error_errno(err, errno, "listening socket");
		close(fd);
		return rc;
	}
	l->watch.fn = on_ready;
	l->again.fn = on_retry_timer;
	l->is_paused = l->is_short = false;
	rc = loop_watch_start(loop, &l->watch, fd, LOOP_READ, err);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	l->fd = fd;
	l->loop = loop;
	return 0;
}

void listener_stop(struct listener *l)
{
	if (!l->loop)
		return;
	loop_watch_stop(&l->watch);
	loop_timer_stop(&l->again);
	close(l->fd);
	l->loop = NULL;
}

void listener_pause(struct listener *l)
{
	l->is_paused = true;
	listener_update(l);
}

void listener_resume(struct listener *l)
{
	l->is_paused = false;
	listener_update(l);
}

unsigned int listener_port(const struct listener *l)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(addr);

	if (getsockname(l->fd, (struct sockaddr *)&addr, &len) < 0)
		return 0;
	return ntohs(addr.ss_family == AF_INET6
			     ? ((struct sockaddr_in6 *)&addr)->sin6_port
			     : ((struct sockaddr_in *)&addr)->sin_port);
}
