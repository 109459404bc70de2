// SPDX-License-Identifier: Apache-2.0
/*
 * One connection: messages in and out, and the bytes of pieces, which go from a
 * file to the socket and from the socket to where they are wanted.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "common/clock.h"
#include "p2p/net_ack.h"
#include "p2p/net_fault.h"
#include "p2p/net_priv.h"
#include "p2p/net_rdma.h"

#define IN_SMALL (4u << 10)  /* of strangers and bulk connections */
#define IN_LARGE (16u << 10) /* of control connections */
#define GATHER (24u << 10)

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ------------------------------------------------------------------ plain --- */

static ssize_t result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* Where only bulk is plain, the first byte tells which one this is: TLS begins
 * with 22, and no message of ours is that long as its first one. */
static int plain_secure(struct conn *c, struct error *err)
{
	uint8_t first;
	ssize_t n;

	if (!c->net->security || c->outgoing || c->signs)
		return 0;
	n = result(recv(c->fd, &first, 1, MSG_PEEK));
	if (n == 0)
		return error_set(err, ECONNRESET, "it was closed at once");
	if (n < 0)
		return (int)n;
	if (first != 22) {
		c->signs = true;
		return 0;
	}
	if (security_wrap(c, err) < 0)
		return -err->code;
	return c->io->secure(c, err);
}

static ssize_t plain_recv(struct conn *c, void *a, size_t n_a, void *b,
			  size_t n_b)
{
	struct iovec iov[2] = { { a, n_a }, { b, n_b } };

	if (n_a == 0)
		return result(recv(c->fd, b, n_b, 0));
	return result(readv(c->fd, iov, n_b ? 2 : 1));
}

static ssize_t send_some(struct conn *c, const void *head, size_t n_head,
			 const struct net_body *body, size_t n_body)
{
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	off_t off;
	ssize_t n = 0;

	if (!body || body->fd < 0) {
		memcpy(&iov[0].iov_base, &head, sizeof(head));
		iov[0].iov_len = n_head;
		if (body)
			memcpy(&iov[1].iov_base, &body->data,
			       sizeof(body->data));
		iov[1].iov_len = n_body;
		if (!body)
			msg.msg_iovlen = 1;
		return result(sendmsg(c->fd, &msg, MSG_NOSIGNAL));
	}
	if (n_head) {
		n = result(send(c->fd, head, n_head, MSG_NOSIGNAL | MSG_MORE));
		if (n < (ssize_t)n_head)
			return n;
	}
	off = (off_t)body->off;
	n = result(sendfile(c->fd, body->fd, &off, n_body));
	if (n == 0)
		return -ENODATA; /* the file is shorter */
	if (n == -EAGAIN && n_head)
		return (ssize_t)n_head;
	return n < 0 ? n : n + (ssize_t)n_head;
}

static ssize_t plain_send(struct conn *c, const void *head, size_t n_head,
			  const struct net_body *body, size_t n_body)
{
	ssize_t n = send_some(c, head, n_head, body, n_body);

	if (n > 0)
		c->tx_total += (uint64_t)n;
	return n;
}

static int plain_flush(struct conn *c)
{
	return 0;
}

static void plain_close(struct conn *c)
{
}

const struct conn_io conn_plain = {
	.secure = plain_secure,
	.recv = plain_recv,
	.send = plain_send,
	.flush = plain_flush,
	.close = plain_close,
};

/* --------------------------------------------------------------- lifetime --- */

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
	/* It may learn why; whether it does is its own affair. */
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

/* A piece that comes slowly wakes nobody for each packet.  The tick reads what is
 * there, so that whoever sends a little is heard.  TLS may hold bytes back that the
 * socket has not any more. */
