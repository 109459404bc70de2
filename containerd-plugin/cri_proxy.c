// SPDX-License-Identifier: Apache-2.0
/* Runs on the loop, except deliver_pulls(), which waits for bootseerd. */
#include "containerd-plugin/cri_proxy.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/log.h"
#include "containerd-plugin/cri_pull.h"
#include "net/grpc_tap.h"
#include "net/listener.h"
#include "net/pool.h"
#include "net/unix_connect.h"
#include "snapshotter/client.h"

#define CONNECTIONS_MAX 64
#define BACKLOG 64
#define CHUNK 65536u
#define PULLS_MAX GRPC_TAP_STREAMS /* pulls that one chunk can complete */
#define THREADS 4
#define QUEUE_MAX CONNECTIONS_MAX /* one work for each connection */
/* limit for all pulls of a chunk; bootseerd may be starting */
#define NODE_MS 5000
#define NODE_LEAST_MS 10
/* pause after bootseerd was absent or silent */
#define QUIET_NS (10 * NS_PER_S)

/* An end of a relay, and the bytes still to be sent to it. */
struct cri_relay_end {
	struct loop_watch watch;
	struct buf out;
	size_t out_off;
	bool has_ended; /* it has ended its sending */
	int fd;
};

/* A connection of the kubelet, with the one to containerd that belongs to it. */
struct cri_relay {
	struct cri_proxy *proxy;
	struct cri_relay *prev, *next;
	struct cri_relay_end client, server;
	/* NULL: the client's bytes are no longer followed */
	struct grpc_tap *tap;
	struct cri_pull pulls[PULLS_MAX];
	size_t n_pulls;
	struct work work;
	int delivered; /* result of `work`: 0, or the last failure */
	bool is_held;  /* `work` is running, and the client's bytes wait */
	bool is_closed;
};

struct cri_proxy {
	struct loop *loop;
	struct cri_proxy_config cfg;
	struct listener listener;
	struct pool *pool;
	struct cri_relay *relays;
	size_t n_relays;
	int64_t quiet_until_ns; /* until then no call waits for bootseerd */
};

/* --------------------------------------------------------------- connections --- */

static void forget_pulls(struct cri_relay *r)
{
	while (r->n_pulls > 0)
		cri_pull_fini(&r->pulls[--r->n_pulls]);
}

static void relay_free(struct cri_relay *r)
{
	forget_pulls(r);
	grpc_tap_free(r->tap);
	buf_fini(&r->client.out);
	buf_fini(&r->server.out);
	free(r);
}

static void relay_close(struct cri_relay *r)
{
	if (r->is_closed)
		return;
	r->is_closed = true;
	if (r->prev)
		r->prev->next = r->next;
	else
		r->proxy->relays = r->next;
	if (r->next)
		r->next->prev = r->prev;
	r->proxy->n_relays--;
	loop_watch_stop(&r->client.watch);
	loop_watch_stop(&r->server.watch);
	(void)close(r->client.fd);
	(void)close(r->server.fd);
	if (!r->is_held)
		relay_free(r);
}

