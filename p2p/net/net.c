// SPDX-License-Identifier: Apache-2.0
/* The table of links, incoming connections, and the order in which events are reported and
 * objects freed. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "net/traffic.h"
#include "p2p/net/net_ack.h"
#include "p2p/net/net_addr.h"
#include "p2p/net/net_fault.h"
#include "p2p/net/net_priv.h"
#include "p2p/net/net_rdma.h"

#define CONNECT_NS (1 * NS_PER_S)
#define HANDSHAKE_NS (5 * NS_PER_S)
#define IDLE_NS (60 * NS_PER_S)
#define PING_MAX_NS (5 * NS_PER_S)
#define REFILL_NS (2 * NS_PER_MS)
#define BURST_MIN (128 << 10)

/* A call to the loop that may still be under way when its net is gone. */
struct net_post {
	struct loop_call call;
	struct net *net; /* NULL: gone */
	bool posted;
};

/* ------------------------------------------------------------------ rates --- */

static void call_for_each_conn(struct net *n, void (*fn)(struct conn *c))
{
	struct net_link *l, *next;

	for (l = n->links; l; l = next) {
		next = l->next;
		if (l->control)
			fn(l->control);
		if (l->bulk)
			fn(l->bulk);
	}
}

static void links_resume(struct conn *c)
{
	if (c->rx_paused) {
		c->rx_paused = false;
		conn_read(c);
	}
	if (c->tx_paused) {
		c->tx_paused = false;
		conn_write(c);
	}
	conn_update(c);
}

/* The first link in the list takes most of the rate, so put another one first now and then. It
 * is drawn by lot: turns in step with the refills would always favour the same link. */
static void links_rotate(struct net *n)
{
	struct net_link *l = n->links, *last = l;

	n->lots = n->lots * 6364136223846793005u + 1442695040888963407u;
	if (!l || !l->next || !(n->lots >> 63))
		return;
	while (last->next)
		last = last->next;
	n->links = l->next;
	n->links->pprev = &n->links;
	last->next = l;
	l->pprev = &last->next;
	l->next = NULL;
}

static void on_refill(struct loop_timer *t)
{
	struct net *n = container_of(t, struct net, refill);

	n->refilling = false;
	net_enter(n);
	links_rotate(n);
	call_for_each_conn(n, links_resume);
	net_leave(n);
}

void net_wait_refill(struct net *n)
{
	if (n->refilling)
		return;
	/* Without memory for a timer the slower tick does this. */
	n->refilling =
		loop_timer_start(n->loop, &n->refill, REFILL_NS, NULL) == 0;
}

/* --------------------------------------------------------------- settling --- */

static void read_again(struct conn *c)
{
	if (!c->again)
		return;
	c->again = false;
	conn_read(c);
	conn_update(c);
}

static void on_post(struct loop_call *call)
{
	struct net_post *p = container_of(call, struct net_post, call);

	p->posted = false;
	if (!p->net) {
		free(p);
		return;
	}
	net_enter(p->net);
	call_for_each_conn(p->net, read_again);
	net_leave(p->net);
}

static void net_post_call(struct net *n)
{
	if (n->post->posted)
		return;
	n->post->posted = true;
	loop_post(n->loop, &n->post->call);
}

void net_read_again(struct conn *c)
{
	c->again = true;
	net_post_call(c->net);
}

void net_mark(struct net_link *l)
{
	struct net *n = l->net;

	if (l->marked)
		return;
	l->marked = true;
	l->next_marked = n->marked;
	n->marked = l;
	if (n->depth == 0)
		net_post_call(n);
}

static void link_free(struct net_link *l)
{
	*l->pprev = l->next;
	if (l->next)
		l->next->pprev = l->pprev;
	l->net->n_links--;
	signer_free(l->signer);
	free(l->expected);
	free(l);
}

static void report_or_free_link(struct net_link *l)
{
	struct net *n = l->net;

	if (l->state != LINK_CLOSED) {
		piece_tell(l);
		if (l->state == LINK_CLOSED)
			return; /* the link was marked again */
		if (l->control)
			conn_write(l->control);
		if (l->bulk && l->bulk->answers)
			conn_write(l->bulk);
		return;
	}
	/* A closed link reports no more calls of the user; free it. */
	l->marked = true;
	piece_drop_all(l);
	piece_tell(l);
	if (!l->came_up && l->why.code && l->why.code != EALREADY)
		net_tell_failure(n, l, &l->to, &l->why);
	if (l->told)
		n->cfg.events->down(n->cfg.arg, l,
				    l->why.code ? &l->why : NULL);
	image_free_all(l);
	link_free(l);
}

