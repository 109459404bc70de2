// SPDX-License-Identifier: Apache-2.0
/*
 * Somebody who speaks the protocol and breaks it: he is closed with a reason, and a
 * link to another node goes on as if nothing was.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "common/bytes.h"
#include "nodes.h"
#include "p2p/net_priv.h"

TestSuite(net_hostile, .timeout = 60);

#define MS INT64_C(1000000)

/* The node under test, a friend of it, and the stranger's sockets. */
struct scene {
	struct nodes all;
	struct node *a, *friend;
	int control, bulk;
	struct buf in; /* from control */
	uint32_t wants;
	uint32_t last_req; /* of the last WANT that came */
	char goodbye[WIRE_TEXT_MAX + 1];
	bool mute; /* answers no ping */
};

static int call(struct scene *s)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(getsockname(s->a->net->listen_fd, (struct sockaddr *)&ss,
				 &len),
		     0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&ss, len), 0);
	return fd;
}

/* As much as the node takes; it may have closed already. */
static void say(int fd, const void *data, size_t n)
{
	const char *p = data;
	ssize_t sent;

	while (n && (sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) {
		p += sent;
		n -= (size_t)sent;
	}
}

static void say_buf(int fd, struct buf *b)
{
	say(fd, b->data, b->len);
	buf_fini(b);
}

static void say_head(int fd, uint8_t type, uint16_t flags, uint32_t len)
{
	struct wire_head h = { .type = type, .flags = flags, .len = len };
	uint8_t head[WIRE_HEAD_SIZE];

	wire_put_head(head, &h);
	say(fd, head, sizeof(head));
}

static void say_data(int fd, uint32_t req, const struct wire_data *d,
		     uint32_t n, uint32_t really)
{
	struct wire_head h = { .type = WIRE_DATA,
			       .len = WIRE_DATA_SIZE + n,
			       .req = req };
	uint8_t head[WIRE_HEAD_SIZE + WIRE_DATA_SIZE];
	char *body = calloc(1, really + 1);

	wire_put_head(head, &h);
	wire_put_data(head + WIRE_HEAD_SIZE, d);
	say(fd, head, sizeof(head));
	say(fd, body, really);
	free(body);
}

/* Read what came on control, answer pings, note the rest; the type looked for
 * ends it, with its body in `body`. */
static bool hear(struct scene *s, uint8_t wanted, uint8_t body[64])
{
	char chunk[4096];
	ssize_t n;
	bool found = false;

	while ((n = recv(s->control, chunk, sizeof(chunk), MSG_DONTWAIT)) > 0)
		cr_assert_eq(buf_append(&s->in, chunk, (size_t)n), 0);
	while (!found && s->in.len >= WIRE_HEAD_SIZE) {
		struct buf out = BUF_INIT;
		struct wire_head h;
		struct wire_goaway g;
		const uint8_t *at = (const uint8_t *)s->in.data;

		cr_assert_eq(wire_get_head(at, &h, NULL), 0);
		if (s->in.len < WIRE_HEAD_SIZE + h.len)
			break;
		at += WIRE_HEAD_SIZE;
		if (h.type == WIRE_PING && !s->mute) {
			cr_assert_eq(wire_put_empty(&out, WIRE_PONG, h.req), 0);
			say_buf(s->control, &out);
		} else if (h.type == WIRE_GOAWAY) {
			cr_assert_eq(wire_get_goaway(at, h.len, &g, NULL), 0);
			(void)strcpy(s->goodbye, g.text);
		} else if (h.type == WIRE_WANT) {
			s->wants++;
			s->last_req = h.req;
		}
		if (h.type == wanted) {
			found = true;
			memcpy(body, at, h.len < 64 ? h.len : 64);
		}
		s->in.len -= WIRE_HEAD_SIZE + h.len;
		memmove(s->in.data, s->in.data + WIRE_HEAD_SIZE + h.len,
			s->in.len);
	}
	return found;
}

static bool gone(struct scene *s)
{
	uint8_t body[64];

	(void)hear(s, 0, body);
	return s->a->downs > 0;
}

/* A friend is linked, and the stranger has shaken hands. */
static void begin(struct scene *s, int64_t handshake_ns, int64_t idle_ns)
{
	memset(s, 0, sizeof(*s));
	s->control = s->bulk = -1;
	nodes_init(&s->all);
	s->all.cfg.handshake_ns = handshake_ns;
	s->all.cfg.idle_ns = idle_ns;
	s->a = nodes_add(&s->all, "a");
	s->friend = nodes_add(&s->all, "friend");
	nodes_link(s->friend, s->a);
	nodes_open(s->friend, s->a);
}

static void say_hello(int fd, const char *name)
{
	struct buf b = BUF_INIT;
	struct wire_hello h = { .version = 1,
				.version_min = 1,
				.security = NET_OPEN,
				.instance = 9 };

	(void)strcpy(h.node.name, name);
	cr_assert_eq(wire_put_hello(&b, WIRE_HELLO, &h), 0);
	say_buf(fd, &b);
}

static void greet(struct scene *s)
{
	struct buf b = BUF_INIT;
	struct wire_bind bind;
	uint8_t body[64];

	s->control = call(s);
	say_hello(s->control, "stranger");
	until(&s->all, hear(s, WIRE_HELLO_ACK, body));
	memcpy(bind.nonce, body + 18, sizeof(bind.nonce));
	s->bulk = call(s);
	cr_assert_eq(wire_put_bind(&b, WIRE_BIND, &bind), 0);
	say_buf(s->bulk, &b);
	until(&s->all, hear(s, WIRE_BIND_ACK, body));
	cr_assert_eq(s->a->ups, 2);
}

/* ... and both take part in the image. */
static void enter(struct scene *s)
{
	struct buf b = BUF_INIT;
	struct wire_open m = { .alias = 3,
			       .n_pieces = s->all.n_pieces,
			       .image = s->all.image };
	struct wire_verdict v = { .ok = true };
	uint8_t body[64];

	greet(s);
	s->a->openeds = 0;
	cr_assert_eq(wire_put_open(&b, 1, &m), 0);
	say_buf(s->control, &b);
	until(&s->all, hear(s, WIRE_OPEN, body));
	v.alias = get_le16(body);
	cr_assert_eq(wire_put_verdict(&b, WIRE_OPEN_ACK, 1, &v), 0);
	say_buf(s->control, &b);
	until(&s->all, s->a->openeds == 1);
}

/* The friend noticed nothing. */
static void end(struct scene *s)
{
	int gots = s->friend->gots;

	s->a->serves = SERVES_FILE;
	nodes_ask(s->friend, 0, 8, SOURCE_HOT);
	until(&s->all, s->friend->gots == gots + 8);
	cr_expect_eq(s->friend->bad_bytes, 0);
	cr_expect_eq(s->friend->downs, 0);
	cr_expect_eq(s->a->rooms, s->a->gots + s->a->losts);
	if (s->control >= 0)
		close(s->control);
	if (s->bulk >= 0)
		close(s->bulk);
	buf_fini(&s->in);
	nodes_fini(&s->all);
}

/* The stranger is closed with this, and told so. */
static void expect_down(struct scene *s, int code, const char *text)
{
	uint8_t body[64];

	until(&s->all, gone(s));
	cr_expect_eq(s->a->why.code, code, "%d: %s", s->a->why.code,
		     s->a->why.msg);
	cr_expect_not_null(strstr(s->a->why.msg, text), "%s", s->a->why.msg);
	(void)hear(s, 0, body);
}

static struct net_stats stats(struct scene *s)
{
	struct net_stats st;

	net_get_stats(s->a->net, &st);
	return st;
}

Test(net_hostile, speaks_something_else)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	s.control = call(&s);
	say(s.control, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 28);
	until(&s.all, stats(&s).handshakes_failed_total == 1);
	cr_expect_eq(stats(&s).protocol_errors_total, 1);
	end(&s);
}

