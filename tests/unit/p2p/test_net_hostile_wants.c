// SPDX-License-Identifier: Apache-2.0
/* What a stranger asks for: too much, wrongly, or without taking it. */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "tests/unit/p2p/stranger.h"

TestSuite(net_hostile_wants, .timeout = 120);

static void want(struct scene *s, uint32_t first, uint32_t n)
{
	struct wire_want m = { .alias = 3, .len_max = BLOCK_USIZE_MAX };
	struct buf b = BUF_INIT;

	for (m.piece = first; m.piece < first + n; m.piece++)
		cr_assert_eq(wire_put_want(&b, m.piece + 1, SOURCE_HOT, &m), 0);
	say_buf(s->control, &b);
}

Test(net_hostile_wants, asks_and_does_not_read)
{
	struct scene s;

	begin_held(&s, 500 * MS);
	enter(&s);
	want(&s, 0, NODES_PIECES);
	expect_down(&s, ETIMEDOUT, "takes no bytes");
	cr_expect_eq(s.a->wants, s.a->sents);
	end(&s);
}

Test(net_hostile_wants, wants_too_much_at_once)
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

Test(net_hostile_wants, wants_ever_more_and_does_not_read)
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

Test(net_hostile_wants, wants_the_same_twice)
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

Test(net_hostile_wants, wants_what_is_not_there)
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

Test(net_hostile_wants, wants_pieces_before_he_is_let_in)
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

/* His kernel takes few bytes that he does not read. */
static void take_slowly(struct scene *s)
{
	const int small = 4096;

	cr_assert_eq(setsockopt(s->bulk, SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)),
		     0);
}

/* Bytes that its kernel has not said to have. */
static int unacked(struct scene *s)
{
	int n = -1;

	cr_assert_eq(ioctl(s->a->link->bulk->fd, SIOCOUTQ, &n), 0);
	return n;
}

Test(net_hostile_wants, takes_a_piece_slowly_and_finds_it_unchanged)
{
	struct scene s;
	char chunk[2048];
	ssize_t n;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	take_slowly(&s);
	s.a->sents = s.a->lefts = 0;
	want(&s, 0, 1);
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

Test(net_hostile_wants, takes_nothing_and_is_closed)
{
	struct scene s;

	begin(&s, 5000 * MS, 60000 * MS);
	enter(&s);
	take_slowly(&s);
	s.a->sents = 0;
	want(&s, 0, 8);
	until(&s.all, s.a->wants == 8 && unacked(&s) > 0);
	net_close(s.a->link, "on purpose");
	until(&s.all, s.a->downs == 1 && s.a->sents == 8);
	end(&s);
}
