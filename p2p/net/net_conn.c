// SPDX-License-Identifier: Apache-2.0
/*
 * A connection from begin to end, and the socket events it waits for. Input is in net_in.c, output
 * in net_out.c.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "common/clock.h"
#include "net/traffic.h"
#include "p2p/net/net_ack.h"
#include "p2p/net/net_fault.h"
#include "p2p/net/net_priv.h"
#include "p2p/net/net_turn.h"

#define GATHER (24u << 10)

static void on_ready(struct loop_watch *w, unsigned int ready)
{
	struct conn *c = container_of(w, struct conn, watch);
	struct net *n = c->net;

	net_enter(n);
	conn_go(c, ready);
	net_leave(n);
}

struct conn *conn_new(struct net *n, int fd, bool outgoing)
{
	struct conn *c = calloc(1, sizeof(*c));
	int one = 1;

	if (!c)
		return NULL;
	c->net = n;
	c->fd = fd;
	c->outgoing = outgoing;
	c->io = &conn_plain;
	c->answers_last = &c->answers;
	c->unacked_last = &c->unacked;
	c->out.limit = NET_QUEUE_MAX;
	c->watch.fn = on_ready;
	c->since = c->rx_at = c->tx_at = clock_now_ns();
	c->state = outgoing ? CONN_CONNECTING : CONN_SECURING;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	traffic_mark(fd, n->cfg.dscp);
	return c;
}

int conn_start(struct conn *c, unsigned int events, struct error *err)
{
	return loop_watch_start(c->net->loop, &c->watch, c->fd, events, err);
}

void conn_kill(struct conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	if (!c->link)
		net_forget_stranger(c);
	c->io->close(c);
	ack_forget(c);
	loop_watch_stop(&c->watch);
	close(c->fd);
	c->fd = -1;
	c->state = CONN_DEAD;
	c->next = c->net->dead;
	c->net->dead = c;
}

void conn_fail(struct conn *c, const struct error *why)
{
	struct net_stats *st = &c->net->st;

	if (c->state == CONN_DEAD)
		return;
	if (why->code == EPROTO || why->code == EBADMSG || why->code == ENOBUFS)
		st->protocol_errors_total++;
	if (c->link) {
		link_close(c->link, WIRE_LEAVE_CLOSED, why);
		return;
	}
	st->handshakes_failed_total++;
	/* Try to send the reason; it may get lost. */
	if (c->state == CONN_GREETING && !c->signs &&
	    wire_put_goaway(&c->out, WIRE_LEAVE_CLOSED, why->msg) == 0)
		(void)c->io->send(c, c->out.data, c->out.len, NULL, 0);
	conn_kill(c);
	net_tell_failure(c->net, NULL, &c->from, why);
}

bool conn_has_output(const struct conn *c)
{
	return c->out_at < c->out.len || c->answers || c->wants_write;
}

/* Let the kernel gather bytes of a slow piece, instead of waking up for each packet. The tick
 * reads what is there, so that a slow peer does not count as silent. TLS may hold bytes that
 * the socket has no longer. */
static void conn_gather(struct conn *c)
{
	uint32_t most = turn_least(c->body_left, GATHER);
	uint32_t want = c->bulk && c->io == &conn_plain ? most : 0;
	int bytes = want ? (int)want : 1;

	if (want == c->wake_at)
		return;
	if (setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)) ==
	    0)
		c->wake_at = want;
}

void conn_update(struct conn *c)
{
	unsigned int events = 0;
	struct error err = ERROR_INIT;

	if (c->state == CONN_DEAD || !c->watch.ev)
		return;
	if (c->state == CONN_CONNECTING)
		events = LOOP_WRITE;
	else if (!c->rx_paused)
		events |= LOOP_READ;
	if (c->wants_write && !c->tx_paused)
		events |= LOOP_WRITE;
	conn_gather(c);
	if (loop_watch_set(&c->watch, events) < 0) {
		error_set(&err, EIO, "cannot wait for its socket");
		conn_fail(c, &err);
	}
}

static void conn_connected(struct conn *c)
{
	struct error err = ERROR_INIT;
	int code = 0;
	socklen_t len = sizeof(code);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &code, &len) != 0)
		code = errno;
	if (code) {
		error_errno(&err, code, "connect");
		conn_fail(c, &err);
		return;
	}
	c->state = CONN_SECURING;
}

static void conn_secure(struct conn *c)
{
	struct error err = ERROR_INIT;
	int rc = c->io->secure(c, &err);

	if (rc == -EAGAIN)
		return;
	if (rc < 0) {
		if (!err.code)
			error_set(&err, -rc, "%s", strerror(-rc));
		conn_fail(c, &err);
		return;
	}
	c->state = CONN_GREETING;
	c->wants_write = false;
	if (c->outgoing)
		shake_begin(c);
}

void conn_go(struct conn *c, unsigned int ready)
{
	if (c->state == CONN_CONNECTING)
		conn_connected(c);
	if (c->state == CONN_SECURING)
		conn_secure(c);
	if (c->state == CONN_GREETING || c->state == CONN_UP) {
		if (ready & LOOP_WRITE)
			conn_write(c);
		conn_read(c);
	}
	conn_update(c);
}