Test(net_hostile, says_nothing)
{
	struct scene s;

	begin(&s, 100 * MS, 60000 * MS);
	s.control = call(&s);
	until(&s.all, stats(&s).handshakes_failed_total == 1);
	end(&s);
}

Test(net_hostile, brings_no_second_connection)
{
	struct scene s;

	begin(&s, 100 * MS, 60000 * MS);
	s.control = call(&s);
	say_hello(s.control, "stranger");
	until(&s.all, stats(&s).handshakes_failed_total == 1);
	cr_expect_eq(s.a->ups, 1);
	cr_expect_eq(s.a->downs, 0);
	end(&s);
}

Test(net_hostile, binds_to_a_link_that_is_not_his)
{
	struct scene s;
	struct buf b = BUF_INIT;
	struct wire_bind bind = { .nonce = { 1 } };

	begin(&s, 5000 * MS, 60000 * MS);
	s.bulk = call(&s);
	cr_assert_eq(wire_put_bind(&b, WIRE_BIND, &bind), 0);
	say_buf(s.bulk, &b);
	until(&s.all, stats(&s).handshakes_failed_total == 1);
	end(&s);
}

Test(net_hostile, takes_all_places_of_strangers)
{
	struct scene s;
	int fds[NET_STRANGERS_ONE_MAX + 8];

	begin(&s, 1000 * MS, 60000 * MS);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = call(&s);
	until(&s.all, stats(&s).refused_total == 8);
	until(&s.all,
	      stats(&s).handshakes_failed_total == NET_STRANGERS_ONE_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	greet(&s);
	end(&s);
}

Test(net_hostile, begins_with_a_long_message)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	s.control = call(&s);
	say_head(s.control, WIRE_HELLO, 0, 60000);
	until(&s.all, stats(&s).handshakes_failed_total == 1);
	end(&s);
}

