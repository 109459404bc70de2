// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/grpc_server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/clock.h"
#include "common/log.h"

#define CONNECTIONS_MAX 64
#define BACKLOG 64
#define READ_SIZE 65536
#define SEND_SIZE 65536
#define ACCEPT_PAUSE_NS INT64_C(100000000) /* when descriptors run out */

struct connection {
	struct grpc_server *server;
	struct connection *prev, *next;
	struct grpc_conn *grpc;
	struct loop_watch watch;
	struct loop_timer timer; /* the next deadline of a call */
	struct loop_call flush;  /* posted while `flush_posted` */
	bool flush_posted;
	bool closed;      /* waits for the posted flush to be freed */
	int64_t timer_at; /* 0: not running */
	struct buf out;
	size_t out_off;
	int fd;
};

struct grpc_server {
	struct loop *loop;
	struct grpc_conn_ops ops;
	struct loop_watch watch;
	struct loop_timer pause;
	struct connection *connections;
	size_t n_connections;
	char *path; /* to remove; NULL when adopted */
	int fd;
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

/* Send what there is.  False: the connection is gone. */
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
		if (errno != EAGAIN ||
		    loop_watch_set(&c->watch, LOOP_READ | LOOP_WRITE) < 0)
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

static bool peer_may_call(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}

static void on_pause_end(struct loop_timer *t)
{
	struct grpc_server *s = container_of(t, struct grpc_server, pause);

	if (s->watch.ev && loop_watch_set(&s->watch, LOOP_READ) < 0)
		log_error("grpc", "cannot accept any more");
}

static void on_accept(struct loop_watch *w, unsigned int ready)
{
	struct grpc_server *s = container_of(w, struct grpc_server, watch);
	struct error err = ERROR_INIT;
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		/* The connection waits; without a pause it would spin. */
		log_warning("grpc", "cannot accept: %s", strerror(errno));
		if (loop_watch_set(w, 0) < 0 ||
		    loop_timer_start(s->loop, &s->pause, ACCEPT_PAUSE_NS,
				     &err) < 0)
			log_error("grpc", "cannot accept any more");
		return;
	}
	if (s->n_connections >= CONNECTIONS_MAX || !peer_may_call(fd)) {
		log_warning("grpc",
			    "connection refused: it is not of root, or "
			    "there are %d already",
			    CONNECTIONS_MAX);
		close(fd);
		return;
	}
	if (connection_new(s, fd, &err) < 0)
		log_warning("grpc", "connection refused: %s", err.msg);
}

int grpc_server_adopt(struct grpc_server *s, int fd, struct error *err)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		int code = errno;

		close(fd);
		return error_set(err, code, "listening socket: %s",
				 strerror(code));
	}
	s->fd = fd;
	return loop_watch_start(s->loop, &s->watch, fd, LOOP_READ, err);
}

/* Bind beside `path` and rename, so that the socket appears only when it takes
 * connections. */
static int bind_unix(const char *path, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int n;

	n = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s.new", path);
	if (n < 0 || (size_t)n >= sizeof(addr.sun_path))
		return error_set(err, ENAMETOOLONG,
				 "socket '%s': the path is too long", path);
	(void)unlink(addr.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    chmod(addr.sun_path, 0600) < 0 || listen(fd, BACKLOG) < 0 ||
	    rename(addr.sun_path, path) < 0)
		return error_set(err, errno, "socket '%s': %s%s", path,
				 strerror(errno), error_root_hint(errno));
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* Whether a process accepts on the socket now; without waiting for it. */
static bool is_served(const char *path)
{
	AUTO_CLOSE int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		return false;
	strcpy(addr.sun_path, path);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 ||
	       errno == EAGAIN;
}

int grpc_server_listen(struct grpc_server *s, const char *path,
		       struct error *err)
{
	int fd = -1, rc;

	/* To take it over would leave the other one running unheard. */
	if (is_served(path))
		return error_set(err, EADDRINUSE,
				 "socket '%s' is served by another process: "
				 "end it, or name another socket",
				 path);
	s->path = strdup(path);
	if (!s->path)
		return error_nomem(err);
	rc = bind_unix(path, &fd, err);
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
	s->fd = -1;
	s->watch.fn = on_accept;
	s->pause.fn = on_pause_end;
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
	loop_watch_stop(&s->watch);
	loop_timer_stop(&s->pause);
	if (s->fd >= 0)
		close(steal_fd(&s->fd));
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
