// SPDX-License-Identifier: Apache-2.0
/*
 * A peer on both connections of a link.  The input is a script of what the peer says
 * where, byte by byte, and of what the node asks for and takes back meanwhile.  Behind
 * the memory of each piece lies a fence that nothing may touch, and each memory comes
 * back once.
 */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/net/net_priv.h"

#define PIECES 8u
#define PIECE_MAX 600u
#define ASKS_MAX 64u
#define FENCE 1024u
#define FENCE_BYTE 0x5a

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct script {
	const uint8_t *data;
	size_t len;
};

/* What one connection is going to read. */
struct said {
	uint8_t bytes[8192];
	size_t n, at;
};

struct world {
	struct net *net;
	struct net_link *link; /* NULL: it went */
	struct digest image;
	struct said said[2]; /* control, bulk */
	uint32_t asks
		[ASKS_MAX]; /* numbers of the requests that the peer heard */
	size_t n_asks;
	unsigned int n_rooms;
	uint8_t answer[64];
};

struct piece_room {
	uint32_t len;
	uint8_t data[];
};

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static uint8_t next(struct script *s)
{
	if (!s->len)
		return 0;
	s->len--;
	return *s->data++;
}

/* --------------------------------------------------------------- the node --- */

static void room_free(struct world *w, void *data)
{
	struct piece_room *r =
		container_of((uint8_t *)data, struct piece_room, data);

	for (size_t k = 0; k < FENCE; k++)
		must(r->data[r->len + k] == FENCE_BYTE);
	must(w->n_rooms > 0);
	w->n_rooms--;
	free(r);
}

static void *on_room(void *arg, struct net_link *l, const struct net_piece *p)
{
	struct world *w = arg;
	struct piece_room *r;

	must(p->piece < PIECES && p->len > 0 && p->len <= PIECE_MAX);
	if (p->piece == PIECES - 1)
		return NULL; /* as without memory */
	r = malloc(sizeof(*r) + p->len + FENCE);
	must(r != NULL);
	r->len = p->len;
	memset(r->data + r->len, FENCE_BYTE, FENCE);
	w->n_rooms++;
	return r->data;
}

static void on_got(void *arg, struct net_link *l, const struct net_piece *p,
		   void *data)
{
	must(container_of((uint8_t *)data, struct piece_room, data)->len ==
	     p->len);
	room_free(arg, data);
}

static void on_lost(void *arg, struct net_link *l, const struct net_piece *p,
		    void *data)
{
	room_free(arg, data);
}

static void on_moves(void *arg, struct net_link *l, const struct net_piece *p,
		     uint32_t n)
{
	must(n > 0 && n <= p->len);
}

static void on_link(void *arg, struct net_link *l)
{
}

static void on_down(void *arg, struct net_link *l, const struct error *why)
{
	((struct world *)arg)->link = NULL;
}

static int on_may_open(void *arg, struct net_link *l,
		       const struct digest *image, const void *capability,
		       size_t len, struct error *err)
{
	return digest_equal(image, &((struct world *)arg)->image) ? 0 : -ENOENT;
}

static void on_opened(void *arg, struct net_link *l, const struct digest *image)
{
}

static void on_closed(void *arg, struct net_link *l, const struct digest *image,
		      enum swarm_refusal why)
{
}

static void check_ranges(const struct swarm_range *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		must(r[i].n > 0 && r[i].first + r[i].n <= PIECES);
		must(i == 0 || r[i].first >= r[i - 1].first + r[i - 1].n);
	}
}

static void on_news(void *arg, struct net_link *l, const struct digest *image,
		    const struct swarm_range *have, size_t n_have,
		    const struct swarm_range *lost, size_t n_lost,
		    const struct swarm_range *promised, size_t n_promised,
		    int64_t eta_ns)
{
	check_ranges(have, n_have);
	check_ranges(lost, n_lost);
	check_ranges(promised, n_promised);
}

/* Odd ones are refused. */
static void on_wanted(void *arg, struct net_link *l, const struct digest *image,
		      const uint32_t *pieces, size_t n,
		      enum source_priority priority)
{
	struct world *w = arg;
	struct net_piece p = { .image = *image,
			       .piece = pieces[0],
			       .len = sizeof(w->answer) };
	struct net_body body = { .fd = -1, .data = w->answer };

	for (size_t k = 0; k < n; k++)
		must(pieces[k] < PIECES);
	if (pieces[0] % 2)
		net_refuse(l, image, pieces[0], SWARM_BUSY, 1);
	else
		net_send(l, &p, priority, &body, 1);
}

static void on_unwanted(void *arg, struct net_link *l,
			const struct digest *image, uint32_t piece)
{
}

static void on_refused(void *arg, struct net_link *l,
		       const struct digest *image, uint32_t piece,
		       enum swarm_refusal why, int64_t retry_ns)
{
	must(piece < PIECES);
}