Test(net_hostile, sends_a_head_with_a_wrong_sum)
{
	struct scene s;
	uint8_t head[WIRE_HEAD_SIZE] = { 0 };

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	say(s.control, head, sizeof(head));
	expect_down(&s, EBADMSG, "head");
	end(&s);
}

Test(net_hostile, sends_types_that_nobody_knows)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	/* What may be skipped is. */
	say_head(s.control, 200, WIRE_OPTIONAL, 5);
	say(s.control, "hello", 5);
	say_head(s.control, WIRE_PING, 0, 0);
	until(&s.all, hear(&s, WIRE_PONG, (uint8_t[64]){ 0 }));
	say_head(s.control, 200, 0, 0);
	expect_down(&s, EPROTO, "type 200");
	cr_expect_not_null(strstr(s.goodbye, "type 200"), "%s", s.goodbye);
	end(&s);
}

Test(net_hostile, sends_bytes_that_nobody_asked_for)
{
	struct scene s;
	struct wire_data d = { .piece = 1, .total = 100 };

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	say_data(s.bulk, 77, &d, 100, 100);
	expect_down(&s, EPROTO, "nobody asked");
	cr_expect_eq(s.a->rooms, 0);
	end(&s);
}

/* The node asks the stranger for piece 5, of 1000 bytes at most. */
static void be_asked(struct scene *s)
{
	uint8_t body[64];

	enter(s);
	net_ask(s->a->link, &s->all.image, &(uint32_t){ 5 }, 1, 1000,
		SOURCE_HOT);
	until(&s->all, hear(s, WIRE_WANT, body));
}

Test(net_hostile, sends_more_than_was_asked_for)
{
	struct scene s;
	struct wire_data d = { .piece = 5, .total = 1001 };

	begin(&s, 5000 * MS, 60000 * MS);
	be_asked(&s);
	say_data(s.bulk, s.last_req, &d, 1001, 1001);
	expect_down(&s, EPROTO, "nobody asked");
	cr_expect_eq(s.a->rooms, 0);
	end(&s);
}

Test(net_hostile, sends_parts_that_do_not_fit)
{
	struct scene s;
	struct wire_data d = { .piece = 5, .total = 1000 };

	begin(&s, 5000 * MS, 60000 * MS);
	be_asked(&s);
	say_data(s.bulk, s.last_req, &d, 500, 500);
	until(&s.all, s.a->moved == 500);
	d.off = 400;
	say_data(s.bulk, s.last_req, &d, 500, 500);
	expect_down(&s, EPROTO, "nobody asked");
	cr_expect_eq(s.a->losts, 1);
	end(&s);
}

