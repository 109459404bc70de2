// SPDX-License-Identifier: Apache-2.0
/* What a stranger sends of pieces: wrongly, slowly, or not to the end. */
#include <inttypes.h>
#include <time.h>

#include "tests/unit/p2p/stranger.h"

TestSuite(net_hostile_sends, .timeout = 120);

Test(net_hostile_sends, sends_bytes_that_nobody_asked_for)
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

Test(net_hostile_sends, sends_more_than_was_asked_for)
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

Test(net_hostile_sends, sends_parts_that_do_not_fit)
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

/* Both heads are right when they come: no byte has come of either. */
Test(net_hostile_sends, sends_one_piece_on_both_connections)
{
	struct wire_data d = { .piece = 5, .total = 1000 };
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	be_asked(&s);
	say_data(s.control, s.last_req, &d, 1000, 0);
	until(&s.all, s.a->rooms == 1);
	say_data(s.bulk, s.last_req, &d, 1000, 0);
	say_zeros(s.control, 999);
	say_zeros(s.bulk, 1000);
	expect_down(&s, EPROTO, "nobody asked");
	cr_expect_leq(s.a->moved, 999);
	cr_expect_eq(s.a->losts, 1);
	end(&s);
}

Test(net_hostile_sends, goes_on_with_a_piece_on_the_other_connection)
{
	struct wire_data d = { .piece = 5, .total = 1000 };
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	be_asked(&s);
	say_data(s.bulk, s.last_req, &d, 500, 500);
	until(&s.all, s.a->moved == 500);
	d.off = 500;
	say_data(s.control, s.last_req, &d, 500, 500);
	expect_down(&s, EPROTO, "nobody asked");
	cr_expect_eq(s.a->moved, 500);
	cr_expect_eq(s.a->losts, 1);
	end(&s);
}

/* Should another way past the heads' check be found, no byte lands behind the piece. */
Test(net_hostile_sends, has_a_body_that_is_longer_than_its_piece)
{
	struct wire_data d = { .piece = 5, .total = 1000 };
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	be_asked(&s);
	s.a->no_room = true; /* else the piece ends with its last byte */
	say_data(s.bulk, s.last_req, &d, 1000, 100);
	until(&s.all, s.a->moved == 0 && s.a->link->st.received_bytes == 100);
	s.a->link->bulk->body_left = 60000;
	say_zeros(s.bulk, 60000);
	expect_down(&s, EPROTO, "more bytes than the piece has");
	cr_expect_eq(s.a->gots, 0);
	s.a->rooms--; /* none was given */
	end(&s);
}

/* The node asks the stranger for piece `k`, of any size. */
static void be_asked_for(struct scene *s, uint32_t k)
{
	uint8_t body[64];

	net_ask(s->a->link, &s->all.image, &k, 1, NODES_PIECE_SIZE, SOURCE_HOT);
	until(&s->all, hear(s, WIRE_WANT, body));
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

/* He is asked for piece 5, and a hundred bytes of it are there. */
static void begin_piece(struct scene *s, const struct wire_data *d)
{
	enter(s);
	be_asked_for(s, 5);
	say_data(s->bulk, s->last_req, d, d->total, 100);
	until(&s->all, s->a->moved == 100);
}

Test(net_hostile_sends, sends_a_few_bytes_of_a_piece_and_is_heard)
{
	struct wire_data d = { .piece = 5, .total = NODES_PIECE_SIZE };
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	begin_piece(&s, &d);
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
Test(net_hostile_sends, sends_to_who_has_no_timer)
{
	struct wire_data d = { .piece = 5, .total = 60000 };
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	begin_piece(&s, &d);
	s.a->link->bulk->rx_paused = true;
	conn_update(s.a->link->bulk);
	say_zeros(s.bulk, d.total - 100);
	turns_until(&s, &s.a->moved, d.total);
	cr_expect_eq(s.a->gots, 1);
	end(&s);
}

Test(net_hostile_sends, ends_pieces_with_fewer_bytes_than_are_gathered)
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
Test(net_hostile_sends, sends_a_few_bytes_while_the_node_stands_still)
{
	const struct timespec still = { .tv_nsec = 400 * MS };
	struct wire_data d = { .piece = 5, .total = NODES_PIECE_SIZE };
	struct buf b = BUF_INIT;
	struct scene s = { .control = -1, .bulk = -1 };

	nodes_init(&s.all);
	s.all.cfg.idle_ns = 300 * MS;
	s.a = nodes_add(&s.all, "a");
	s.a->ups = 1; /* there is no friend */
	begin_piece(&s, &d);
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

Test(net_hostile_sends, stops_in_the_midst_of_a_piece)
{
	struct scene s;
	struct wire_data d = { .piece = 5, .total = 1000 };

	begin_held(&s, 300 * MS);
	be_asked(&s);
	say_data(s.bulk, s.last_req, &d, 1000, 600);
	expect_down(&s, ETIMEDOUT, "silent");
	cr_expect_eq(s.a->losts, 1);
	end(&s);
}

Test(net_hostile_sends, refuses_what_nobody_asked)
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