static void on_sent(void *arg, struct net_link *l, uint64_t tag)
{
}

static void on_members(void *arg, struct net_link *l,
		       const struct digest *image, const struct net_node *nodes,
		       size_t n)
{
	must(!image || digest_equal(image, &((struct world *)arg)->image));
	for (size_t k = 0; k < n; k++)
		must(nodes[k].name[0] != '\0');
}

static const struct net_events events = {
	.up = on_link,
	.down = on_down,
	.may_open = on_may_open,
	.opened = on_opened,
	.closed = on_closed,
	.news = on_news,
	.wanted = on_wanted,
	.unwanted = on_unwanted,
	.room = on_room,
	.moves = on_moves,
	.got = on_got,
	.lost = on_lost,
	.refused = on_refused,
	.sent = on_sent,
	.members = on_members,
};

/* --------------------------------------------------------- its connections --- */

static struct world world;

static size_t take(struct said *s, void *to, size_t n)
{
	if (n > s->n - s->at)
		n = s->n - s->at;
	if (n)
		memcpy(to, s->bytes + s->at, n);
	s->at += n;
	return n;
}

static ssize_t io_recv(struct conn *c, void *a, size_t n_a, void *b, size_t n_b)
{
	struct said *s = &world.said[c->bulk];
	size_t n = a ? take(s, a, n_a) : 0;

	if (n == (a ? n_a : 0))
		n += take(s, b, n_b);
	return n ? (ssize_t)n : -EAGAIN;
}

/* The peer hears what it is asked for. */
static ssize_t io_send(struct conn *c, const void *head, size_t n_head,
		       const struct net_body *body, size_t n_body)
{
	const uint8_t *at = head;
	size_t left = n_head;
	struct wire_head h;

	while (left >= WIRE_HEAD_SIZE && wire_get_head(at, &h, NULL) == 0) {
		if (h.type == WIRE_WANT)
			world.asks[world.n_asks++ % ASKS_MAX] = h.req;
		if (left - WIRE_HEAD_SIZE < h.len)
			break;
		at += WIRE_HEAD_SIZE + h.len;
		left -= WIRE_HEAD_SIZE + h.len;
	}
	return (ssize_t)(n_head + n_body);
}

static int io_flush(struct conn *c)
{
	return 0;
}

static void io_close(struct conn *c)
{
}

static const struct conn_io io = {
	.recv = io_recv,
	.send = io_send,
	.flush = io_flush,
	.close = io_close,
};

static struct conn *connect_one(struct net_link *l, bool is_bulk)
{
	struct conn *c = conn_new(l->net, -1, false);

	must(c != NULL);
	c->io = &io;
	c->link = l;
	c->bulk = is_bulk;
	c->state = CONN_UP;
	return c;
}

/* ------------------------------------------------------------ what is said --- */

static void hear(struct world *w, bool is_bulk)
{
	struct said *s = &w->said[is_bulk];

	net_enter(w->net);
	if (w->link)
		conn_read(is_bulk ? w->link->bulk : w->link->control);
	net_leave(w->net);
	if (s->at == s->n)
		s->at = s->n = 0;
}

static void say(struct world *w, bool is_bulk, const void *bytes, size_t n)
{
	struct said *s = &w->said[is_bulk];

	if (n > sizeof(s->bytes) - s->n)
		return;
	memcpy(s->bytes + s->n, bytes, n);
	s->n += n;
	hear(w, is_bulk);
}

static void say_buf(struct world *w, bool is_bulk, struct buf *b, int rc)
{
	must(rc == 0);
	say(w, is_bulk, b->data, b->len);
	buf_fini(b);
}

/* Sizes are such that parts of one piece meet often. */
static uint32_t size_of(uint8_t b)
{
	return 1 + b % 8 * 75 + b / 8 % 3;
}

static void say_data(struct world *w, struct script *s, bool is_bulk)
{
	uint8_t which = next(s), parts = next(s), sizes = next(s);
	struct wire_data d = { .piece = which % PIECES,
			       .off = parts % 4 ? size_of(parts) : 0,
			       .form = parts >> 7,
			       .total = size_of(sizes) };
	uint32_t n = sizes >> 7 ? size_of(next(s)) : d.total - d.off;
	struct wire_head h = { .type = WIRE_DATA,
			       .len = WIRE_DATA_SIZE + n,
			       .req = w->asks[which / PIECES % ASKS_MAX] };
	uint8_t head[WIRE_HEAD_SIZE + WIRE_DATA_SIZE];

	wire_put_head(head, &h);
	wire_put_data(head + WIRE_HEAD_SIZE, &d);
	say(w, is_bulk, head, sizeof(head));
}

static void say_bytes(struct world *w, struct script *s, bool is_bulk)
{
	uint8_t bytes[PIECE_MAX], b = next(s);
	uint32_t n = size_of(b);

	memset(bytes, 'A', sizeof(bytes));
	if (b >> 7 && n > 1)
		n--; /* all but the last one */
	say(w, is_bulk, bytes, n);
}