static void free_dead(struct net *n)
{
	struct conn *c, *next;

	for (c = n->dead; c; c = next) {
		next = c->next;
		buf_fini(&c->in);
		buf_fini(&c->out);
		free(c);
	}
	n->dead = NULL;
}

void net_enter(struct net *n)
{
	n->depth++;
}

void net_leave(struct net *n)
{
	struct net_link *l;

	if (n->depth > 1) {
		n->depth--;
		return;
	}
	while (n->marked) {
		l = n->marked;
		n->marked = l->next_marked;
		l->marked = false;
		report_or_free_link(l);
	}
	free_dead(n);
	n->depth--;
}

/* ------------------------------------------------------------------ links --- */

struct net_link *link_new(struct net *n, bool outgoing)
{
	struct net_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->net = n;
	l->outgoing = l->told = outgoing;
	l->since = clock_now_ns();
	bucket_init(&l->calm, NET_CALM_RATE, NET_CALM_BURST, l->since);
	bucket_init(&l->names, NET_NAMES_RATE, NET_NAMES_BURST, l->since);
	l->next = n->links;
	l->pprev = &n->links;
	if (l->next)
		l->next->pprev = &l->next;
	n->links = l;
	n->n_links++;
	net_start_tick(n);
	return l;
}

bool link_is_up(const struct net_link *l)
{
	return l && l->state == LINK_UP;
}

void link_close(struct net_link *l, enum wire_leave kind,
		const struct error *why)
{
	struct conn *c = l->control;

	if (l->state == LINK_CLOSED)
		return;
	if (l->state == LINK_UP) {
		l->net->st.links--;
		calm_keep(l);
	} else {
		l->net->st.handshakes_failed_total++;
	}
	l->state = LINK_CLOSED;
	if (why)
		l->why = *why;
	/* Best effort: messages that wait to be sent go out before this one. */
	if (c && c->state >= CONN_GREETING && !l->closing_said &&
	    !c->head_len &&
	    wire_put_goaway(&c->out, kind, why ? why->msg : "closed") == 0 &&
	    c->io->flush(c) == 0)
		(void)c->io->send(c, c->out.data + c->out_at,
				  c->out.len - c->out_at, NULL, 0);
	if (c)
		conn_kill(c);
	if (l->bulk)
		conn_kill(l->bulk);
	net_mark(l);
}

struct buf *link_out(struct net_link *l)
{
	return l->control && l->state != LINK_CLOSED ? &l->control->out
						     : &l->net->none;
}

void link_put(struct net_link *l, int rc)
{
	struct error err = ERROR_INIT;

	if (l->state == LINK_CLOSED)
		return;
	if (rc < 0) {
		error_set(&err, ENOBUFS, "it does not take our messages");
		link_close(l, WIRE_LEAVE_CLOSED, &err);
		return;
	}
	net_mark(l);
}

/* ------------------------------------------------------------------- tick --- */

/* Why a connection of a link is given up now, or NULL. */
static const char *find_conn_stall(struct conn *c, int64_t now)
{
	int64_t idle = c->net->cfg.idle_ns;
	bool waits = c->body_left || !c->bulk;

	if (!conn_has_output(c) || c->tx_paused)
		c->tx_at = now;
	else if (now - c->tx_at > idle)
		return "it takes no bytes";
	if (c->rx_paused || !waits)
		c->rx_at = now;
	else if (now - c->rx_at > idle)
		return "it is silent";
	return NULL;
}

static void link_ping(struct net_link *l, int64_t now)
{
	int64_t every = l->net->cfg.idle_ns / 3;

	if (now < l->ping_due || l->ping_at)
		return;
	l->ping_at = now;
	l->ping_due = now + (every < PING_MAX_NS ? every : PING_MAX_NS);
	link_put(l, wire_put_empty(link_out(l), WIRE_PING, ++l->ping_req));
}

