// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/p2p/stranger.h"
#include "tests/unit/test_clock.h"

int call(struct scene *s)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(getsockname(s->a->net->listener.fd, (struct sockaddr *)&ss,
				 &len),
		     0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&ss, len), 0);
	return fd;
}

void say(int fd, const void *data, size_t n)
{
	const char *p = data;
	ssize_t sent;

	while (n && (sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) {
		p += sent;
		n -= (size_t)sent;
	}
}

void say_buf(int fd, struct buf *b)
{
	say(fd, b->data, b->len);
	buf_fini(b);
}

void say_head(int fd, uint8_t type, uint16_t flags, uint32_t len)
{
	struct wire_head h = { .type = type, .flags = flags, .len = len };
	uint8_t head[WIRE_HEAD_SIZE];

	wire_put_head(head, &h);
	say(fd, head, sizeof(head));
}

void say_data(int fd, uint32_t req, const struct wire_data *d, uint32_t n,
	      uint32_t really)
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

void say_zeros(int fd, size_t n)
{
	char *zeros = calloc(1, n);

	say(fd, zeros, n);
	free(zeros);
}

bool hear(struct scene *s, uint8_t wanted, uint8_t body[64])
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

bool gone(struct scene *s)
{
	uint8_t body[64];

	(void)hear(s, 0, body);
	return s->a->downs > 0;
}

/* A friend is linked. */
static void begin_as_configured(struct scene *s)
{
	s->a = nodes_add(&s->all, "a");
	s->friend = nodes_add(&s->all, "friend");
	nodes_link(s->friend, s->a);
	nodes_open(s->friend, s->a);
}

static void prepare(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->control = s->bulk = -1;
	nodes_init(&s->all);
}

void begin(struct scene *s, int64_t handshake_ns, int64_t idle_ns)
{
	prepare(s);
	s->all.cfg.handshake_ns = handshake_ns;
	s->all.cfg.idle_ns = idle_ns;
	begin_as_configured(s);
}

void begin_held(struct scene *s, int64_t idle_ns)
{
	test_clock_hold();
	begin(s, 5000 * MS, idle_ns);
}

void begin_without_tick(struct scene *s)
{
	prepare(s);
	s->all.cfg.connect_ns = s->all.cfg.handshake_ns = s->all.cfg.idle_ns =
		600000 * MS;
	begin_as_configured(s);
}

void say_hello(int fd, const char *name)
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

void greet(struct scene *s)
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

void enter(struct scene *s)
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

void end(struct scene *s)
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

void expect_down(struct scene *s, int code, const char *text)
{
	uint8_t body[64];

	if (code == ETIMEDOUT)
		test_clock_run();
	until(&s->all, gone(s));
	cr_expect_eq(s->a->why.code, code, "%d: %s", s->a->why.code,
		     s->a->why.msg);
	cr_expect_not_null(strstr(s->a->why.msg, text), "%s", s->a->why.msg);
	(void)hear(s, 0, body);
}

struct net_stats stats(struct scene *s)
{
	struct net_stats st;

	net_get_stats(s->a->net, &st);
	return st;
}