static void ask(struct world *w, struct script *s, bool is_bulk)
{
	uint32_t pieces[2] = { next(s) % PIECES, next(s) % PIECES };

	net_enter(w->net);
	if (w->link)
		net_ask(w->link, &w->image, pieces,
			1 + (pieces[0] != pieces[1]), PIECE_MAX, SOURCE_HOT);
	net_leave(w->net);
}

static void take_back(struct world *w, struct script *s, bool is_bulk)
{
	void *room = NULL;

	net_enter(w->net);
	if (w->link)
		room = net_cancel(w->link, &w->image, next(s) % PIECES);
	if (room)
		room_free(w, room);
	net_leave(w->net);
}

static void say_no(struct world *w, struct script *s, bool is_bulk)
{
	struct wire_nack m = { .why = next(s) % (SWARM_SENDING + 1),
			       .cancelled = next(s) & 1 };
	struct buf b = BUF_INIT;

	say_buf(w, is_bulk, &b,
		wire_put_nack(&b, w->asks[next(s) % ASKS_MAX], &m));
}

static void say_want(struct world *w, struct script *s, bool is_bulk)
{
	uint8_t b = next(s);
	struct wire_want m = { .alias = 3, .piece = b % 16, .len_max = 100 };
	struct buf out = BUF_INIT;

	if (b & 16)
		say_buf(w, is_bulk, &out,
			wire_put_empty(&out, WIRE_CANCEL, b / 32));
	else
		say_buf(w, is_bulk, &out,
			wire_put_want(&out, b / 32, SOURCE_HOT, &m));
}

static void say_have(struct world *w, struct script *s, bool is_bulk)
{
	struct wire_have m = { .alias = 3 };
	struct swarm_range r[9];
	struct buf b = BUF_INIT;
	size_t n;

	m.n_have = next(s) % 4;
	m.n_lost = next(s) % 4;
	m.n_promised = next(s) % 4;
	n = m.n_have + m.n_lost + m.n_promised;
	for (size_t k = 0; k < n; k++) {
		uint8_t at = next(s);

		r[k] = (struct swarm_range){ at % 16, at / 16 };
	}
	say_buf(w, is_bulk, &b, wire_put_have(&b, &m, r));
}

static void say_any(struct world *w, struct script *s, bool is_bulk)
{
	size_t n = next(s);

	if (n > s->len)
		n = s->len;
	say(w, is_bulk, s->data, n);
	s->data += n;
	s->len -= n;
}

static void (*const ops[])(struct world *w, struct script *s, bool is_bulk) = {
	say_data, say_bytes, ask,      take_back,
	say_no,   say_want,  say_have, say_any,
};

/* ---------------------------------------------------------------- the whole --- */

static void make_net(struct world *w)
{
	struct net_config cfg = { .listen = "127.0.0.1:0",
				  .self.name = "n",
				  .security = NET_OPEN,
				  .events = &events,
				  .arg = w };
	struct error err = ERROR_INIT;

	must(loop_new(&cfg.loop, &err) == 0);
	must(net_new(&cfg, &w->net, &err) == 0);
}

static void begin(struct world *w)
{
	struct wire_open open = { .alias = 3, .n_pieces = PIECES };
	struct wire_verdict yes = { .ok = true };
	struct net_link *l;
	struct buf b = BUF_INIT;

	w->n_asks = w->n_rooms = 0;
	memset(w->said, 0, sizeof(w->said));
	memset(w->asks, 0, sizeof(w->asks));
	net_enter(w->net);
	l = link_new(w->net, false);
	must(l != NULL);
	l->control = connect_one(l, false);
	l->bulk = connect_one(l, true);
	l->state = LINK_UP;
	l->told = l->came_up = true;
	l->features = WIRE_FEATURE_OTHERS;
	w->net->st.links++;
	w->link = l;
	must(net_open_image(l, &w->image, PIECES, NULL, 0, NULL) == 0);
	net_leave(w->net);
	yes.alias = l->images->alias;
	open.image = w->image;
	say_buf(w, false, &b, wire_put_open(&b, 1, &open));
	say_buf(w, false, &b,
		wire_put_verdict(&b, WIRE_OPEN_ACK, l->images->open_req, &yes));
	must(w->link && image_is_open(l->images));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct script s = { data, len };

	if (!world.net)
		make_net(&world);
	begin(&world);
	while (s.len && world.link) {
		uint8_t op = next(&s);

		ops[(op >> 1) % ARRAY_SIZE(ops)](&world, &s, op & 1);
	}
	net_enter(world.net);
	if (world.link)
		net_close(world.link, "the script ends");
	net_leave(world.net);
	must(!world.link && world.n_rooms == 0);
	return 0;
}