static void gather(struct conn *c)
{
	uint32_t most = least(c->body_left, GATHER);
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
	gather(c);
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
		error_set(&err, code, "connect: %s", strerror(code));
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

/* --------------------------------------------------------------------- in --- */

enum place {
	FROM_STRANGER = 1,
	FROM_CALLED = 2, /* whom we called and who did not answer yet */
	ON_HALF = 4,     /* control, while bulk is not there */
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
	if (m.kind == WIRE_LEAVE_DRAIN) {
		if (!l->leaving && link_is_up(l) && l->net->cfg.events->leaving)
			l->net->cfg.events->leaving(l->net->cfg.arg, l);
		l->leaving = true;
		return 0;
	}
	l->closing_said = true;
	error_set(&why, m.kind == WIRE_LEAVE_TWICE ? EALREADY : ESHUTDOWN,
		  "the other side closed the link: %s", m.text);
	link_close(l, WIRE_LEAVE_CLOSED, &why);
	return 0;
}

static int on_members(struct conn *c, const struct wire_head *h,
		      const uint8_t *body, struct error *err)
{
	struct net *n = c->net;
	size_t count;

	if (wire_get_members(body, h->len, n->members, &count, err) < 0)
		return -err->code;
	if (n->cfg.events->members)
		n->cfg.events->members(n->cfg.arg, c->link, n->members, count);
	return 0;
}

/* A signature is checked for an OPEN, and many names are looked up for a PEX.  All
 * the images of a link may be opened at once. */
#define COST_DEAR 9u
_Static_assert(2 * COST_DEAR * NET_IMAGES_MAX < NET_CALM_BURST,
	       "a link's images cannot be opened at once");

static const struct message {
	message_fn *fn;
	unsigned int from;
	unsigned int cost; /* in the bound on messages a second */
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
	[RDMA_OFFER] = { net_rdma_hear, ON_CONTROL, 1 },
	[RDMA_ACCEPT] = { net_rdma_hear, ON_CONTROL, 1 },
	[RDMA_READY] = { net_rdma_hear, ON_CONTROL, 1 },
	[RDMA_GRANT] = { net_rdma_hear, ON_CONTROL, 0 },
	[RDMA_DONE] = { net_rdma_hear, ON_CONTROL, 0 },
	[RDMA_CLOSE] = { net_rdma_hear, ON_CONTROL, 1 },
};

static unsigned int place_of(const struct conn *c)
{
	if (!c->link)
		return FROM_STRANGER;
	if (c->bulk)
		return 0;
	if (c->state == CONN_GREETING)
		return FROM_CALLED;
	return c->link->state == LINK_UP ? ON_CONTROL : ON_HALF;
}

static int dispatch(struct conn *c, const struct wire_head *h,
		    const uint8_t *body, struct error *err)
{
	const struct message *m = NULL;
	int64_t now;

	if (h->type < ARRAY_SIZE(messages) && messages[h->type].fn)
		m = &messages[h->type];
	if (!m && (h->flags & WIRE_OPTIONAL) && link_is_up(c->link))
		return 0;
	if (!m || !(m->from & place_of(c)))
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

/* Bytes of a body came: from the buffer or straight to their place. */
static void body_came(struct conn *c, uint32_t n)
{
	bucket_take(&c->net->down, n);
	piece_moved(c, n);
}

static void take_body(struct conn *c)
{
	while (c->body_left && c->in_at < c->in.len && c->state != CONN_DEAD) {
		uint32_t n =
			least(c->body_left, (uint32_t)(c->in.len - c->in_at));
		uint8_t *to = piece_place(c, &n);

		if (to)
			memcpy(to, c->in.data + c->in_at, n);
		c->in_at += n;
		body_came(c, n);
	}
}

static int check_mac(struct conn *c, const uint8_t *at, const uint8_t *fields,
		     uint32_t n, const struct wire_head *h, struct error *err)
{
	struct net_link *l = c->link;

	if (!c->signs)
		return 0;
	/* The link that a stranger names has the key. */
	if (!l && h->type == WIRE_BIND && n == WIRE_NONCE_SIZE)
		l = shake_find(c->net, fields);
	if (!l || !l->signer ||
	    !signer_check(l->signer, at, fields, n, at + WIRE_HEAD_SIZE))
		return error_set(err, EBADMSG,
				 "a message is not signed by its sender");
	return 0;
}

/* The fields of DATA were read, its body follows. */
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

/* What comes first is TLS's: an alert, or the begin of a handshake. */
static bool is_tls(const struct conn *c, const uint8_t *at)
{
	return !c->tls && c->state == CONN_GREETING &&
	       (at[0] == 21 || at[0] == 22) && at[1] == 3;
}

/* One message; 0, -EAGAIN when it is not there whole, or why it is wrong. */
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
		c->signs = false; /* it understands what is not signed */
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
				   : dispatch(c, &h, fields, err);
}

static int parse(struct conn *c, struct error *err)
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

/* Room after what is not parsed yet. */
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

/* Read once; the bytes, 0 when it has to wait, or -errno. */
static ssize_t read_some(struct conn *c, struct error *err)
{
	uint32_t n = least(c->body_left, NET_BUDGET), came;
	size_t spare = 0;
	uint8_t *to = NULL;
	ssize_t got;

	if (make_room(c) < 0)
		return error_nomem(err);
	if (n) {
		if (c->bulk && c->net->down.rate)
			n = bucket_look(&c->net->down, least(n, NET_SLICE),
					clock_now_ns());
		if (n == 0) {
			c->rx_paused = true;
			net_wait_refill(c->net);
			return 0;
		}
		to = piece_place(c, &n);
		if (!to) {
			to = c->net->scratch;
			n = least(n, NET_SCRATCH);
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
	came = least((uint32_t)got, n);
	c->in.len += (size_t)got - came;
	if (came)
		body_came(c, came);
	return got;
}

/* A message that breaks a rule is an error of protocol, whatever the rule. */
static void refuse(struct conn *c, struct error *err)
{
	if (err->code == EINVAL || err->code == EMSGSIZE)
		err->code = EPROTO;
	conn_fail(c, err);
}

/* Bytes in one turn, so that the others have theirs. */
static uint32_t budget_of(const struct conn *c, const struct bucket *b)
{
	return c->bulk && !b->rate ? NET_BUDGET : NET_SLICE;
}

void conn_read(struct conn *c)
{
	struct error err = ERROR_INIT;
	uint32_t moved = 0, budget = budget_of(c, &c->net->down);
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
		if (parse(c, &err) < 0) {
			refuse(c, &err);
			return;
		}
	}
	/* TLS may hold bytes that the socket does not tell of. */
	if (c->state != CONN_DEAD && c->tls)
		net_read_again(c);
}

/* -------------------------------------------------------------------- out --- */

int conn_sign_out(struct conn *c, size_t from, struct error *err)
{
	size_t n = c->out.len - from - WIRE_HEAD_SIZE;
	char *at;

	if (!c->signs)
		return 0;
	if (buf_reserve(&c->out, WIRE_MAC_SIZE) < 0)
		return error_nomem(err);
	at = c->out.data + from;
	memmove(at + WIRE_HEAD_SIZE + WIRE_MAC_SIZE, at + WIRE_HEAD_SIZE, n);
	c->out.len += WIRE_MAC_SIZE;
	if (signer_sign(c->signer, at, at + WIRE_HEAD_SIZE + WIRE_MAC_SIZE, n,
			(uint8_t *)at + WIRE_HEAD_SIZE) < 0)
		return error_set(err, EIO, "cannot sign a message");
	return 0;
}

/* The next part of the first piece. */
static int begin_part(struct conn *c)
{
	struct answer *a = c->answers;
	uint32_t left = a->piece.len - a->at;
	struct wire_head h = { .type = WIRE_DATA,
			       .prio = (uint8_t)a->priority,
			       .req = a->req };
	struct wire_data d = { .piece = a->piece.piece,
			       .off = a->at,
			       .total = a->piece.len,
			       .form = a->piece.form };
	uint8_t *fields = c->head + WIRE_HEAD_SIZE;

	c->part_left = c->bulk ? left : least(left, NET_PART_MAX);
	h.len = WIRE_DATA_SIZE + c->part_left;
	wire_put_head(c->head, &h);
	if (c->signs)
		fields += WIRE_MAC_SIZE;
	wire_put_data(fields, &d);
	c->head_len = (uint32_t)(fields - c->head) + WIRE_DATA_SIZE;
	c->head_at = 0;
	a->begun = true;
	if (!c->signs)
		return 0;
	return signer_sign(c->signer, c->head, fields, WIRE_DATA_SIZE,
			   c->head + WIRE_HEAD_SIZE);
}

static void part_moved(struct conn *c, uint32_t n)
{
	struct answer *a = c->answers;
	uint32_t head = least(n, c->head_len - c->head_at);

	c->head_at += head;
	n -= head;
	a->at += n;
	c->part_left -= n;
	bucket_take(&c->net->up, n);
	c->link->st.sent_bytes += n;
	c->link->st.queued_bytes -= n;
	c->net->st.sent_bytes_total += n;
	net_rdma_moved(c->link, n);
	if (c->part_left)
		return;
	c->head_len = 0;
	if (a->at < a->piece.len)
		return;
	c->answers = a->next;
	if (c->answers)
		c->answers->pprev = &c->answers;
	else
		c->answers_last = &c->answers;
	piece_sent(c, a);
}

static ssize_t write_part(struct conn *c)
{
	struct answer *a = c->answers;
	struct net_body body = a->body;
	uint32_t n;
	ssize_t sent;

	if (!c->head_len && begin_part(c) < 0)
		return -EIO;
	n = least(c->part_left, NET_BUDGET);
	if (c->bulk && c->net->up.rate) {
		n = bucket_look(&c->net->up, least(n, NET_SLICE),
				clock_now_ns());
		if (n == 0) {
			c->tx_paused = true;
			net_wait_refill(c->net);
			return 0;
		}
	}
	if (body.fd >= 0)
		body.off += a->at;
	else
		body.data = (const char *)body.data + a->at;
	sent = c->io->send(c, c->head + c->head_at, c->head_len - c->head_at,
			   &body, n);
	if (sent > 0)
		part_moved(c, (uint32_t)sent);
	return sent;
}

static ssize_t write_messages(struct conn *c)
{
	ssize_t n = c->io->send(c, c->out.data + c->out_at,
				c->out.len - c->out_at, NULL, 0);

	if (n <= 0)
		return n;
	c->out_at += (size_t)n;
	if (c->out_at == c->out.len) {
		c->out.len = c->out_at = 0;
	} else if (c->out_at > c->out.len / 2) {
		c->out.len -= c->out_at;
		memmove(c->out.data, c->out.data + c->out_at, c->out.len);
		c->out_at = 0;
	}
	return n;
}

void conn_write(struct conn *c)
{
	struct error err = ERROR_INIT;
	uint32_t moved = 0, budget = budget_of(c, &c->net->up);
	ssize_t n;

	if (c->state != CONN_GREETING && c->state != CONN_UP)
		return;
	c->wants_write = false;
	do {
		n = c->io->flush(c);
		if (n < 0)
			break;
		if (!c->head_len && c->out_at < c->out.len)
			n = write_messages(c);
		else if (c->answers)
			n = write_part(c);
		if (n > 0) {
			moved += (uint32_t)n;
			c->tx_at = clock_now_ns();
		}
	} while (n > 0 && moved < budget);
	if (n == -EAGAIN || n > 0) {
		c->wants_write = true;
	} else if (n < 0) {
		error_set(&err, (int)-n, "send: %s", strerror((int)-n));
		conn_fail(c, &err);
		return;
	}
	conn_update(c);
}
