// SPDX-License-Identifier: Apache-2.0
#include "net/grpc_server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "net/listener.h"

#define CONNECTIONS_MAX 64
#define BACKLOG 64
#define READ_SIZE 65536
#define SEND_SIZE 65536

struct connection {
	struct grpc_server *server;
	struct connection *prev, *next;
	struct grpc_conn *grpc;
	struct loop_watch watch;
	struct loop_timer timer; /* the next deadline of a call */
	struct loop_call flush;  /* posted while `flush_posted` */
	bool flush_posted;
	bool closed;      /* closed; freed by the posted flush */
	int64_t timer_at; /* 0: not running */
	struct buf out;
	size_t out_off;
	int fd;
};

struct grpc_server {
	struct loop *loop;
	struct grpc_conn_ops ops;
	struct listener listener;
	struct connection *connections;
	size_t n_connections;
	/* path of the socket to remove at the end; NULL for an adopted socket */
	char *path;
};

/* ---- connections ---- */

static void connection_free(struct connection *c)
{
	buf_fini(&c->out);
	free(c);
}

static void connection_close(struct connection *c)
{
	struct grpc_server *s = c->server;

	if (c->closed)
		return;
	c->closed = true;
	if (c->prev)
		c->prev->next = c->next;
	else
		s->connections = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n_connections--;
	loop_watch_stop(&c->watch);
	loop_timer_stop(&c->timer);
	grpc_conn_free(c->grpc);
	c->grpc = NULL;
	close(c->fd);
	if (!c->flush_posted)
		connection_free(c);
}

/* Wait until the socket takes bytes again. */
static int wait_for_room(struct connection *c)
{
	bool is_behind = grpc_conn_is_behind(c->grpc);

	return loop_watch_set(&c->watch,
			      LOOP_WRITE | (is_behind ? 0u : LOOP_READ));
}

/* Send waiting bytes. False: the connection was closed. */
static bool connection_flush(struct connection *c)
{
	struct error err = ERROR_INIT;
	ssize_t n;

	for (;;) {
		if (c->out_off == c->out.len) {
			buf_reset(&c->out);
			c->out_off = 0;
			if (grpc_conn_send(c->grpc, &c->out, SEND_SIZE, &err) <
			    0)
				break;
			if (c->out.len == 0) {
				if (!grpc_conn_is_alive(c->grpc) ||
				    loop_watch_set(&c->watch, LOOP_READ) < 0)
					break;
				return true;
			}
		}
		n = send(c->fd, c->out.data + c->out_off,
			 c->out.len - c->out_off, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			c->out_off += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || wait_for_room(c) < 0)
			break;
		return true;
	}
	connection_close(c);
	return false;
}

static void on_flush(struct loop_call *call)
{
	struct connection *c = container_of(call, struct connection, flush);

	c->flush_posted = false;
	if (c->closed)
		connection_free(c);
	else
		connection_flush(c);
}

static void on_wake(void *owner)
{
	struct connection *c = owner;

	if (c->flush_posted || c->closed)
		return;
	c->flush_posted = true;
	loop_post(c->server->loop, &c->flush);
}

static void on_ready(struct loop_watch *w, unsigned int ready)
{
	struct connection *c = container_of(w, struct connection, watch);
	struct error err = ERROR_INIT;
	uint8_t data[READ_SIZE];
	ssize_t n;

	if (ready & LOOP_READ) {
		n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			connection_close(c);
			return;
		}
		if (n > 0 &&
		    grpc_conn_receive(c->grpc, data, (size_t)n, &err) < 0) {
			log_warning("grpc", "connection closed: reason=\"%s\"",
				    err.msg);
			connection_close(c);
			return;
		}
	}
	connection_flush(c);
}

static void arm_timer(struct connection *c, int64_t delay_ns)
{
	int64_t at = clock_now_ns() + delay_ns;

	if (c->timer_at && c->timer_at <= at)
		return;
	if (loop_timer_start(c->server->loop, &c->timer, delay_ns, NULL) == 0)
		c->timer_at = at;
}

static void on_deadline(void *owner, int64_t timeout_ns)
{
	arm_timer(owner, timeout_ns);
}

static void on_timer(struct loop_timer *t)
{
	struct connection *c = container_of(t, struct connection, timer);
	int64_t next;

	c->timer_at = 0;
	next = grpc_conn_expire(c->grpc);
	if (next >= 0)
		arm_timer(c, next);
}

static int connection_new(struct grpc_server *s, int fd, struct error *err)
{
	struct connection *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		close(fd);
		return error_nomem(err);
	}
	c->server = s;
	c->fd = fd;
	c->watch.fn = on_ready;
	c->timer.fn = on_timer;
	c->flush.fn = on_flush;
	rc = grpc_conn_new(&s->ops, c, &c->grpc, err);
	if (rc == 0)
		rc = loop_watch_start(s->loop, &c->watch, fd, LOOP_READ, err);
	if (rc < 0) {
		grpc_conn_free(c->grpc);
		close(fd);
		connection_free(c);
		return rc;
	}
	c->next = s->connections;
	if (c->next)
		c->next->prev = c;
	s->connections = c;
	s->n_connections++;
	connection_flush(c);
	return 0;
}

/* ---- the listening socket ---- */

static void on_accepted(struct listener *l, int fd,
			const struct sockaddr_storage *from)
{
	struct grpc_server *s = container_of(l, struct grpc_server, listener);
	struct error err = ERROR_INIT;

	(void)from;
	if (s->n_connections >= CONNECTIONS_MAX) {
		log_warning("grpc", "connection refused: there are %d already",
			    CONNECTIONS_MAX);
		close(fd);
		return;
	}
	if (connection_new(s, fd, &err) < 0)
		log_warning("grpc", "connection refused: %s", err.msg);
}

int grpc_server_adopt(struct grpc_server *s, int fd, struct error *err)
{
	return listener_start(&s->listener, s->loop, fd, err);
}

int grpc_server_listen(struct grpc_server *s, const char *path,
		       struct error *err)
{
	int fd = -1, rc;

	s->path = strdup(path);
	if (!s->path)
		return error_nomem(err);
	rc = listener_open_unix(path, 0600, BACKLOG, "name another socket", &fd,
				err);
	if (rc < 0) {
		free(steal_ptr(&s->path));
		return rc;
	}
	return grpc_server_adopt(s, fd, err);
}

int grpc_server_new(struct loop *loop, const struct grpc_method *methods,
		    void *arg, struct grpc_server **ret, struct error *err)
{
	struct grpc_server *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	s->loop = loop;
	s->listener.name = "grpc";
	s->listener.is_private = true;
	s->listener.accepted = on_accepted;
	s->ops = (struct grpc_conn_ops){ .methods = methods,
					 .arg = arg,
					 .wake = on_wake,
					 .deadline = on_deadline,
					 .clock = clock_now_ns };
	*ret = s;
	return 0;
}

static void stop_listening(struct grpc_server *s)
{
	listener_stop(&s->listener);
	if (s->path) {
		(void)unlink(s->path);
		free(steal_ptr(&s->path));
	}
}

void grpc_server_drain(struct grpc_server *s)
{
	stop_listening(s);
	for (struct connection *c = s->connections; c; c = c->next)
		grpc_conn_drain(c->grpc);
}

void grpc_server_free(struct grpc_server *s)
{
	if (!s)
		return;
	stop_listening(s);
	while (s->connections)
		connection_close(s->connections);
	free(s);
}
