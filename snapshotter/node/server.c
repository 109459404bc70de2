// SPDX-License-Identifier: Apache-2.0
/*
 * Each connection is either reading a line, or has its line at work on the pool
 * (and reads nothing then), or writes the reply.  So one that sends faster than
 * it is answered waits in its own socket, not in our memory.
 */
#include "snapshotter/node/server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/log.h"
#include "snapshotter/control.h"

#define READ_BYTES 65536u
#define HURRY_NS INT64_C(5000000000)

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

struct conn {
	struct loop_watch watch;
	struct loop_timer hurry;
	struct work work;
	struct server *server;
	struct conn *next;
	struct server_peer peer;
	int fd;
	struct buf in, out;
	size_t line_len; /* of the line at work, in `in` */
	size_t sent;     /* of `out` */
	bool at_work;
	bool last; /* close when `out` was sent */
	bool gone; /* the peer left while its call is at work */
};

struct server {
	struct server_config cfg; /* its path is `path` */
	char *path;
	struct loop_watch watch;
	int fd;
	struct conn *first;
	size_t n_conns;
	bool stopped;
};

static void conn_free(struct conn *c)
{
	struct server *s = c->server;
	struct conn **p;

	for (p = &s->first; *p != c; p = &(*p)->next)
		;
	*p = c->next;
	s->n_conns--;
	loop_watch_stop(&c->watch);
	loop_timer_stop(&c->hurry);
	close(c->fd);
	if (c->peer.pidfd >= 0)
		close(c->peer.pidfd);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
}

/* The call that is at work ends all the same. */
static void conn_close(struct conn *c)
{
	if (!c->at_work) {
		conn_free(c);
		return;
	}
	c->gone = true;
	loop_watch_stop(&c->watch);
}

static void on_run(struct work *w)
{
	struct conn *c = container_of(w, struct conn, work);
	const struct server_config *cfg = &c->server->cfg;

	if (cfg->answer(cfg->arg, &c->peer, c->in.data, c->line_len, &c->out) <
	    0)
		c->last = true; /* no memory for a reply */
}

static void wait_for(struct conn *c, unsigned int events)
{
	if (loop_watch_set(&c->watch, events) < 0)
		conn_close(c);
}

static void refuse(struct conn *c, int code, const char *why)
{
	struct error err = ERROR_INIT;

	error_set(&err, code, "%s", why);
	c->last = true;
	if (control_error_format(&err, &c->out, NULL) < 0)
		conn_close(c);
	else
		wait_for(c, LOOP_WRITE);
}

/* Start the call if a whole line is there, else read on. */
static void next_line(struct conn *c)
{
	char *end = c->in.len ? memchr(c->in.data, '\n', c->in.len) : NULL;

	if (!end) {
		if (c->in.len >= c->server->cfg.line_max)
			refuse(c, EMSGSIZE, "the request is too long");
		else
			wait_for(c, LOOP_READ);
		return;
	}
	c->line_len = (size_t)(end - c->in.data);
	c->work.run = on_run;
	c->at_work = true;
	wait_for(c, 0);
	if (pool_submit(c->server->cfg.pool, &c->work) < 0) {
		c->at_work = false;
		refuse(c, EBUSY, "too many calls at once");
	}
}

static void on_done(struct work *w)
{
	struct conn *c = container_of(w, struct conn, work);

	c->at_work = false;
	c->in.len -= c->line_len + 1;
	memmove(c->in.data, c->in.data + c->line_len + 1, c->in.len);
	if (c->gone || c->server->stopped || c->out.len == 0)
		conn_free(c);
	else
		wait_for(c, LOOP_WRITE);
}

static void on_writable(struct conn *c)
{
	ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		conn_close(c);
		return;
	}
	c->sent += (size_t)n;
	if (c->sent < c->out.len)
		return;
	if (c->last) {
		conn_close(c);
		return;
	}
	buf_fini(&c->out); /* replies may be large, connections live long */
	c->sent = 0;
	next_line(c);
}

static void on_readable(struct conn *c)
{
	ssize_t n;

	if (buf_reserve(&c->in, READ_BYTES) < 0) {
		conn_close(c);
		return;
	}
	n = recv(c->fd, c->in.data + c->in.len, READ_BYTES, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_close(c);
		return;
	}
	c->in.len += (size_t)n;
	next_line(c);
}

static void on_ready(struct loop_watch *w, unsigned int ready)
{
	struct conn *c = container_of(w, struct conn, watch);

	if (ready & LOOP_WRITE)
		on_writable(c);
	else if (ready & LOOP_READ)
		on_readable(c);
}

