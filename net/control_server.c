// SPDX-License-Identifier: Apache-2.0
/*
 * Each connection is either reading a line, or has its line at work on the pool
 * (and reads nothing then), or writes the reply.  So one that sends faster than
 * it is answered waits in its own socket, not in our memory.
 *
 * A peer that closes while its line is at work is seen at once: a line that still
 * waits is forgotten, unless it has to be done for nobody too; one at work is told
 * that nobody will hear its answer.
 */
#include "net/control_server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "net/control.h"
#include "net/lanes.h"
#include "net/listener.h"
#include "net/nudge.h"
#include "net/places.h"

#define READ_BYTES 65536u
#define HURRY_NS INT64_C(5000000000)

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

struct control_conn {
	struct loop_watch watch;
	struct loop_timer hurry;
	struct work work;
	struct lane_turn turn;
	struct control_server *server;
	struct control_conn *next;
	uint64_t group; /* cfg.group() of the peer, when all may connect */
	struct control_call call;
	int rc; /* of answer() */
	int fd;
	struct buf in, out;
	size_t line_len; /* of the line at work, in `in` */
	size_t sent;     /* of `out` */
	bool at_work;    /* a pool has it */
	bool last;       /* close when `out` was sent */
};

struct control_server {
	struct control_server_config cfg; /* its path is `path` */
	char *path;
	/* Paused: all of `first` are being answered. */
	struct listener listener;
	struct control_conn *first;
	size_t n_conns;
	struct nudge *nudge; /* NULL: it is not for everybody, or nobody came */
	bool stopped;
};

static void conn_free(struct control_conn *c)
{
	struct control_server *s = c->server;
	struct control_conn **p;

	for (p = &s->first; *p != c; p = &(*p)->next)
		;
	*p = c->next;
	s->n_conns--;
	if (s->listener.is_paused)
		listener_resume(&s->listener);
	loop_watch_stop(&c->watch);
	loop_timer_stop(&c->hurry);
	nudge_begin(s->nudge);
	close(c->fd);
	nudge_end(s->nudge);
	if (c->call.peer.pidfd >= 0)
		close(c->call.peer.pidfd);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
}

static void leave_lane(struct control_conn *c, bool is_answered)
{
	if (c->turn.lane)
		lanes_leave(c->server->cfg.lanes, &c->turn, is_answered,
			    clock_now_ns());
}

/* Close the connection. A line that is at work comes to its own end, which is
 * soon. */
static void conn_close(struct control_conn *c)
{
	if (!c->at_work) {
		leave_lane(c, false);
		conn_free(c);
		return;
	}
	atomic_store(&c->call.is_gone, true);
	loop_watch_stop(&c->watch);
}

static bool is_wanted(const struct control_conn *c)
{
	return c->call.goes_on || !atomic_load(&c->call.is_gone);
}

static void on_run(struct work *w)
{
	struct control_conn *c = container_of(w, struct control_conn, work);
	const struct control_server_config *cfg = &c->server->cfg;

	c->rc = -ECANCELED;
	if (is_wanted(c))
		c->rc = cfg->answer(cfg->arg, &c->call, c->in.data, c->line_len,
				    &c->out);
}

static void wait_for(struct control_conn *c, unsigned int events)
{
	if (loop_watch_set(&c->watch, events) < 0)
		conn_close(c);
}

static void control_server_refuse(struct control_conn *c, int code,
				  const char *why)
{
	struct error err = ERROR_INIT;

	error_set(&err, code, "%s", why);
	c->last = true;
	if (control_error_format(&err, &c->out, NULL) < 0)
		conn_close(c);
	else
		wait_for(c, LOOP_WRITE);
}

/* A reply that ends the connection, as the line behind it is not looked at. */
static void refuse_busy(struct control_conn *c)
{
	const struct control_server_config *cfg = &c->server->cfg;
	char why[ERROR_MSG_MAX] = "too many calls at once";

	if (c->call.lane[0])
		cfg->lane_is_full(c->call.lane, why, sizeof(why));
	control_server_refuse(c, EBUSY, why);
}

