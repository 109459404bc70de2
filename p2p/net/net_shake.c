// SPDX-License-Identifier: Apache-2.0
/*
 * How two connections become a link.
 *
 *	connector                     acceptor
 *	control: HELLO      ------->
 *	         <-------  HELLO_ACK  with a nonce
 *	bulk:    BIND nonce ------->
 *	control: <-------  BIND_ACK   the link is up on both sides
 *
 * BIND_ACK is on the control connection so that nothing on it can come before.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "p2p/net/net_addr.h"
#include "p2p/net/net_priv.h"
#include "p2p/net/net_rdma.h"

#define NOTSENT_LOWAT (128 << 10)

/* Limit the unsent bytes in the kernel, so that a reader's piece waits behind no more than
 * this. */
static void conn_limit_unsent_bytes(struct conn *c)
{
	int lowat = NOTSENT_LOWAT;

	c->bulk = true;
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat,
			 sizeof(lowat));
}

int shake_connect(struct net_link *l, bool bulk, struct error *err)
{
	struct net *n = l->net;
	struct conn *c;
	int fd = socket(l->to.ss_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = 0;

	if (fd < 0)
		return error_errno(err, errno, "socket");
	c = conn_new(n, fd, true);
	if (!c) {
		close(fd);
		return error_nomem(err);
	}
	c->link = l;
	if (bulk)
		conn_limit_unsent_bytes(c);
	c->signs = bulk && n->security && n->cfg.security == NET_SIGNED_BULK;
	if (connect(fd, (const struct sockaddr *)&l->to, l->to_len) != 0 &&
	    errno != EINPROGRESS)
		rc = error_errno(err, errno, "connect");
	if (rc == 0 && n->security && !c->signs)
		rc = security_wrap(c, err);
	if (rc == 0)
		rc = conn_start(c, LOOP_WRITE, err);
	if (rc < 0) {
		conn_kill(c);
		return rc;
	}
	if (bulk)
		l->bulk = c;
	else
		l->control = c;
	return 0;
}

static int put_hello(struct conn *c, enum wire_type type,
		     const uint8_t nonce[WIRE_NONCE_SIZE])
{
	const struct net *n = c->net;
	struct wire_hello h = { .version = WIRE_VERSION,
				.version_min = WIRE_VERSION_MIN,
				.security = (uint8_t)n->cfg.security,
				.features = WIRE_FEATURE_OTHERS |
					    WIRE_FEATURE_IMAGE_PEX |
					    net_rdma_features(n),
				.instance = n->instance,
				.node = n->self };

	memcpy(h.nonce, nonce, WIRE_NONCE_SIZE);
	return wire_put_hello(&c->out, type, &h);
}

static int random_nonce(uint8_t nonce[WIRE_NONCE_SIZE])
{
	return getrandom(nonce, WIRE_NONCE_SIZE, 0) == WIRE_NONCE_SIZE ? 0
								       : -EIO;
}

void shake_begin(struct conn *c)
{
	struct net_link *l = c->link;
	struct error err = ERROR_INIT;
	struct wire_bind bind;
	int rc;

	if (!c->bulk) {
		rc = random_nonce(l->nonce);
		if (rc == 0)
			rc = put_hello(c, WIRE_HELLO, l->nonce);
	} else {
		c->signer = l->signer;
		memcpy(bind.nonce, l->nonce, WIRE_NONCE_SIZE);
		rc = wire_put_bind(&c->out, WIRE_BIND, &bind);
		if (rc == 0)
			rc = conn_sign_out(c, 0, &err);
		c->state = CONN_UP;
	}
	if (rc < 0) {
		error_set(&err, -rc, "cannot greet");
		conn_fail(c, &err);
		return;
	}
	conn_write(c);
}

/* ------------------------------------------------------------ who is there --- */

/* Value of bootseerd's --p2p-security. */
static const char *security_text(unsigned int security)
{
	static const char *const texts[] = { [NET_MUTUAL_TLS] = "tls",
					     [NET_SIGNED_BULK] = "signed",
					     [NET_OPEN] = "open" };

	return security < ARRAY_SIZE(texts) ? texts[security] : "another";
}

/* Check that the peer's HELLO fits this node's settings and the peer's certificate. */
static int check_hello(struct conn *c, const struct wire_hello *h,
		       const char *expected, struct error *err)
{
	const struct net *n = c->net;
	char name[sizeof(h->node.name)];

	if (h->security != n->cfg.security)
		return error_set(err, EPROTONOSUPPORT,
				 "--p2p-security of '%s' is %s, of '%s' it is "
				 "%s",
				 h->node.name, security_text(h->security),
				 n->self.name, security_text(n->cfg.security));
	if (n->security) {
		if (security_name(c, name, sizeof(name), err) < 0)
			return -err->code;
		if (strcmp(name, h->node.name) != 0)
			return error_set(
				err, EACCES,
				"it says that it is '%s', its certificate "
				"that it is '%s'",
				h->node.name, name);
	}
	if (expected && strcmp(expected, h->node.name) != 0)
		return error_set(err, EACCES,
				 "'%s' is there, not '%s': check "
				 "--p2p-advertise of both",
				 h->node.name, expected);
	if (strcmp(h->node.name, n->self.name) == 0)
		return error_set(err, ELOOP,
				 "it has this node's name, '%s': give each its "
				 "own --node-name",
				 n->self.name);
	return 0;
}

/* If the peer listens on all addresses (0.0.0.0), use the address it connects from. */
static void complete_addr(struct conn *c, struct net_node *node)
{
	struct sockaddr_storage said, from;
	socklen_t len;
	unsigned int port;

	if (net_addr_parse(node->addr, &said, &len, NULL) < 0) {
		node->addr[0] = '\0';
		return;
	}
	if (!net_addr_is_any(&said))
		return;
	port = net_addr_port(&said);
	len = sizeof(from);
	if (getpeername(c->fd, (struct sockaddr *)&from, &len) != 0)
		return;
	net_addr_set_port(&from, port);
	net_addr_format(&from, node->addr, sizeof(node->addr));
}

/*
 * There may be another link `o` to that node. Both sides must keep the same one: the one begun by
 * the lower name. True: `l` is kept.
 */
static bool link_replaces_other(struct net_link *l, struct net_link *o,
				struct error *why)
{
	struct net *n = l->net;
	bool keep_outgoing;

	if (o->instance && o->instance != l->instance) {
		error_set(why, ECONNRESET, "the node was started anew");
		return true;
	}
	error_set(why, EALREADY, "another link to '%s' is kept", l->peer.name);
	if (l->outgoing == o->outgoing)
		return false;
	keep_outgoing = strcmp(n->self.name, l->peer.name) < 0;
	return l->outgoing == keep_outgoing;
}

static bool settle_twins(struct net_link *l)
{
	struct error why = ERROR_INIT;
	struct net_link *o;

	for (o = l->net->links; o; o = o->next) {
		if (o == l || o->state == LINK_CLOSED ||
		    strcmp(o->peer.name, l->peer.name) != 0)
			continue;
		/* The end of `o` may have come and not been read yet. */
		if (o->state == LINK_UP)
			conn_read(o->control);
		if (o->state == LINK_CLOSED)
			continue;
		if (!link_replaces_other(l, o, &why)) {
			link_close(l, WIRE_LEAVE_TWICE, &why);
			return false;
		}
		link_close(o, WIRE_LEAVE_TWICE, &why);
	}
	return l->state != LINK_CLOSED;
}

/* --------------------------------------------------------------- messages --- */

static void link_adopt(struct net_link *l, struct conn *c,
		       const struct wire_hello *h)
{
	l->peer = h->node;
	l->instance = h->instance;
	l->features = h->features;
	complete_addr(c, &l->peer);
}

int shake_hello(struct conn *c, const struct wire_head *head,
		const uint8_t *body, struct error *err)
{
	struct net *n = c->net;
	struct wire_hello h;
	struct net_link *l;

	if (c->signs)
		return error_set(err, EPROTO, "HELLO without TLS");
	if (wire_get_hello(body, head->len, &h, err) < 0 ||
	    check_hello(c, &h, NULL, err) < 0)
		return -err->code;
	if (n->n_links >= n->cfg.links_max) {
		n->st.refused_total++;
		return error_set(err, EUSERS, "this node takes no more links");
	}
	l = link_new(n, false);
	if (!l)
		return error_nomem(err);
	net_forget_stranger(c);
	c->link = l;
	c->state = CONN_UP;
	l->control = c;
	l->to = c->from;
	link_adopt(l, c, &h);
	if (!settle_twins(l))
		return 0;
	if (random_nonce(l->nonce) < 0)
		return error_set(err, EIO, "no random bytes");
	if (n->cfg.security == NET_SIGNED_BULK &&
	    signer_new(c, &l->signer, err) < 0)
		return -err->code;
	link_put(l, put_hello(c, WIRE_HELLO_ACK, l->nonce));
	return 0;
}

int shake_hello_ack(struct conn *c, const struct wire_head *head,
		    const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct wire_hello h;

	if (wire_get_hello(body, head->len, &h, err) < 0 ||
	    check_hello(c, &h, l->expected, err) < 0)
		return -err->code;
	link_adopt(l, c, &h);
	c->state = CONN_UP;
	if (!settle_twins(l))
		return 0;
	memcpy(l->nonce, h.nonce, WIRE_NONCE_SIZE);
	if (c->net->cfg.security == NET_SIGNED_BULK &&
	    signer_new(c, &l->signer, err) < 0)
		return -err->code;
	return shake_connect(l, true, err);
}

static void link_up(struct net_link *l)
{
	struct net *n = l->net;

	l->state = LINK_UP;
	l->told = l->came_up = true;
	l->control->rx_at = l->control->tx_at = clock_now_ns();
	l->bulk->rx_at = l->bulk->tx_at = l->control->rx_at;
	n->st.links++;
	calm_recall(l);
	net_rdma_up(l);
	n->cfg.events->up(n->cfg.arg, l);
}

struct net_link *shake_find(struct net *n, const uint8_t *nonce)
{
	for (struct net_link *l = n->links; l; l = l->next)
		if (l->state == LINK_STARTING && !l->outgoing && !l->bulk &&
		    security_equal(l->nonce, nonce, WIRE_NONCE_SIZE))
			return l;
	return NULL;
}

int shake_bind(struct conn *c, const struct wire_head *head,
	       const uint8_t *body, struct error *err)
{
	struct net *n = c->net;
	struct net_link *l;
	struct wire_bind m;
	char name[sizeof(l->peer.name)];

	if (wire_get_bind(body, head->len, &m, err) < 0)
		return -err->code;
	l = shake_find(n, m.nonce);
	if (!l || c->signs != (n->cfg.security == NET_SIGNED_BULK))
		return error_set(err, EACCES, "it belongs to no link");
	if (n->cfg.security == NET_MUTUAL_TLS) {
		if (security_name(c, name, sizeof(name), err) < 0)
			return -err->code;
		if (strcmp(name, l->peer.name) != 0)
			return error_set(err, EACCES,
					 "'%s' shows a nonce of '%s'", name,
					 l->peer.name);
	}
	net_forget_stranger(c);
	c->link = l;
	c->signer = l->signer;
	c->state = CONN_UP;
	l->bulk = c;
	conn_limit_unsent_bytes(c);
	n->st.links_total++;
	link_put(l, wire_put_bind(link_out(l), WIRE_BIND_ACK, &m));
	if (l->state != LINK_CLOSED)
		link_up(l);
	return 0;
}

int shake_bind_ack(struct conn *c, const struct wire_head *head,
		   const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct wire_bind m;

	if (wire_get_bind(body, head->len, &m, err) < 0)
		return -err->code;
	if (!l->outgoing || !l->bulk || l->bulk->state != CONN_UP ||
	    !security_equal(m.nonce, l->nonce, WIRE_NONCE_SIZE))
		return error_set(err, EPROTO, "BIND_ACK without BIND");
	link_up(l);
	return 0;
}