/* The node asks the stranger for piece `k`, of any size. */
static void be_asked_for(struct scene *s, uint32_t k)
{
	uint8_t body[64];

	net_ask(s->a->link, &s->all.image, &k, 1, NODES_PIECE_SIZE, SOURCE_HOT);
	until(&s->all, hear(s, WIRE_WANT, body));
}

static void say_zeros(int fd, size_t n)
{
	char *zeros = calloc(1, n);

	say(fd, zeros, n);
	free(zeros);
}

/* Bytes of bulk that the kernel gathers before it wakes the node. */
static int gathered(struct scene *s)
{
	socklen_t len = sizeof(int);
	int n = -1;

	cr_assert_eq(getsockopt(s->a->link->bulk->fd, SOL_SOCKET, SO_RCVLOWAT,
				&n, &len),
		     0);
	return n;
}

/* A turn takes a millisecond at least: so many pass until `*at` is `n`, at most. */
static int turns_until(struct scene *s, const uint64_t *at, uint64_t n)
{
	int turns = 0;

	while (*at != n && turns < 3000 && !gone(s)) {
		nodes_turn(&s->all);
		turns++;
	}
	cr_assert_eq(*at, n, "%" PRIu64 " after %d turns", *at, turns);
	return turns;
}

Test(net_hostile, sends_a_few_bytes_of_a_piece_and_is_heard)
{
	struct wire_data d = { .piece = 5, .total = NODES_PIECE_SIZE };
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	be_asked_for(&s, 5);
	say_data(s.bulk, s.last_req, &d, d.total, 100);
	until(&s.all, s.a->moved == 100);
	cr_assert_gt(gathered(&s), 1000, "they come with the tick, or never");
	for (uint64_t more = 700; more <= 1300; more += 600) {
		say_zeros(s.bulk, 600);
		cr_expect_lt(turns_until(&s, &s.a->moved, more), 1000);
	}
	say_zeros(s.bulk, d.total - 1300);
	until(&s.all, s.a->gots == 1);
	end(&s);
}

/* As where there was no memory for the timer of a rate. */
Test(net_hostile, sends_to_who_has_no_timer)
{
	struct wire_data d = { .piece = 5, .total = 60000 };
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	be_asked_for(&s, 5);
	say_data(s.bulk, s.last_req, &d, d.total, 100);
	until(&s.all, s.a->moved == 100);
	s.a->link->bulk->rx_paused = true;
	conn_update(s.a->link->bulk);
	say_zeros(s.bulk, d.total - 100);
	turns_until(&s, &s.a->moved, d.total);
	cr_expect_eq(s.a->gots, 1);
	end(&s);
}

/* Nothing but what comes wakes the node: its tick is far away. */
static void begin_without_tick(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->control = s->bulk = -1;
	nodes_init(&s->all);
	s->all.cfg.connect_ns = s->all.cfg.handshake_ns = s->all.cfg.idle_ns =
		600000 * MS;
	s->a = nodes_add(&s->all, "a");
	s->friend = nodes_add(&s->all, "friend");
	nodes_link(s->friend, s->a);
	nodes_open(s->friend, s->a);
}

Test(net_hostile, ends_pieces_with_fewer_bytes_than_are_gathered)
{
	struct wire_data d = { .piece = 5, .total = 60000 };
	struct scene s;
	uint32_t req;

	begin_without_tick(&s);
	enter(&s);
	be_asked_for(&s, 5);
	req = s.last_req;
	be_asked_for(&s, 6);
	say_data(s.bulk, req, &d, d.total, 100);
	turns_until(&s, &s.a->moved, 100);
	cr_assert_gt(gathered(&s), 20000);
	/* More than is gathered, and then the rest. */
	say_zeros(s.bulk, 55000);
	turns_until(&s, &s.a->moved, 55100);
	cr_expect_eq(gathered(&s), 4900);
	say_zeros(s.bulk, 4899);
	say_zeros(s.bulk, 1);
	turns_until(&s, &s.a->moved, 60000);
	cr_expect_eq(s.a->gots, 1);
	/* The head of the next one is less than was gathered of this one. */
	cr_expect_eq(gathered(&s), 1);
	d.piece = 6;
	say_data(s.bulk, s.last_req, &d, d.total, 1);
	turns_until(&s, &s.a->moved, 60001);
	say_zeros(s.bulk, d.total - 1);
	turns_until(&s, &s.a->moved, 120000);
	cr_expect_eq(s.a->gots, 2);
	end(&s);
}

