// SPDX-License-Identifier: Apache-2.0
/*
 * Input of a connection: splits bytes into messages, checks that a message is allowed in the
 * connection's state, and passes the bytes of pieces to their memory.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/net/net_priv.h"
#include "p2p/net/net_rdma.h"
#include "p2p/net/net_turn.h"

/* Input buffer of unidentified and bulk connections. */
#define IN_SMALL (4u << 10)
#define IN_LARGE (16u << 10) /* input buffer of control connections */

enum place {
	FROM_STRANGER = 1,
	FROM_CALLED = 2, /* outgoing, HELLO_ACK not here yet */
	ON_HALF = 4,     /* control, without a bulk connection yet */
	ON_CONTROL = 8,
};

static int on_ping(struct conn *c, const struct wire_head *h,
		   const uint8_t *body, struct error *err)
{
	link_put(c->link, wire_put_empty(link_out(c->link), WIRE_PONG, h->req));
	return 0;
}

static int on_pong(struct conn *c, const struct wire_head *h,
		   const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;

	if (!l->ping_at || h->req != l->ping_req)
		return error_set(err, EPROTO, "PONG without PING");
	l->st.rtt_ns = clock_now_ns() - l->ping_at;
	l->ping_at = 0;
	return 0;
}

static int on_goaway(struct conn *c, const struct wire_head *h,
		     const uint8_t *body, struct error *err)
{
	struct net_link *l = c->link;
	struct wire_goaway m;
	struct error why = ERROR_INIT;

	if (wire_get_goaway(body, h->len, &m, err) < 0)
		return -err->code;
	l->closing_said = true;
	error_set(&why, m.kind == WIRE_LEAVE_TWICE ? EALREADY : ESHUTDOWN,
		  "the other side closed the link: %s", m.text);
	link_close(l, WIRE_LEAVE_CLOSED, &why);
	return 0;
}

/* May these announced names be processed? Each is searched among the members of `images`
 * images. Names beyond the rate are skipped; they will be announced again. */
static bool take_names_allowance(struct net_link *l, size_t count,
				 uint32_t images)
{
	if (bucket_look(&l->names, 1, clock_now_ns()) == 0)
		return false;
	bucket_take(&l->names, (uint32_t)count * (1 + images));
	return true;
}

static int on_members(struct conn *c, const struct wire_head *h,
		      const uint8_t *body, struct error *err)
{
	struct net *n = c->net;
	uint32_t images = 0;
	size_t count;

	if (wire_get_members(body, h->len, n->members, &count, err) < 0)
		return -err->code;
	for (const struct net_image *i = c->link->images; i; i = i->next)
		images += i->told;
	if (n->cfg.events->members &&
	    take_names_allowance(c->link, count, images))
		n->cfg.events->members(n->cfg.arg, c->link, NULL, n->members,
				       count);
	return 0;
}

static int on_image_members(struct conn *c, const struct wire_head *h,
			    const uint8_t *body, struct error *err)
{
	struct net *n = c->net;
	const struct net_image *i;
	uint16_t alias;
	size_t count;

	if (wire_get_image_members(body, h->len, &alias, n->members, &count,
				   err) < 0)
		return -err->code;
	i = image_by_alias(c->link, alias);
	if (!i) /* this side closed it */
		return 0;
	if (!i->told)
		return error_set(err, EPROTO,
				 "members of an image before it is open");
	if (n->cfg.events->members && take_names_allowance(c->link, count, 1))
		n->cfg.events->members(n->cfg.arg, c->link, &i->digest,
				       n->members, count);
	return 0;
}

/* Cost of an OPEN, whose signature is checked, and of a PEX with many names. Still all images
 * of a link may be opened at once. */
#define COST_DEAR 9u
_Static_assert(2 * COST_DEAR * NET_IMAGES_MAX < NET_CALM_BURST,
	       "a link's images cannot be opened at once");

