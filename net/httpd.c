// SPDX-License-Identifier: Apache-2.0
/* The server: its socket and its limits.  A connection's life: httpd_conn.c. */
#include "net/httpd.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "net/httpd_priv.h"
#include "net/listen_address.h"
#include "net/traffic.h"

#define BACKLOG 4096

/* When all places are taken, whoever nobody knows and does not take his answer gives
 * his; then whoever is idle longest, but not to be idle again himself: then newcomers
 * stay in the kernel's queue. */
static void make_place(struct httpd *s)
{
	struct httpd_conn *c = TAILQ_FIRST(&s->unread);

	if (s->stats.connections < s->cfg.connections_max)
		return;
	if (!c &&
	    TAILQ_FIRST(&s->idle) != TAILQ_LAST(&s->idle, httpd_conn_list))
		c = TAILQ_FIRST(&s->idle);
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

	/* The latency of small answers; that it fails is no harm. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	traffic_mark(fd, s->cfg.dscp);
	s->stats.connections_total++;
	httpd_conn_new(s, fd);
	make_place(s);
}

static int start_listening(struct httpd *s, struct error *err)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int rc = listen_address_parse(s->cfg.option, s->cfg.listen, &addr, &len,
				      err);
	int fd = -1;

	if (rc < 0)
		return rc;
	rc = listener_open_tcp(&addr, len, BACKLOG, s->cfg.option,
			       s->cfg.listen, &fd, err);
	if (rc < 0)
		return rc;
	traffic_mark(fd, s->cfg.dscp);
	return listener_start(&s->listener, s->cfg.loop, fd, err);
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

	listener_stop(&s->listener);
	s->on_idle = NULL;
	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, all);
		httpd_conn_close(c);
	}
}

void httpd_free(struct httpd *s)
{
	if (s && s->rates)
		bufferevent_rate_limit_group_free(s->rates);
	free(s);
}