/* A machine that stood still does not take for silence what it has not looked at. */
Test(net_hostile, sends_a_few_bytes_while_the_node_stands_still)
{
	const struct timespec still = { .tv_nsec = 400 * MS };
	struct wire_data d = { .piece = 5, .total = NODES_PIECE_SIZE };
	struct buf b = BUF_INIT;
	struct scene s = { .control = -1, .bulk = -1 };

	nodes_init(&s.all);
	s.all.cfg.idle_ns = 300 * MS;
	s.a = nodes_add(&s.all, "a");
	s.a->ups = 1; /* there is no friend */
	enter(&s);
	be_asked_for(&s, 5);
	say_data(s.bulk, s.last_req, &d, d.total, 100);
	turns_until(&s, &s.a->moved, 100);
	say_zeros(s.bulk, 600);
	cr_assert_eq(wire_put_empty(&b, WIRE_PING, 1), 0);
	say_buf(s.control, &b);
	(void)nanosleep(&still, NULL);
	turns_until(&s, &s.a->moved, 700);
	cr_expect_eq(s.a->downs, 0, "%s", s.a->why.msg);
	close(s.control);
	close(s.bulk);
	buf_fini(&s.in);
	nodes_fini(&s.all);
}

Test(net_hostile, stops_in_the_midst_of_a_piece)
{
	struct scene s;
	struct wire_data d = { .piece = 5, .total = 1000 };

	begin(&s, 5000 * MS, 300 * MS);
	be_asked(&s);
	say_data(s.bulk, s.last_req, &d, 1000, 600);
	expect_down(&s, ETIMEDOUT, "silent");
	cr_expect_eq(s.a->losts, 1);
	end(&s);
}

Test(net_hostile, answers_no_ping)
{
	struct scene s;

	begin(&s, 5000 * MS, 300 * MS);
	greet(&s);
	s.mute = true;
	expect_down(&s, ETIMEDOUT, "silent");
	end(&s);
}

Test(net_hostile, asks_and_does_not_read)
{
	struct scene s;
	struct wire_want m = { .alias = 3, .len_max = BLOCK_USIZE_MAX };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 500 * MS);
	enter(&s);
	for (m.piece = 0; m.piece < NODES_PIECES; m.piece++)
		cr_assert_eq(wire_put_want(&b, m.piece + 1, SOURCE_HOT, &m), 0);
	say_buf(s.control, &b);
	expect_down(&s, ETIMEDOUT, "takes no bytes");
	cr_expect_eq(s.a->wants, s.a->sents);
	end(&s);
}

Test(net_hostile, does_not_read_messages)
{
	struct scene s;
	struct swarm_range r[1000];

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		r[i] = (struct swarm_range){ 1, 1 };
	for (int i = 0; i < 2000 && !s.a->downs; i++) {
		struct net_link *l = s.a->link;

		if (l)
			net_news(l, &s.all.image, r, ARRAY_SIZE(r), NULL, 0,
				 NULL, 0, 0);
		nodes_turn(&s.all);
	}
	cr_expect_eq(s.a->downs, 1);
	cr_expect_eq(s.a->why.code, ENOBUFS, "%s", s.a->why.msg);
	end(&s);
}

Test(net_hostile, floods_with_messages)
{
	struct scene s;
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	for (int i = 0; i < 20000; i++)
		cr_assert_eq(wire_put_empty(&b, WIRE_PING, 1), 0);
	say_buf(s.control, &b);
	expect_down(&s, ENOBUFS, "floods");
	end(&s);
}

/* Each costs the node more than a PING does. */
Test(net_hostile, floods_with_members)
{
	struct net_node somebody = { .name = "c", .addr = "127.0.0.1:1" };
	struct scene s;
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	for (int i = 0; i < 4000; i++)
		cr_assert_eq(wire_put_members(&b, &somebody, 1), 0);
	say_buf(s.control, &b);
	expect_down(&s, ENOBUFS, "floods");
	end(&s);
}