/* Send waiting bytes; -1: the connection has failed. */
static int flush_end(struct cri_relay_end *e)
{
	while (e->out_off < e->out.len) {
		ssize_t n = send(e->fd, e->out.data + e->out_off,
				 e->out.len - e->out_off,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		e->out_off += (size_t)n;
	}
	buf_reset(&e->out);
	e->out_off = 0;
	return 0;
}

static bool is_idle(const struct cri_relay_end *e)
{
	return e->out.len == 0;
}

static int watch_end(struct cri_relay_end *e, bool may_read, bool may_write)
{
	return loop_watch_set(&e->watch, (may_read ? LOOP_READ : 0u) |
						 (may_write ? LOOP_WRITE : 0u));
}

/* Send what can be sent, and set what to wait for. May close the relay. */
static void relay_send_and_watch(struct cri_relay *r)
{
	struct cri_relay_end *c = &r->client, *s = &r->server;

	if ((!r->is_held && flush_end(s) < 0) || flush_end(c) < 0 ||
	    (c->has_ended && !r->is_held && is_idle(s)) ||
	    (s->has_ended && is_idle(c)) ||
	    watch_end(c, !r->is_held && !c->has_ended && is_idle(s),
		      !is_idle(c)) < 0 ||
	    watch_end(s, !s->has_ended && is_idle(c),
		      !r->is_held && !is_idle(s)) < 0)
		relay_close(r);
}

/* --------------------------------------------------------------------- logins --- */

/* Give bootseerd the login of a pull, within `left_ms`; part of that may be spent waiting
 * for bootseerd to listen. */
static int deliver_pull(const struct cri_proxy *p, const struct cri_pull *pull,
			uint32_t left_ms)
{
	uint32_t wait_ms = left_ms * 2 / 5;
	const struct node_login login = { .image = pull->image,
					  .namespace_ = pull->namespace_,
					  .user = pull->user,
					  .password = pull->password,
					  .identity_token =
						  pull->identity_token };
	struct node_client *node = NULL;
	struct error why = ERROR_INIT;
	int rc = node_client_open_within(p->cfg.node, left_ms - wait_ms,
					 wait_ms, &node, &why);

	if (rc == 0)
		rc = node_login_show(node, &login, &why);
	node_client_close(node);
	if (rc < 0)
		log_warning("cri",
			    "bootseerd has not got the login of a pull: "
			    "image=\"%s\" namespace=\"%s\" reason=\"%s\" "
			    "action=\"containerd pulls it all the same; it may "
			    "start the ordinary way\"",
			    pull->image, pull->namespace_, why.msg);
	return rc;
}

static bool is_node_away_error(int rc)
{
	return rc == -ETIMEDOUT || rc == -ENOENT || rc == -ECONNREFUSED;
}

static void deliver_pulls(struct work *w)
{
	struct cri_relay *r = container_of(w, struct cri_relay, work);
	int64_t end = clock_now_ms() + NODE_MS;

	r->delivered = 0;
	/* Once bootseerd is found absent, the other pulls do not wait for it. */
	for (size_t k = 0; k < r->n_pulls && !is_node_away_error(r->delivered);
	     k++) {
		int64_t left = end - clock_now_ms();

		r->delivered = left < NODE_LEAST_MS
				       ? -ETIMEDOUT
				       : deliver_pull(r->proxy, &r->pulls[k],
						      (uint32_t)left);
	}
}

static void on_delivered(struct work *w)
{
	struct cri_relay *r = container_of(w, struct cri_relay, work);

	forget_pulls(r);
	r->is_held = false;
	if (is_node_away_error(r->delivered))
		r->proxy->quiet_until_ns = clock_now_ns() + QUIET_NS;
	if (r->is_closed)
		relay_free(r);
	else
		relay_send_and_watch(r);
}

static void on_pull(void *arg, const void *message, size_t len)
{
	struct cri_relay *r = arg;
	struct error why = ERROR_INIT;
	struct cri_pull pull;

	if (r->n_pulls == PULLS_MAX ||
	    cri_pull_parse(message, len, &pull, &why) < 0) {
		log_warning("cri", "a pull's login is not kept: reason=\"%s\"",
			    why.code ? why.msg : "too many at once");
		return;
	}
	if (cri_pull_has_login(&pull))
		r->pulls[r->n_pulls++] = pull;
	else
		cri_pull_fini(&pull);
}

/* Hold the client's bytes until bootseerd has the logins in them; but not if bootseerd was
 * absent a moment ago, since then all calls of the kubelet would wait at each pull. */
static void hold_client_for_logins(struct cri_relay *r)
{
	if (r->n_pulls == 0 || r->is_held)
		return;
	if (clock_now_ns() < r->proxy->quiet_until_ns) {
		log_warning("cri",
			    "%zu logins are not kept: bootseerd was away a "
			    "moment ago",
			    r->n_pulls);
		forget_pulls(r);
		return;
	}
	r->is_held = true;
	if (pool_submit(r->proxy->pool, &r->work) < 0) {
		log_warning("cri", "%zu logins are not kept: too many wait",
			    r->n_pulls);
		r->is_held = false;
		forget_pulls(r);
	}
}

static void follow_client(struct cri_relay *r, const char *data, size_t len)
{
	struct error why = ERROR_INIT;

	if (!r->tap)
		return;
	if (grpc_tap_feed(r->tap, (const uint8_t *)data, len, &why) < 0) {
		log_warning("cri",
			    "the logins of this connection are not kept any "
			    "more: reason=\"%s\"",
			    why.msg);
		grpc_tap_free(steal_ptr(&r->tap));
	}
	hold_client_for_logins(r);
}

/* ---------------------------------------------------------------------- bytes --- */

/* Read from one end into the other's buffer; -1: the connection has failed. */
static int read_end(struct cri_relay_end *from, struct cri_relay_end *to)
{
	ssize_t n;

	if (buf_reserve(&to->out, CHUNK) < 0)
		return -1;
	n = recv(from->fd, to->out.data, CHUNK, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	from->has_ended = n == 0;
	to->out.len = (size_t)n;
	to->out.data[n] = '\0';
	return 0;
}

static void on_client(struct loop_watch *w, unsigned int ready)
{
	struct cri_relay *r = container_of(w, struct cri_relay, client.watch);

	if ((ready & LOOP_READ) && !r->is_held && is_idle(&r->server)) {
		if (read_end(&r->client, &r->server) < 0) {
			relay_close(r);
			return;
		}
		follow_client(r, r->server.out.data, r->server.out.len);
	}
	relay_send_and_watch(r);
}

static void on_server(struct loop_watch *w, unsigned int ready)
{
	struct cri_relay *r = container_of(w, struct cri_relay, server.watch);

	if ((ready & LOOP_READ) && is_idle(&r->client) &&
	    read_end(&r->server, &r->client) < 0) {
		relay_close(r);
		return;
	}
	relay_send_and_watch(r);
}

/* ------------------------------------------------------------------ the socket --- */

/* Connect; a Unix socket connects at once or fails. */
static int connect_containerd(const char *path, int *ret, struct error *err)
{
	int fd = unix_connect(path, 0);

	if (fd < 0)
		return error_errno(err, -fd, "connect to containerd at '%s'",
				   path);
	*ret = fd;
	return 0;
}

/* Begin a relay for a connection; takes `fd`, also on failure. */
static int relay_new(struct cri_proxy *p, int fd, struct error *err)
{
	struct cri_relay *r = calloc(1, sizeof(*r));
	int rc;

	if (!r) {
		(void)close(fd);
		return error_nomem(err);
	}
	r->proxy = p;
	r->client.fd = fd;
	r->server.fd = -1;
	/* The messages in the buffers may contain logins. */
	r->client.out.is_secret = true;
	r->server.out.is_secret = true;
	r->client.watch.fn = on_client;
	r->server.watch.fn = on_server;
	r->work.run = deliver_pulls;
	r->work.done = on_delivered;
	rc = connect_containerd(p->cfg.containerd, &r->server.fd, err);
	if (rc == 0)
		rc = grpc_tap_new(CRI_PULL_METHOD, on_pull, r, &r->tap, err);
	if (rc == 0)
		rc = loop_watch_start(p->loop, &r->client.watch, fd, LOOP_READ,
				      err);
	if (rc == 0)
		rc = loop_watch_start(p->loop, &r->server.watch, r->server.fd,
				      LOOP_READ, err);
	if (rc < 0) {
		loop_watch_stop(&r->client.watch);
		(void)close(fd);
		fd_close(r->server.fd);
		relay_free(r);
		return rc;
	}
	r->next = p->relays;
	if (r->next)
		r->next->prev = r;
	p->relays = r;
	p->n_relays++;
	return 0;
}

static void on_accepted(struct listener *l, int fd,
			const struct sockaddr_storage *from)
{
	struct cri_proxy *p = container_of(l, struct cri_proxy, listener);
	struct error err = ERROR_INIT;

	(void)from;
	if (p->n_relays >= CONNECTIONS_MAX) {
		log_warning("cri", "connection refused: there are %d already",
			    CONNECTIONS_MAX);
		(void)close(fd);
	} else if (relay_new(p, fd, &err) < 0) {
		log_warning("cri", "connection refused: %s", err.msg);
	}
}

int cri_proxy_new(struct loop *loop, const struct cri_proxy_config *cfg,
		  struct cri_proxy **ret, struct error *err)
{
	struct cri_proxy *p = calloc(1, sizeof(*p));
	int fd = -1, rc;

	if (!p)
		return error_nomem(err);
	p->loop = loop;
	p->cfg = *cfg;
	p->listener.name = "cri";
	p->listener.is_private = true;
	p->listener.accepted = on_accepted;
	rc = pool_new(loop, THREADS, QUEUE_MAX, &p->pool, err);
	if (rc == 0)
		rc = listener_open_unix(cfg->address, 0600, BACKLOG,
					"name another --image-service", &fd,
					err);
	if (rc == 0)
		rc = listener_start(&p->listener, loop, fd, err);
	if (rc < 0) {
		cri_proxy_stop(p);
		free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

void cri_proxy_drain(struct cri_proxy *p)
{
	if (!p || !p->listener.loop)
		return;
	listener_stop(&p->listener);
	(void)unlink(p->cfg.address);
}

void cri_proxy_stop(struct cri_proxy *p)
{
	if (!p)
		return;
	cri_proxy_drain(p);
	pool_free(steal_ptr(&p->pool));
	while (p->relays)
		relay_close(p->relays);
}

void cri_proxy_free(struct cri_proxy *p)
{
	free(p);
}