static void control_server_submit(struct control_conn *c)
{
	c->at_work = true;
	if (pool_submit(c->server->cfg.pools[c->call.kind], &c->work) == 0)
		return;
	c->at_work = false;
	leave_lane(c, false);
	if (atomic_load(&c->call.is_gone))
		conn_free(c);
	else
		refuse_busy(c);
}

static void on_turn(struct lane_turn *t)
{
	control_server_submit(container_of(t, struct control_conn, turn));
}

/* The line is for another kind of thread. */
static void submit_later(struct control_conn *c)
{
	int rc = 0;

	if (c->call.lane[0])
		rc = lanes_enter(c->server->cfg.lanes, c->call.lane, &c->turn,
				 clock_now_ns());
	if (rc < 0)
		refuse_busy(c);
	else if (rc == 0)
		control_server_submit(c);
}

/* Start the call if a whole line is there, else read on. */
static void next_line(struct control_conn *c)
{
	char *end = c->in.len ? memchr(c->in.data, '\n', c->in.len) : NULL;

	if (!end) {
		if (c->in.len >= c->server->cfg.line_max)
			control_server_refuse(c, EMSGSIZE,
					      "the request is too long");
		else
			wait_for(c, LOOP_READ);
		return;
	}
	c->line_len = (size_t)(end - c->in.data);
	c->work.run = on_run;
	c->call.kind = CONTROL_QUICK;
	c->call.lane[0] = '\0';
	c->call.goes_on = false;
	c->call.arrived_ns = clock_now_ns();
	if (loop_watch_set(&c->watch, LOOP_CLOSED) < 0)
		conn_close(c);
	else
		control_server_submit(c);
}

static void on_done(struct work *w)
{
	struct control_conn *c = container_of(w, struct control_conn, work);

	c->at_work = false;
	leave_lane(c, !atomic_load(&c->call.is_gone));
	if (c->rc == CONTROL_LATER && is_wanted(c) && !c->server->stopped) {
		submit_later(c);
		return;
	}
	c->in.len -= c->line_len + 1;
	memmove(c->in.data, c->in.data + c->line_len + 1, c->in.len);
	c->last = c->last || c->rc < 0; /* no memory for a reply */
	if (atomic_load(&c->call.is_gone) || c->server->stopped ||
	    c->out.len == 0)
		conn_free(c);
	else
		wait_for(c, LOOP_WRITE);
}

static void on_writable(struct control_conn *c)
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

static void on_readable(struct control_conn *c)
{
	struct nudge *nudge = c->server->nudge;
	ssize_t n;
	int code;

	if (buf_reserve(&c->in, READ_BYTES) < 0) {
		conn_close(c);
		return;
	}
	nudge_begin(nudge);
	n = recv(c->fd, c->in.data + c->in.len, READ_BYTES, MSG_DONTWAIT);
	code = errno;
	nudge_end(nudge);
	if (n < 0 && (code == EAGAIN || code == EINTR))
		return;
	if (n <= 0) {
		conn_close(c);
		return;
	}
	c->in.len += (size_t)n;
	next_line(c);
}

/* While the line is at work: did the peer leave, or only end what it sends, and
 * waits for the answer? */
static void on_closed(struct control_conn *c)
{
	struct pollfd p = { .fd = c->fd };

	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
		conn_close(c);
	else
		wait_for(c, 0);
}

static void on_ready(struct loop_watch *w, unsigned int ready)
{
	struct control_conn *c = container_of(w, struct control_conn, watch);

	if (ready & LOOP_CLOSED)
		on_closed(c);
	else if (ready & LOOP_WRITE)
		on_writable(c);
	else if (ready & LOOP_READ)
		on_readable(c);
}