static void want(struct scene *s, uint32_t first, uint32_t n)
{
	struct wire_want m = { .alias = 3, .len_max = BLOCK_USIZE_MAX };
	struct buf b = BUF_INIT;

	for (m.piece = first; m.piece < first + n; m.piece++)
		cr_assert_eq(wire_put_want(&b, m.piece + 1, SOURCE_HOT, &m), 0);
	say_buf(s->control, &b);
}

Test(net_hostile, wants_too_much_at_once)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	s.all.n_pieces = NET_WANTS_MAX + 1;
	enter(&s);
	s.a->serves = HOLDS;
	want(&s, 0, NET_WANTS_MAX);
	until(&s.all, s.a->wants == (int)NET_WANTS_MAX);
	cr_expect_eq(s.a->downs, 0);
	want(&s, NET_WANTS_MAX, 1);
	expect_down(&s, ENOBUFS, "too much at once");
	end(&s);
}

Test(net_hostile, wants_ever_more_and_does_not_read)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	s.all.n_pieces = 4 * NET_WANTS_MAX;
	enter(&s);
	want(&s, 0, NET_WANTS_MAX);
	until(&s.all, s.a->wants == (int)NET_WANTS_MAX);
	/* Some have left, into the sockets; the others are all there may be. */
	want(&s, NET_WANTS_MAX, NET_WANTS_MAX);
	expect_down(&s, ENOBUFS, "too much at once");
	cr_expect_eq(s.a->wants, s.a->sents);
	end(&s);
}

Test(net_hostile, wants_the_same_twice)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	s.a->serves = HOLDS;
	want(&s, 1, 1);
	want(&s, 1, 1);
	expect_down(&s, EPROTO, "twice");
	end(&s);
}

Test(net_hostile, wants_what_is_not_there)
{
	struct scene s;
	struct wire_want m = { .alias = 3,
			       .piece = NODES_PIECES,
			       .len_max = 1 };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	cr_assert_eq(wire_put_want(&b, 1, SOURCE_HOT, &m), 0);
	say_buf(s.control, &b);
	expect_down(&s, EPROTO, "wants piece 64 of 64");
	end(&s);
}

Test(net_hostile, wants_pieces_before_he_is_let_in)
{
	struct scene s;
	struct wire_want m = { .alias = 3, .len_max = 1 };
	struct buf b = BUF_INIT;
	struct wire_open open = { .alias = 3, .n_pieces = NODES_PIECES };
	uint8_t body[64];

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	s.a->verdict = -EACCES;
	open.image = s.all.image;
	cr_assert_eq(wire_put_open(&b, 1, &open), 0);
	cr_assert_eq(wire_put_want(&b, 1, SOURCE_DEMAND, &m), 0);
	say_buf(s.control, &b);
	until(&s.all, hear(&s, WIRE_NACK, body));
	cr_expect_eq(s.a->wants, 0);
	end(&s);
}

Test(net_hostile, tells_of_pieces_that_cannot_be)
{
	struct scene s;
	struct wire_have m = { .alias = 3, .n_have = 1 };
	struct swarm_range r = { NODES_PIECES - 1, 2 };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	cr_assert_eq(wire_put_have(&b, &m, &r), 0);
	say_buf(s.control, &b);
	expect_down(&s, EPROTO, "news of pieces");
	cr_expect_eq(s.a->news, 0);
	end(&s);
}

/* Open images [first, first + n), and hear the answers: how many are `ok`. */
static unsigned int open_many(struct scene *s, uint32_t first, uint32_t n)
{
	struct wire_open m = { .n_pieces = 1 };
	struct buf b = BUF_INIT;
	struct wire_verdict v;
	unsigned int ok = 0;
	uint8_t body[64];

	for (uint32_t i = first; i < first + n; i++) {
		m.alias = (uint16_t)i;
		put_le32(m.image.b, i);
		cr_assert_eq(wire_put_open(&b, i, &m), 0);
	}
	say_buf(s->control, &b);
	for (uint32_t i = first; i < first + n; i++) {
		until(&s->all, hear(s, WIRE_OPEN_ACK, body));
		cr_assert_eq(wire_get_verdict(body, 4, &v, NULL), 0);
		cr_assert_eq(v.alias, i);
		ok += v.ok;
		s->a->refusal = v.why;
	}
	return ok;
}