static void check_link(struct net_link *l, int64_t now)
{
	const struct net_config *cfg = &l->net->cfg;
	struct error err = ERROR_INIT;
	const char *why = NULL;

	if (l->state == LINK_CLOSED)
		return;
	if (l->state == LINK_UP) {
		why = find_conn_stall(l->control, now);
		if (!why)
			why = find_conn_stall(l->bulk, now);
		if (!why)
			link_ping(l, now);
	} else if (now - l->since > cfg->handshake_ns) {
		why = "the handshake took too long";
	} else if ((l->control && l->control->state == CONN_CONNECTING &&
		    now - l->control->since > cfg->connect_ns) ||
		   (l->bulk && l->bulk->state == CONN_CONNECTING &&
		    now - l->bulk->since > cfg->connect_ns)) {
		why = "it cannot be reached";
	}
	if (!why)
		return;
	error_set(&err, ETIMEDOUT, "%s", why);
	link_close(l, WIRE_LEAVE_CLOSED, &err);
}

/* Read what the kernel gathered for a bulk connection that waits for more bytes. */
static void bulk_read_gathered(struct net_link *l)
{
	struct conn *c = l->bulk;

	if (l->state != LINK_UP || !c->wake_at || c->rx_paused)
		return;
	conn_read(c);
	conn_update(c);
}

static void on_tick(struct loop_timer *t)
{
	struct net *n = container_of(t, struct net, tick);
	struct error err = ERROR_INIT;
	struct net_link *l, *next;
	struct conn *c, *next_c;
	int64_t now = clock_now_ns();

	n->ticking = false;
	net_enter(n);
	for (l = n->links; l; l = next) {
		next = l->next;
		/* Before check_link(), which may find it silent. */
		bulk_read_gathered(l);
		check_link(l, now);
	}
	if (!n->refilling)
		call_for_each_conn(
			n,
			/* Links without memory for the refill timer. */
			links_resume);
	acks_look(n);
	error_set(&err, ETIMEDOUT, "the handshake took too long");
	for (c = n->strangers; c; c = next_c) {
		next_c = c->next;
		if (now - c->since > n->cfg.handshake_ns)
			conn_fail(c, &err);
	}
	net_leave(n);
	if (n->links || n->strangers)
		net_start_tick(n);
}

static int64_t min_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void net_start_tick(struct net *n)
{
	int64_t every = min_ns(min_ns(n->cfg.connect_ns, n->cfg.handshake_ns),
			       n->cfg.idle_ns) /
			4;

	if (n->ticking || n->freeing)
		return;
	if (every < 10 * NS_PER_MS)
		every = 10 * NS_PER_MS;
	n->ticking = loop_timer_start(n->loop, &n->tick, every, NULL) == 0;
}

/* -------------------------------------------------------------- strangers --- */

void net_forget_stranger(struct conn *c)
{
	struct conn **p;

	for (p = &c->net->strangers; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			c->net->n_strangers--;
			return;
		}
}

/* Is there room for a connection from this address that has not said its name?
 * NET_STRANGERS_ONE_MAX for each address. */
static bool stranger_has_room(const struct net *n,
			      const struct sockaddr_storage *from)
{
	unsigned int same = 0;

	for (const struct conn *c = n->strangers; c; c = c->next)
		same += net_addr_same_host(&c->from, from);
	return same < NET_STRANGERS_ONE_MAX;
}

/* Make room: an attacker may use many addresses, so the stranger that was silent for longest is
 * dropped. An honest node identifies itself within a few round trips. */
static void stranger_make_room(struct net *n)
{
	struct conn *c = n->strangers;

	if (n->n_strangers < NET_STRANGERS_MAX)
		return;
	while (c->next)
		c = c->next;
	n->st.refused_total++;
	conn_kill(c);
}

static void accept_one(struct net *n, int fd,
		       const struct sockaddr_storage *from)
{
	struct error err = ERROR_INIT;
	struct conn *c = NULL;

	if (stranger_has_room(n, from)) {
		stranger_make_room(n);
		c = conn_new(n, fd, false);
	}
	if (!c) {
		n->st.refused_total++;
		close(fd);
		return;
	}
	c->from = *from;
	c->next = n->strangers;
	n->strangers = c;
	n->n_strangers++;
	n->st.accepted_total++;
	net_start_tick(n);
	if ((n->security && n->cfg.security == NET_MUTUAL_TLS &&
	     security_wrap(c, &err) < 0) ||
	    conn_start(c, LOOP_READ, &err) < 0)
		conn_fail(c, &err);
}