static void on_hurry(struct loop_timer *t)
{
	conn_close(container_of(t, struct control_conn, hurry));
}

/* Only root (and, for a daemon of another user, that user) may command. */
static bool may_command(const struct control_server *s, int fd,
			struct control_peer *ret)
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

/*
 * Make place for a new connection. Clients that have something to say say it at
 * once, so silent ones are closed first. When all are being answered, which
 * does not take long, new ones wait in the kernel.
 */
static bool make_place(struct control_server *s)
{
	struct place v[CONTROL_CONNECTIONS_MAX] = { { .group = 0 } };
	struct control_conn *all[CONTROL_CONNECTIONS_MAX];
	size_t n = 0, i;

	for (struct control_conn *c = s->first; c && n < ARRAY_SIZE(v);
	     c = c->next) {
		v[n].group = c->group;
		v[n].is_silent = !c->at_work && c->out.len == 0;
		all[n++] = c;
	}
	i = places_choose(v, n);
	if (i < n)
		conn_free(all[i]);
	return i < n;
}

static bool has_place(struct listener *l)
{
	struct control_server *s =
		container_of(l, struct control_server, listener);

	return s->n_conns < CONTROL_CONNECTIONS_MAX || make_place(s);
}

static void on_accepted(struct listener *l, int accepted,
			const struct sockaddr_storage *from)
{
	struct control_server *s =
		container_of(l, struct control_server, listener);
	struct error err = ERROR_INIT;
	struct control_peer peer;
	AUTO_CLOSE int fd = accepted;
	struct control_conn *c;

	(void)from;
	if (s->n_conns >= CONTROL_CONNECTIONS_MAX) {
		log_warning("control", "refused reason=\"%d connections\"",
			    CONTROL_CONNECTIONS_MAX);
		return;
	}
	if (s->cfg.everybody && !s->nudge && nudge_new(&s->nudge, &err) < 0) {
		log_error("control", "refused reason=\"%s\"", err.msg);
		return;
	}
	if (!may_command(s, fd, &peer))
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->server = s;
	c->call.peer = peer;
	c->call.peer.pidfd = peer_pidfd(fd);
	if (s->cfg.everybody)
		c->group = s->cfg.group(&c->call.peer);
	c->work.done = on_done;
	c->turn.begin = on_turn;
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

static int listen_at(struct control_server *s, struct error *err)
{
	int fd = -1;
	int rc = listener_open_unix(s->path, s->cfg.everybody ? 0666 : 0600,
				    CONTROL_CONNECTIONS_MAX, s->cfg.cure, &fd,
				    err);
	const int off = 0;

	/* Where the kernel can, nobody sends descriptors: see nudge.h. */
	if (rc == 0 && s->cfg.everybody)
		(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off,
				 sizeof(off));
	return rc < 0 ? rc : listener_start(&s->listener, s->cfg.loop, fd, err);
}

int control_server_new(const struct control_server_config *cfg,
		       struct control_server **ret, struct error *err)
{
	struct control_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->path = strdup(cfg->path);
	s->cfg.path = s->path;
	s->listener.name = "control";
	s->listener.accepted = on_accepted;
	if (cfg->everybody)
		s->listener.has_place = has_place;
	rc = s->path ? listen_at(s, err) : error_nomem(err);
	if (rc < 0) {
		free(s->path);
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void control_server_stop(struct control_server *s)
{
	struct control_conn *c, *next;

	s->stopped = true;
	nudge_begin(s->nudge);
	listener_stop(&s->listener);
	nudge_end(s->nudge);
	(void)unlink(s->cfg.path);
	for (c = s->first; c; c = next) {
		next = c->next;
		conn_close(c);
	}
}

void control_server_free(struct control_server *s)
{
	if (!s)
		return;
	while (s->first)
		conn_free(s->first);
	listener_stop(&s->listener);
	nudge_free(s->nudge);
	free(s->path);
	free(s);
}
