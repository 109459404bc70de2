// SPDX-License-Identifier: Apache-2.0
/*
 * Somebody who speaks the protocol and breaks it: he is closed with a reason, and a
 * link to another node goes on as if nothing was.
 */
#include <netinet/in.h>
#include <sys/resource.h>

#include "tests/unit/p2p/stranger.h"

TestSuite(net_hostile, .timeout = 120);

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

/* As call(), from another address of this machine. */
static int call_from(struct scene *s, unsigned int host)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr =
					    htonl(0x7f000000 + host) };
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	cr_assert_eq(getsockname(s->a->net->listener.fd, (struct sockaddr *)&ss,
				 &len),
		     0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&ss, len), 0);
	return fd;
}

Test(net_hostile, takes_all_places_of_strangers_by_many_addresses)
{
	struct rlimit most;
	struct scene s;
	int fds[NET_STRANGERS_MAX];

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &most), 0);
	most.rlim_cur = most.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &most), 0);
	begin(&s, 600000 * MS, 600000 * MS);
	for (unsigned int i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = call_from(&s, 2 + i / NET_STRANGERS_ONE_MAX);
		nodes_turn(&s.all);
	}
	cr_assert_eq(s.a->net->n_strangers, NET_STRANGERS_MAX);
	greet(&s);
	/* The one that had said nothing for longest made the place. */
	cr_expect_eq(recv(fds[0], &(char){ 0 }, 1, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
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

Test(net_hostile, answers_no_ping)
{
	struct scene s;

	begin_held(&s, 300 * MS);
	greet(&s);
	s.mute = true;
	expect_down(&s, ETIMEDOUT, "silent");
	end(&s);
}

Test(net_hostile, does_not_read_messages)
{
	struct scene s;
	struct swarm_range r[1000];

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	for (uint32_t i = 0; i < ARRAY_SIZE(r); i++)
		r[i] = (struct swarm_range){ 2 * i, 1 };
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

/* Each name is looked for in each image of the link, by the thread of all links. */
Test(net_hostile, names_more_members_than_are_looked_at)
{
	struct net_node many[WIRE_MEMBERS_MAX];
	const int looked_at = NET_NAMES_BURST / (2 * WIRE_MEMBERS_MAX);
	uint8_t body[64];
	struct scene s;
	struct buf b = BUF_INIT;

	begin_held(&s, 60000 * MS);
	enter(&s);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		many[i] = (struct net_node){ .addr = "127.0.0.1:1" };
		(void)snprintf(many[i].name, sizeof(many[i].name), "c%zu", i);
	}
	for (int i = 0; i < 4 * looked_at; i++)
		cr_assert_eq(wire_put_members(&b, many, ARRAY_SIZE(many)), 0);
	cr_assert_eq(wire_put_empty(&b, WIRE_PING, 1), 0);
	say_buf(s.control, &b);
	until(&s.all, hear(&s, WIRE_PONG, body));
	cr_expect_eq(s.a->member_calls, looked_at);
	cr_expect_eq(s.a->downs, 0, "%s", s.a->why.msg);
	for (int i = 0; i < 4 * looked_at; i++)
		cr_assert_eq(wire_put_image_members(&b, 3, many,
						    ARRAY_SIZE(many)),
			     0);
	cr_assert_eq(wire_put_empty(&b, WIRE_PING, 2), 0);
	say_buf(s.control, &b);
	until(&s.all, hear(&s, WIRE_PONG, body));
	cr_expect_eq(s.a->member_calls, looked_at, "time stands still");
	end(&s);
}

Test(net_hostile, names_members_of_an_image_that_is_not_open)
{
	struct net_node somebody = { .name = "c", .addr = "127.0.0.1:1" };
	struct scene s;
	struct wire_open open = { .alias = 3, .n_pieces = NODES_PIECES };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	greet(&s);
	/* Of a number that nothing has they are passed over. */
	cr_assert_eq(wire_put_image_members(&b, 9, &somebody, 1), 0);
	/* It is let in, and has not let in. */
	open.image = s.all.image;
	cr_assert_eq(wire_put_open(&b, 1, &open), 0);
	cr_assert_eq(wire_put_image_members(&b, 3, &somebody, 1), 0);
	say_buf(s.control, &b);
	expect_down(&s, EPROTO, "before it is open");
	cr_expect_eq(s.a->member_calls, 0);
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

/* One message that would have all of an image looked at many times. */
Test(net_hostile, tells_of_a_piece_twice)
{
	struct scene s;
	struct wire_have m = { .alias = 3, .n_have = 2 };
	struct swarm_range r[] = { { 0, NODES_PIECES }, { 0, NODES_PIECES } };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	cr_assert_eq(wire_put_have(&b, &m, r), 0);
	say_buf(s.control, &b);
	expect_down(&s, EPROTO, "in HAVE");
	cr_expect_eq(s.a->news, 0);
	end(&s);
}

/* A few messages of a large image have as much looked at as thousands. */
Test(net_hostile, floods_with_pieces)
{
	struct scene s;
	struct wire_have m = {
		.alias = 3, .n_have = 1, .n_lost = 1, .n_promised = 1
	};
	struct swarm_range all = { 0, SWARM_PIECES_MAX };
	struct swarm_range r[] = { all, all, all };
	struct buf b = BUF_INIT;

	begin(&s, 5000 * MS, 60000 * MS);
	s.all.n_pieces = SWARM_PIECES_MAX;
	enter(&s);
	for (int i = 0; i < 20; i++)
		cr_assert_eq(wire_put_have(&b, &m, r), 0);
	say_buf(s.control, &b);
	expect_down(&s, ENOBUFS, "floods");
	cr_expect_leq(s.a->news, 2);
	end(&s);
}

/* A neighbour that comes and one that leaves have all pieces of the image looked at. */
Test(net_hostile, takes_part_and_loses_the_right_without_end)
{
	struct scene s;
	struct wire_open m = { .alias = 3, .n_pieces = SWARM_PIECES_MAX };
	struct buf b = BUF_INIT;

	begin_held(&s, 60000 * MS);
	s.all.n_pieces = SWARM_PIECES_MAX;
	enter(&s);
	s.a->verdict = -EACCES;
	m.image = s.all.image;
	cr_assert_eq(wire_put_renew(&b, &m), 0);
	cr_assert_eq(wire_put_empty(&b, WIRE_PING, 1), 0);
	say_buf(s.control, &b);
	expect_down(&s, ENOBUFS, "floods");
	cr_expect_eq(s.a->closeds, 1);
	end(&s);
}

static void hang_up(struct scene *s)
{
	close(s->control);
	close(s->bulk);
	until(&s->all, s->a->downs == 1);
	s->a->downs = 0;
	s->a->ups = 1;
	s->in.len = 0;
}

Test(net_hostile, hangs_up_and_calls_again_for_another_burst)
{
	struct scene s;
	struct buf b = BUF_INIT;

	begin_held(&s, 60000 * MS);
	s.all.n_pieces = SWARM_PIECES_MAX;
	for (int i = 0; i < 2; i++) {
		enter(&s);
		hang_up(&s);
	}
	greet(&s);
	for (int i = 0; i < NET_CALM_BURST / 5; i++)
		cr_assert_eq(wire_put_empty(&b, WIRE_PING, 1), 0);
	say_buf(s.control, &b);
	expect_down(&s, ENOBUFS, "floods");
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