static void on_accepted(struct listener *l, int fd,
			const struct sockaddr_storage *from)
{
	struct net *n = container_of(l, struct net, listener);

	net_enter(n);
	accept_one(n, fd, from);
	net_leave(n);
}

/* -------------------------------------------------------------- new, free --- */

static int begin_listening(struct net *n, struct error *err)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int fd = -1, rc;

	if (net_addr_parse(n->listen, &ss, &len, err) < 0)
		return error_wrap(err, -err->code, "--p2p-listen");
	rc = listener_open_tcp(&ss, len, 1024, "--p2p-listen", n->listen, &fd,
			       err);
	if (rc < 0)
		return rc;
	traffic_mark(fd, n->cfg.dscp); /* also for accepted connections */
	n->listener.name = "p2p";
	n->listener.accepted = on_accepted;
	rc = listener_start(&n->listener, n->loop, fd, err);
	if (rc < 0)
		return rc;
	len = sizeof(ss);
	if (getsockname(n->listener.fd, (struct sockaddr *)&ss, &len) < 0)
		return error_listen(err, errno, n->listen, "--p2p-listen");
	n->port = net_addr_port(&ss);
	if (!n->self.addr[0])
		net_addr_format(&ss, n->self.addr, sizeof(n->self.addr));
	return 0;
}

static char *copy_text_or_null(const char *s, bool *ok)
{
	char *c = s ? strdup(s) : NULL;

	*ok = *ok && (c || !s);
	return c;
}

static int64_t rate_burst(uint64_t rate)
{
	int64_t burst = (int64_t)(rate / 20);

	return burst > BURST_MIN ? burst : BURST_MIN;
}

static int set_up_net(struct net *n, struct error *err)
{
	bool ok = true;
	int64_t now = clock_now_ns();

	n->listen = copy_text_or_null(n->cfg.listen, &ok);
	n->ca_file = copy_text_or_null(n->cfg.ca_file, &ok);
	n->cert_file = copy_text_or_null(n->cfg.cert_file, &ok);
	n->key_file = copy_text_or_null(n->cfg.key_file, &ok);
	n->scratch = malloc(NET_SCRATCH);
	n->ranges = calloc(WIRE_RANGES_MAX, sizeof(*n->ranges));
	n->ranges_out = calloc(WIRE_RANGES_MAX, sizeof(*n->ranges_out));
	n->members = calloc(WIRE_MEMBERS_MAX, sizeof(*n->members));
	n->post = calloc(1, sizeof(*n->post));
	if (!ok || !n->scratch || !n->ranges || !n->ranges_out || !n->members ||
	    !n->post)
		return error_nomem(err);
	n->post->net = n;
	n->post->call.fn = on_post;
	if (!n->self.name[0])
		return error_set(err, EINVAL, "a node needs a name");
	if (getrandom(&n->instance, sizeof(n->instance), 0) !=
	    sizeof(n->instance))
		return error_set(err, EIO, "no random bytes");
	bucket_init(&n->up, n->cfg.upload_rate, rate_burst(n->cfg.upload_rate),
		    now);
	bucket_init(&n->down, n->cfg.download_rate,
		    rate_burst(n->cfg.download_rate), now);
	n->tick.fn = on_tick;
	n->refill.fn = on_refill;
	n->acks.fn = acks_on_timer;
	if (n->cfg.security != NET_OPEN &&
	    security_new(n, &n->security, err) < 0)
		return -err->code;
	if (begin_listening(n, err) < 0)
		return -err->code;
	return net_rdma_open(n, err);
}

static void set_default_if_unset(int64_t *ns, int64_t def)
{
	if (*ns <= 0)
		*ns = def;
}

int net_new(const struct net_config *cfg, struct net **ret, struct error *err)
{
	struct net *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return error_nomem(err);
	n->cfg = *cfg;
	n->self = cfg->self;
	n->loop = cfg->loop;
	n->none.limit = 1;
	set_default_if_unset(&n->cfg.connect_ns, CONNECT_NS);
	set_default_if_unset(&n->cfg.handshake_ns, HANDSHAKE_NS);
	set_default_if_unset(&n->cfg.idle_ns, IDLE_NS);
	if (!n->cfg.links_max || n->cfg.links_max > NET_LINKS_MAX)
		n->cfg.links_max = NET_LINKS_MAX;
	loop_assert_here(n->loop);
	rc = set_up_net(n, err);
	if (rc < 0) {
		net_free(n);
		return rc;
	}
	*ret = n;
	return 0;
}