static const struct net_message {
	message_fn *fn;
	unsigned int from;
	unsigned int cost; /* charged to the limit on messages a second */
} messages[] = {
	[WIRE_HELLO] = { shake_hello, FROM_STRANGER, 0 },
	[WIRE_HELLO_ACK] = { shake_hello_ack, FROM_CALLED, 0 },
	[WIRE_BIND] = { shake_bind, FROM_STRANGER, 0 },
	[WIRE_BIND_ACK] = { shake_bind_ack, ON_HALF, 0 },
	[WIRE_PING] = { on_ping, ON_CONTROL, 1 },
	[WIRE_PONG] = { on_pong, ON_CONTROL, 1 },
	[WIRE_GOAWAY] = { on_goaway, FROM_CALLED | ON_HALF | ON_CONTROL, 1 },
	[WIRE_OPEN] = { image_on_open, ON_CONTROL, COST_DEAR },
	[WIRE_OPEN_ACK] = { image_on_open_ack, ON_CONTROL, 1 },
	[WIRE_CLOSE] = { image_on_close, ON_CONTROL, 1 },
	[WIRE_HAVE] = { image_on_have, ON_CONTROL, 1 },
	[WIRE_WANT] = { piece_on_want, ON_CONTROL, 0 },
	[WIRE_NACK] = { piece_on_nack, ON_CONTROL, 0 },
	[WIRE_CANCEL] = { piece_on_cancel, ON_CONTROL, 1 },
	[WIRE_PEX] = { on_members, ON_CONTROL, COST_DEAR },
	[WIRE_RENEW] = { image_on_renew, ON_CONTROL, COST_DEAR },
	[WIRE_IMAGE_PEX] = { on_image_members, ON_CONTROL, COST_DEAR },
	[RDMA_OFFER] = { net_rdma_hear, ON_CONTROL, 1 },
	[RDMA_ACCEPT] = { net_rdma_hear, ON_CONTROL, 1 },
	[RDMA_READY] = { net_rdma_hear, ON_CONTROL, 1 },
	[RDMA_GRANT] = { net_rdma_hear, ON_CONTROL, 0 },
	[RDMA_DONE] = { net_rdma_hear, ON_CONTROL, 0 },
	[RDMA_CLOSE] = { net_rdma_hear, ON_CONTROL, 1 },
};

static unsigned int index_of_conn_state(const struct conn *c)
{
	if (!c->link)
		return FROM_STRANGER;
	if (c->bulk)
		return 0;
	if (c->state == CONN_GREETING)
		return FROM_CALLED;
	return c->link->state == LINK_UP ? ON_CONTROL : ON_HALF;
}

static int message_dispatch(struct conn *c, const struct wire_head *h,
			    const uint8_t *body, struct error *err)
{
	const struct net_message *m = NULL;
	int64_t now;

	if (h->type < ARRAY_SIZE(messages) && messages[h->type].fn)
		m = &messages[h->type];
	if (!m && (h->flags & WIRE_OPTIONAL) && link_is_up(c->link))
		return 0;
	if (!m || !(m->from & index_of_conn_state(c)))
		return error_set(err, EPROTO, "a message of type %u, not now",
				 h->type);
	if (m->cost && c->link) {
		now = clock_now_ns();
		if (bucket_look(&c->link->calm, 1, now) == 0)
			return error_set(err, ENOBUFS,
					 "it floods us with messages");
		bucket_take(&c->link->calm, m->cost);
	}
	return m->fn(c, h, body, err);
}

/* Count bytes of a body, read from the buffer or straight into their memory. */
static void count_body_bytes(struct conn *c, uint32_t n)
{
	bucket_take(&c->net->down, n);
	piece_moved(c, n);
}

static void take_body(struct conn *c)
{
	while (c->body_left && c->in_at < c->in.len && c->state != CONN_DEAD) {
		uint32_t n = turn_least(c->body_left,
					(uint32_t)(c->in.len - c->in_at));
		uint8_t *to = piece_place(c, &n);

		if (to)
			memcpy(to, c->in.data + c->in_at, n);
		c->in_at += n;
		count_body_bytes(c, n);
	}
}

static int check_mac(struct conn *c, const uint8_t *at, const uint8_t *fields,
		     uint32_t n, const struct wire_head *h, struct error *err)
{
	struct net_link *l = c->link;

	if (!c->signs)
		return 0;
	/* The link named by the BIND has the key. */
	if (!l && h->type == WIRE_BIND && n == WIRE_NONCE_SIZE)
		l = shake_find(c->net, fields);
	if (!l || !l->signer ||
	    !signer_check(l->signer, at, fields, n, at + WIRE_HEAD_SIZE))
		return error_set(err, EBADMSG,
				 "a message is not signed by its sender");
	return 0;
}

/* Begin the body of a DATA message whose fields were read. */
static int begin_data(struct conn *c, const struct wire_head *h,
		      const uint8_t *fields, struct error *err)
{
	struct wire_data d;
	uint32_t n = h->len - WIRE_DATA_SIZE;

	if (!link_is_up(c->link))
		return error_set(err, EPROTO, "bytes of a piece, not now");
	if (wire_get_data(fields, n, &d, err) < 0 ||
	    piece_on_data(c, h, &d, n, err) < 0)
		return -err->code;
	c->body_left = n;
	c->body_req = h->req;
	return 0;
}

/* Do the first bytes look like TLS: an alert, or the begin of a handshake? */
static bool is_tls(const struct conn *c, const uint8_t *at)
{
	return !c->tls && c->state == CONN_GREETING &&
	       (at[0] == 21 || at[0] == 22) && at[1] == 3;
}