static void on_hurry(struct loop_timer *t)
{
	conn_close(container_of(t, struct conn, hurry));
}

/* Only root (and, for a daemon of another user, that user) may command. */
static bool may_command(const struct server *s, int fd, struct server_peer *ret)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	ret->pid = peer.pid;
	if (s->cfg.everybody || peer.uid == 0 || peer.uid == geteuid())
		return true;
	log_warning("control", "refused uid=%u pid=%d", peer.uid, peer.pid);
	return false;
}

static int peer_pidfd(int fd)
{
	socklen_t len = sizeof(int);
	int pidfd = -1;

	return getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0
		       ? -1
		       : pidfd;
}

static void on_accept(struct loop_watch *w, unsigned int ready)
{
	struct server *s = container_of(w, struct server, watch);
	AUTO_CLOSE int fd =
		accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct error err = ERROR_INIT;
	struct server_peer peer;
	struct conn *c;

	(void)ready;
	if (fd < 0)
		return;
	if (s->n_conns >= SERVER_CONNECTIONS_MAX) {
		/* Not everybody may fill the log. */
		if (!s->cfg.everybody)
			log_warning("control",
				    "refused reason=\"%d connections\"",
				    SERVER_CONNECTIONS_MAX);
		return;
	}
	if (!may_command(s, fd, &peer))
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->server = s;
	c->peer = peer;
	c->peer.pidfd = peer_pidfd(fd);
	c->work.done = on_done;
	c->hurry.fn = on_hurry;
	c->last = s->cfg.everybody;
	c->watch.fn = on_ready;
	c->in.limit = s->cfg.line_max + READ_BYTES;
	c->fd = steal_fd(&fd);
	c->next = s->first;
	s->first = c;
	s->n_conns++;
	if (loop_watch_start(s->cfg.loop, &c->watch, c->fd, LOOP_READ, &err) <
		    0 ||
	    (s->cfg.everybody &&
	     loop_timer_start(s->cfg.loop, &c->hurry, HURRY_NS, &err) < 0)) {
		log_error("control", "watch reason=\"%s\"", err.msg);
		conn_free(c);
	}
}

/* -------------------------------------------------------------- the socket --- */

static int take_path(const struct sockaddr_un *addr, struct error *err)
{
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return error_set(err, errno, "socket: %s", strerror(errno));
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
		return error_set(err, EADDRINUSE,
				 "another bootseerd listens at '%s'",
				 addr->sun_path);
	if (errno == ECONNREFUSED && unlink(addr->sun_path) < 0 &&
	    errno != ENOENT)
		return error_set(err, errno, "remove '%s': %s", addr->sun_path,
				 strerror(errno));
	return 0;
}

static int listen_at(const char *path, bool everybody, int *ret,
		     struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = -1;
	mode_t old;
	int rc;

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, ENAMETOOLONG,
				 "socket '%s': over %zu bytes; choose a "
				 "shorter --run",
				 path, sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	rc = take_path(&addr, err);
	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	old = umask(everybody ? 0111 : 0177);
	if (fd < 0 ||
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(fd, SERVER_CONNECTIONS_MAX) < 0)
		rc = error_set(err, errno, "listen at '%s': %s%s", path,
			       strerror(errno), error_root_hint(errno));
	(void)umask(old);
	if (rc == 0)
		*ret = steal_fd(&fd);
	return rc;
}

int server_new(const struct server_config *cfg, struct server **ret,
	       struct error *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->path = strdup(cfg->path);
	s->cfg.path = s->path;
	s->watch.fn = on_accept;
	rc = s->path ? listen_at(cfg->path, cfg->everybody, &s->fd, err)
		     : error_nomem(err);
	if (rc < 0) {
		free(s->path);
		free(s);
		return rc;
	}
	rc = loop_watch_start(cfg->loop, &s->watch, s->fd, LOOP_READ, err);
	if (rc < 0) {
		close(s->fd);
		free(s->path);
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void server_stop(struct server *s)
{
	struct conn *c, *next;

	s->stopped = true;
	loop_watch_stop(&s->watch);
	(void)unlink(s->cfg.path);
	for (c = s->first; c; c = next) {
		next = c->next;
		conn_close(c);
	}
}

void server_free(struct server *s)
{
	if (!s)
		return;
	while (s->first)
		conn_free(s->first);
	close(s->fd);
	free(s->path);
	free(s);
}