void net_free(struct net *n)
{
	if (!n)
		return;
	loop_assert_here(n->loop);
	n->freeing = true;
	net_enter(n);
	listener_stop(&n->listener);
	while (n->strangers)
		conn_kill(n->strangers);
	for (struct net_link *l = n->links; l; l = l->next)
		net_close(l, "the node stops");
	if (n->post)
		net_leave(n);
	loop_timer_stop(&n->tick);
	loop_timer_stop(&n->refill);
	loop_timer_stop(&n->acks);
	if (n->post && n->post->posted)
		n->post->net = NULL; /* the posted call frees it */
	else
		free(n->post);
	net_rdma_close(n);
	security_free(n->security);
	free(n->listen);
	free(n->ca_file);
	free(n->cert_file);
	free(n->key_file);
	free(n->scratch);
	free(n->ranges);
	free(n->ranges_out);
	free(n->members);
	free(n);
}

/* ----------------------------------------------------------------- public --- */

const struct net_node *net_self(const struct net *n)
{
	return &n->self;
}

unsigned int net_port(const struct net *n)
{
	return n->port;
}

int net_connect(struct net *n, const char *addr, const char *name,
		struct net_link **ret, struct error *err)
{
	struct net_link *l;
	int rc;

	loop_assert_here(n->loop);
	if (n->freeing)
		return error_set(err, ESHUTDOWN, "this node leaves");
	if (n->n_links >= n->cfg.links_max)
		return error_set(err, ENOSPC, "%u links are there already",
				 n->n_links);
	if (name && strlen(name) >= sizeof(l->peer.name))
		return error_set(err, ENAMETOOLONG, "a node's name");
	l = link_new(n, true);
	if (!l)
		return error_nomem(err);
	rc = net_addr_parse(addr, &l->to, &l->to_len, err);
	if (rc == 0 && name) {
		l->expected = strdup(name);
		memcpy(l->peer.name, name, strlen(name) + 1);
		if (!l->expected)
			rc = error_nomem(err);
	}
	if (rc == 0)
		rc = shake_connect(l, false, err);
	if (rc < 0) {
		link_free(l);
		return rc;
	}
	n->st.links_total++;
	*ret = l;
	return 0;
}

void net_close(struct net_link *l, const char *why)
{
	if (l->state == LINK_CLOSED)
		return;
	/* Send the reason to the peer; the local user asked for the close and knows it. */
	if (l->control && l->control->state >= CONN_GREETING &&
	    !l->control->head_len && l->control->state != CONN_DEAD &&
	    wire_put_goaway(&l->control->out, WIRE_LEAVE_CLOSED, why) == 0)
		conn_write(l->control);
	l->closing_said = true;
	link_close(l, WIRE_LEAVE_CLOSED, NULL);
}

const struct net_node *net_peer(const struct net_link *l)
{
	return &l->peer;
}

void net_set_user(struct net_link *l, void *user)
{
	l->user = user;
}

void *net_user(const struct net_link *l)
{
	return l->user;
}

void net_members(struct net_link *l, const struct digest *image,
		 const struct net_node *nodes, size_t n)
{
	const struct net_image *i = image_find(l, image);

	if (!link_is_up(l) || !image_is_open(i))
		return;
	if (n > WIRE_MEMBERS_MAX)
		n = WIRE_MEMBERS_MAX;
	if (l->features & WIRE_FEATURE_IMAGE_PEX)
		link_put(l, wire_put_image_members(link_out(l), i->alias, nodes,
						   n));
	else
		link_put(l, wire_put_members(link_out(l), nodes, n));
}

void net_get_link(const struct net_link *l, struct net_link_stats *ret)
{
	*ret = l->st;
	ret->is_up = link_is_up(l);
	ret->is_rdma = l->rdma && rdma_link_is_ready(l->rdma);
}

void net_get_stats(const struct net *n, struct net_stats *ret)
{
	struct rdma_stats rdma = { .links = 0 };

	*ret = n->st;
	if (n->rdma)
		rdma_get_stats(n->rdma, &rdma);
	ret->rdma_fallbacks_total = rdma.fallbacks_total;
}
