// SPDX-License-Identifier: Apache-2.0
/* The server: its socket and its limits. Connections are in httpd_conn.c. */
#include "net/httpd.h"

#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/httpd_priv.h"
#include "net/listen_address.h"
#include "net/nudge.h"
#include "net/traffic.h"

#define BACKLOG 4096

/* When all places are taken, close a connection of an unknown client that does not read its
 * answer; else the one that is idle for longest, but not just to become idle itself; else
 * newcomers wait in the kernel's queue. */
static void make_room_for_conn(struct httpd *s)
{
	struct httpd_conn *c = TAILQ_FIRST(&s->unread);

	if (s->stats.connections < s->cfg.connections_max)
		return;
	if (!c &&
	    TAILQ_FIRST(&s->idle) != TAILQ_LAST(&s->idle, httpd_conn_list))
		c = s->cfg.group ? httpd_unix_silent(s) : TAILQ_FIRST(&s->idle);
	if (c) {
		s->stats.connections_refused_total++;
		httpd_conn_close(c);
	} else {
		listener_pause(&s->listener);
	}
}

static void on_accepted(struct listener *l, int fd,
			const struct sockaddr_storage *from)
{
	struct httpd *s = container_of(l, struct httpd, listener);
	const int one = 1;

	/* For the latency of small answers; fails harmlessly on Unix sockets. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	traffic_mark(fd, s->cfg.dscp);
	s->stats.connections_total++;
	if (!httpd_unix_nudge(s)) {
		(void)close(fd);
		return;
	}
	httpd_conn_new(s, fd);
	make_room_for_conn(s);
}

static int listen_tcp(struct httpd *s, int *ret, struct error *err)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int rc = listen_address_parse(s->cfg.option, s->cfg.listen, &addr, &len,
				      err);

	if (rc == 0)
		rc = listener_open_tcp(&addr, len, BACKLOG, s->cfg.option,
				       s->cfg.listen, ret, err);
	if (rc == 0)
		traffic_mark(*ret, s->cfg.dscp);
	return rc;
}

static int start_listening(struct httpd *s, struct error *err)
{
	int fd = -1;
	int rc = s->cfg.path ? httpd_unix_listen(s, &fd, err)
			     : listen_tcp(s, &fd, err);

	if (rc < 0)
		return rc;
	rc = listener_start(&s->listener, s->cfg.loop, fd, err);
	if (rc < 0 && s->cfg.path)
		(void)unlink(s->cfg.path);
	return rc;
}

int httpd_new(const struct httpd_config *cfg, struct httpd **ret,
	      struct error *err)
{
	struct httpd *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->listener.name = s->cfg.name;
	s->listener.accepted = on_accepted;
	s->listener.is_private = s->cfg.path && !s->cfg.group;
	TAILQ_INIT(&s->conns);
	TAILQ_INIT(&s->idle);
	TAILQ_INIT(&s->waiting);
	TAILQ_INIT(&s->unread);
	TAILQ_INIT(&s->large);
	rc = hash_seed_new(&s->seed, err);
	if (rc == 0)
		rc = httpd_set_rate(s, err);
	if (rc == 0)
		rc = start_listening(s, err);
	if (rc < 0) {
		httpd_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

unsigned int httpd_port(const struct httpd *s)
{
	return listener_port(&s->listener);
}

void httpd_get_stats(const struct httpd *s, struct httpd_stats *ret)
{
	*ret = s->stats;
}

void httpd_stop(struct httpd *s, void (*idle)(void *arg), void *arg)
{
	struct httpd_conn *c;

	listener_stop(&s->listener);
	s->stopping = true;
	s->on_idle = idle;
	s->on_idle_arg = arg;
	while ((c = TAILQ_FIRST(&s->idle)))
		httpd_conn_close(c);
	httpd_resume(s);
}

void httpd_abort(struct httpd *s)
{
	struct httpd_conn *c, *next;

	(void)!httpd_unix_nudge(s);
	listener_stop(&s->listener);
	if (s->cfg.path)
		(void)unlink(s->cfg.path);
	s->on_idle = NULL;
	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, all);
		httpd_conn_close(c);
	}
	loop_timer_stop(&s->quiet);
}

void httpd_free(struct httpd *s)
{
	if (!s)
		return;
	if (s->rates)
		bufferevent_rate_limit_group_free(s->rates);
	nudge_free(s->nudge);
	free(s);
}