Test(net_hostile, opens_too_many_images)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	s.a->opens_back = false;
	/* What the node has not takes no place. */
	s.a->verdict = -ENOENT;
	cr_expect_eq(open_many(&s, 0, 100), 0);
	cr_expect_eq(s.a->refusal, SWARM_GONE);
	s.a->verdict = 0;
	cr_expect_eq(open_many(&s, 100, NET_IMAGES_MAX), NET_IMAGES_MAX);
	cr_expect_eq(open_many(&s, 100 + NET_IMAGES_MAX, 1), 0);
	cr_expect_eq(s.a->refusal, SWARM_BUSY);
	cr_expect_eq(s.a->downs, 0, "%s", s.a->why.msg);
	end(&s);
}

Test(net_hostile, says_that_the_image_is_another)
{
	struct scene s;
	struct wire_open m = { .alias = 1, .n_pieces = NODES_PIECES + 1 };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	m.image = s.all.image;
	cr_assert_eq(wire_put_open(&b, 1, &m), 0);
	say_buf(s.control, &b);
	expect_down(&s, EPROTO, "pieces here");
	end(&s);
}

Test(net_hostile, refuses_what_nobody_asked)
{
	struct scene s;
	struct wire_nack m = { .why = SWARM_BUSY };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	cr_assert_eq(wire_put_nack(&b, 5, &m), 0);
	say_buf(s.control, &b);
	expect_down(&s, EPROTO, "refuses what nobody asked");
	end(&s);
}

Test(net_hostile, renews_another_image_than_it_opened)
{
	struct scene s;
	struct wire_open m = { .alias = 3, .n_pieces = NODES_PIECES };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	/* What is not open is passed over. */
	m.alias = 4;
	cr_assert_eq(wire_put_renew(&b, &m), 0);
	m.alias = 3;
	cr_assert_eq(wire_put_renew(&b, &m), 0);
	say_buf(s.control, &b);
	expect_down(&s, EPROTO, "renews another");
	end(&s);
}

/* Bytes that its kernel has not said to have. */
static int unacked(struct scene *s)
{
	int n = -1;

	cr_assert_eq(ioctl(s->a->link->bulk->fd, SIOCOUTQ, &n), 0);
	return n;
}

Test(net_hostile, takes_a_piece_slowly_and_finds_it_unchanged)
{
	const int small = 4096;
	struct wire_want m = { .alias = 3, .len_max = NODES_PIECE_SIZE };
	struct buf b = BUF_INIT;
	struct scene s;
	char chunk[2048];
	ssize_t n;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	cr_assert_eq(setsockopt(s.bulk, SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)),
		     0);
	s.a->sents = s.a->lefts = 0;
	cr_assert_eq(wire_put_want(&b, 1, SOURCE_HOT, &m), 0);
	say_buf(s.control, &b);
	for (size_t got = 0; got < NODES_PIECE_SIZE && s.a->sents == 0;) {
		nodes_turn(&s.all);
		n = recv(s.bulk, chunk, sizeof(chunk), MSG_DONTWAIT);
		got += n > 0 ? (size_t)n : 0;
	}
	/* The file may change as soon as this is told. */
	until(&s.all, s.a->sents == 1);
	cr_expect_eq(s.a->lefts, 1);
	cr_expect_eq(unacked(&s), 0);
	end(&s);
}

Test(net_hostile, takes_nothing_and_is_closed)
{
	const int small = 4096;
	struct wire_want m = { .alias = 3, .len_max = NODES_PIECE_SIZE };
	struct buf b = BUF_INIT;
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	cr_assert_eq(setsockopt(s.bulk, SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)),
		     0);
	s.a->sents = 0;
	for (uint32_t k = 0; k < 8; k++) {
		m.piece = k;
		cr_assert_eq(wire_put_want(&b, k + 1, SOURCE_HOT, &m), 0);
	}
	say_buf(s.control, &b);
	until(&s.all, s.a->wants == 8 && unacked(&s) > 0);
	net_close(s.a->link, "on purpose");
	until(&s.all, s.a->downs == 1 && s.a->sents == 8);
	end(&s);
}