/* Parse one message; 0; -EAGAIN: it is incomplete; else why it is wrong. */
static int parse_one(struct conn *c, struct error *err)
{
	uint32_t avail = (uint32_t)(c->in.len - c->in_at);
	const uint8_t *at, *fields;
	struct wire_head h;
	uint32_t before = WIRE_HEAD_SIZE + (c->signs ? WIRE_MAC_SIZE : 0), n;

	if (avail < WIRE_HEAD_SIZE)
		return -EAGAIN;
	at = (const uint8_t *)c->in.data + c->in_at;
	if (wire_get_head(at, &h, err) < 0)
		return !is_tls(c, at)
			       ? -err->code
			       : error_set(err, EPROTONOSUPPORT,
					   "it speaks TLS: its --p2p-security "
					   "is not open, as this node's is");
	if (c->signs && !c->link && h.type == WIRE_HELLO) {
		c->signs = false; /* the peer can only read an unsigned
		                   * reason */
		return error_set(err, EPROTONOSUPPORT,
				 "--p2p-security of one node is open, of the "
				 "other signed");
	}
	n = h.len;
	if (h.type == WIRE_DATA) {
		if (n <= WIRE_DATA_SIZE)
			return error_set(err, EPROTO, "DATA without bytes");
		n = WIRE_DATA_SIZE;
	}
	if (n > IN_SMALL && (!link_is_up(c->link) || c->bulk))
		return error_set(err, EPROTO, "a message of %u bytes, not now",
				 n);
	if (avail < before + n)
		return buf_reserve(&c->in, before + n) < 0 ? error_nomem(err)
							   : -EAGAIN;
	fields = at + before;
	if (check_mac(c, at, fields, n, &h, err) < 0)
		return -err->code;
	c->in_at += before + n;
	return h.type == WIRE_DATA ? begin_data(c, &h, fields, err)
				   : message_dispatch(c, &h, fields, err);
}

static int input_parse(struct conn *c, struct error *err)
{
	int rc = 0;

	while (rc == 0 && c->state != CONN_DEAD) {
		take_body(c);
		if (c->body_left)
			break;
		rc = parse_one(c, err);
	}
	if (c->in_at == c->in.len)
		c->in_at = c->in.len = 0;
	return rc == -EAGAIN ? 0 : rc;
}

/* Make room after the bytes that are not parsed yet. */
static int make_room(struct conn *c)
{
	size_t want = c->bulk || !link_is_up(c->link) ? IN_SMALL : IN_LARGE;

	if (c->in_at) {
		c->in.len -= c->in_at;
		memmove(c->in.data, c->in.data + c->in_at, c->in.len);
		c->in_at = 0;
	}
	if (c->in.cap <= c->in.len + 1)
		want += c->in.len;
	else if (c->in.cap >= want)
		return 0;
	return buf_reserve(&c->in, want - c->in.len);
}

/* Read once; returns the number of bytes, 0 when it has to wait, or -errno. */
static ssize_t read_some(struct conn *c, struct error *err)
{
	uint32_t n = turn_least(c->body_left, NET_BUDGET), came;
	size_t spare = 0;
	uint8_t *to = NULL;
	ssize_t got;

	if (make_room(c) < 0)
		return error_nomem(err);
	if (n) {
		if (c->bulk && c->net->down.rate)
			n = bucket_look_bytes(&c->net->down,
					      turn_least(n, NET_SLICE),
					      clock_now_ns());
		if (n == 0) {
			c->rx_paused = true;
			net_wait_refill(c->net);
			return 0;
		}
		to = piece_place(c, &n);
		if (!to) {
			to = c->net->scratch;
			n = turn_least(n, NET_SCRATCH);
		}
	}
	if (n == c->body_left)
		spare = c->in.cap - 1 - c->in.len;
	got = c->io->recv(c, to, n, c->in.data + c->in.len, spare);
	if (got == 0)
		return error_set(err, ECONNRESET,
				 "the other side closed the connection%s",
				 c->state == CONN_GREETING && c->outgoing
					 ? " without a word: is it a "
					   "bootseerd, of this --p2p-security?"
					 : "");
	if (got < 0)
		return got == -EAGAIN ? 0
				      : error_set(err, (int)-got, "receive: %s",
						  c->why ? c->why
							 : strerror((int)-got));
	came = turn_least((uint32_t)got, n);
	c->in.len += (size_t)got - came;
	if (came)
		count_body_bytes(c, came);
	return got;
}

/* Fail the connection: a message that breaks any rule is a protocol error. */
static void input_refuse(struct conn *c, struct error *err)
{
	if (err->code == EINVAL || err->code == EMSGSIZE)
		err->code = EPROTO;
	conn_fail(c, err);
}

void conn_read(struct conn *c)
{
	struct error err = ERROR_INIT;
	uint32_t moved = 0, budget = turn_budget(c, &c->net->down);
	ssize_t n;

	while (c->state != CONN_DEAD && moved < budget) {
		n = read_some(c, &err);
		if (c->state == CONN_DEAD || n == 0)
			return;
		if (n < 0) {
			conn_fail(c, &err);
			return;
		}
		c->rx_at = clock_now_ns();
		moved += (uint32_t)n;
		if (input_parse(c, &err) < 0) {
			input_refuse(c, &err);
			return;
		}
	}
	/* TLS may hold bytes for which the socket gives no event. */
	if (c->state != CONN_DEAD && c->tls)
		net_read_again(c);
}
