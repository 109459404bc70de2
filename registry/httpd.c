// SPDX-License-Identifier: Apache-2.0
/* The server: its socket and its limits.  A connection's life: httpd_conn.c. */
#include "registry/httpd.h"

#include <errno.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "registry/httpd_priv.h"

#define BACKLOG 4096
#define ACCEPT_PAUSE_NS INT64_C(200000000) /* when descriptors are short */

static void pause_accept(struct httpd *s)
{
	if (s->paused || !s->listener)
		return;
	evconnlistener_disable(s->listener);
	s->paused = true;
}

void httpd_resume(struct httpd *s)
{
	if (s->paused && s->listener &&
	    s->stats.connections < s->cfg.connections_max) {
		s->paused = false;
		evconnlistener_enable(s->listener);
	}
	if (s->stopping && s->stats.connections == 0 && s->on_idle) {
		void (*idle)(void *) = s->on_idle;

		s->on_idle = NULL;
		idle(s->on_idle_arg);
	}
}

static void on_accept_again(struct loop_timer *t)
{
	httpd_resume(container_of(t, struct httpd, accept_again));
}

/* When all places are taken, whoever is idle longest gives his, but not to be
 * idle again himself: then newcomers stay in the kernel's queue. */
static void make_place(struct httpd *s)
{
	struct conn *c = TAILQ_FIRST(&s->idle);

	if (s->stats.connections < s->cfg.connections_max)
		return;
	if (c && c != TAILQ_LAST(&s->idle, conn_list)) {
		s->stats.connections_refused_total++;
		conn_close(c);
	} else {
		pause_accept(s);
	}
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd,
		      struct sockaddr *addr, int len, void *arg)
{
	struct httpd *s = arg;
	const int one = 1;

	/* The latency of small answers; that it fails is no harm. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s->stats.connections_total++;
	conn_new(s, fd);
	make_place(s);
}

static void on_accept_error(struct evconnlistener *l, void *arg)
{
	struct httpd *s = arg;

	pause_accept(s);
	if (loop_timer_start(s->cfg.loop, &s->accept_again, ACCEPT_PAUSE_NS,
			     NULL) < 0)
		httpd_resume(s);
}

static int note_port(struct httpd *s)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(evconnlistener_get_fd(s->listener),
			(struct sockaddr *)&addr, &len) < 0)
		return -errno;
	s->port = ntohs(addr.ss_family == AF_INET6
				? ((struct sockaddr_in6 *)&addr)->sin6_port
				: ((struct sockaddr_in *)&addr)->sin_port);
	return 0;
}

/* "ADDR:PORT", an IPv6 address in brackets.  The caller frees it. */
static int parse_address(const char *text, struct addrinfo **ret)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	AUTO_FREE char *host = strdup(text);
	char *colon = host ? strrchr(host, ':') : NULL;
	char *name = host;
	size_t n;

	if (!colon || !colon[1] || colon == host)
		return -EINVAL;
	*colon = '\0';
	n = strlen(host);
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		name++;
	}
	return getaddrinfo(name, colon + 1, &hints, ret) == 0 ? 0 : -EINVAL;
}

static int start_listening(struct httpd *s, struct error *err)
{
	struct addrinfo *addr = NULL;

	if (parse_address(s->cfg.listen, &addr) < 0)
		return error_set(err, EINVAL, "'%s' is not ADDR:PORT",
				 s->cfg.listen);
	errno = 0;
	s->listener = evconnlistener_new_bind(loop_event_base(s->cfg.loop),
					      on_accept, s,
					      LEV_OPT_CLOSE_ON_FREE |
						      LEV_OPT_CLOSE_ON_EXEC |
						      LEV_OPT_REUSEABLE,
					      BACKLOG, addr->ai_addr,
					      (int)addr->ai_addrlen);
	freeaddrinfo(addr);
	if (!s->listener || note_port(s) < 0)
		return error_listen(err, errno ? errno : EINVAL, s->cfg.listen,
				    "--listen");
	evconnlistener_set_error_cb(s->listener, on_accept_error);
	return 0;
}

static void stop_listening(struct httpd *s)
{
	loop_timer_stop(&s->accept_again);
	if (s->listener)
		evconnlistener_free(s->listener);
	s->listener = NULL;
}

int httpd_new(const struct httpd_config *cfg, struct httpd **ret,
	      struct error *err)
{
	struct httpd *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->accept_again.fn = on_accept_again;
	TAILQ_INIT(&s->conns);
	TAILQ_INIT(&s->idle);
	TAILQ_INIT(&s->waiting);
	rc = start_listening(s, err);
	if (rc < 0) {
		stop_listening(s);
		httpd_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

unsigned int httpd_port(const struct httpd *s)
{
	return s->port;
}

void httpd_get_stats(const struct httpd *s, struct httpd_stats *ret)
{
	*ret = s->stats;
}

void httpd_stop(struct httpd *s, void (*idle)(void *arg), void *arg)
{
	struct conn *c;

	stop_listening(s);
	s->stopping = true;
	s->on_idle = idle;
	s->on_idle_arg = arg;
	while ((c = TAILQ_FIRST(&s->idle)))
		conn_close(c);
	httpd_resume(s);
}

void httpd_abort(struct httpd *s)
{
	struct conn *c, *next;

	stop_listening(s);
	s->on_idle = NULL;
	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, all);
		conn_close(c);
	}
}

void httpd_free(struct httpd *s)
{
	free(s);
}
