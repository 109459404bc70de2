// SPDX-License-Identifier: Apache-2.0
/* RDMA over a mock of the verbs: pieces, and peers that lie about them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "mock_pair.h"
#include "tests/unit/test_clock.h"
#include "verbs_mock.h"

TestSuite(rdma_pieces, .init = verbs_mock_reset, .timeout = 120);

/* ------------------------------------------------------------------- pieces --- */

Test(rdma_pieces, pieces_arrive_both_ways)
{
	static const uint32_t lens[] = { 1,       7,       4096,
					 65536,   65537,   300000,
					 1 << 20, 1234567, 2 * MIB - 8 };
	struct pair *p = mock_connected();
	uint64_t bytes = 0;

	for (size_t i = 0; i < 100; i++) {
		uint32_t len = lens[i % ARRAY_SIZE(lens)];

		cr_assert(pair_send(&p->a, (uint32_t)i * 1000, len));
		cr_assert(pair_send(&p->b, (uint32_t)i * 999, len));
		cr_assert(pair_until(p, pair_is_quiet, SECONDS));
		bytes += len;
	}
	cr_expect_eq(p->a.wrong + p->b.wrong, 0);
	cr_expect_eq(p->a.arrived, 100);
	cr_expect_eq(p->b.arrived, 100);
	cr_expect_eq(p->a.sent, 100);
	cr_expect_eq(mock_stats(&p->a).sent_bytes_total, bytes);
	cr_expect_eq(mock_stats(&p->b).received_bytes_total, bytes);
	cr_expect_eq(p->a.faults + p->b.faults, 0);
	cr_expect_leq(verbs_mock.signals * 2, verbs_mock.reads);
	pair_free(p);
	mock_expect_nothing_left();
}

Test(rdma_pieces, many_small_pieces_are_under_way_at_once)
{
	struct pair *p = mock_connected();

	verbs_mock.is_held = true;
	for (uint32_t i = 0; i < 64; i++)
		cr_assert(pair_send(&p->a, i * 30000, 30000), "%u", i);
	/* More than there is room for go by TCP. */
	cr_expect_not(pair_send(&p->a, 0, 30000));
	verbs_mock_release();
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->b.arrived, 64);
	cr_expect_eq(p->b.wrong, 0);
	cr_expect(pair_send(&p->a, 0, 30000));
	pair_free(p);
}

Test(rdma_pieces, what_does_not_fit_goes_by_tcp)
{
	struct pair *p = mock_connected();

	cr_expect_not(pair_send(&p->a, 0, 2 * MIB));
	cr_expect_not(pair_send(&p->a, 0, 0));
	cr_expect_not(pair_send(&p->a, PAIR_CONTENT - 10, 11));
	cr_expect_eq(mock_told(&p->a, RDMA_GRANT), 0);
	pair_free(p);
}

static void expect_fall_back(enum ibv_wc_status status, const char *what)
{
	struct rdma_config a = mock_config("a"), b = mock_config("b");
	struct pair *p;

	a.times.ban = b.times.ban = 50 * MS;
	p = mock_connected_as(a, b);
	test_clock_hold(); /* the ban does not end meanwhile */
	verbs_mock.read_status = status;
	for (uint32_t i = 0; i < 5; i++)
		cr_assert(pair_send(&p->a, i, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->a.fell_back, 5, "%s", what);
	cr_expect_eq(p->b.arrived, 0);
	cr_expect_eq(p->b.faults, 1);
	cr_expect(strstr(p->b.fault, what), "%s", p->b.fault);
	cr_expect(pair_is_down(p));
	cr_expect_eq(mock_stats(&p->a).fallbacks_total, 5);
	cr_expect_eq(verbs_mock.n_qps, 0);
	verbs_mock.read_status = IBV_WC_SUCCESS;
	test_clock_run();
	/* It is tried again, not at once. */
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	cr_assert(pair_send(&p->a, 1, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->b.arrived, 1);
	cr_expect_eq(p->b.wrong, 0);
	pair_free(p);
	mock_expect_nothing_left();
}

Test(rdma_pieces, after_any_fault_of_a_read_its_piece_goes_by_tcp)
{
	expect_fall_back(IBV_WC_RETRY_EXC_ERR, "no answer");
	expect_fall_back(IBV_WC_RNR_RETRY_EXC_ERR, "receiver not ready");
	expect_fall_back(IBV_WC_WR_FLUSH_ERR, "flushed");
	expect_fall_back(IBV_WC_REM_ACCESS_ERR, "remote access error");
	expect_fall_back(IBV_WC_GENERAL_ERR, "another error");
}

/* Time passes with each look. */
static bool has_a_fault_later(struct pair *p)
{
	test_clock_step(MS);
	return mock_has_fault(p);
}

Test(rdma_pieces, a_ban_is_doubled_when_it_does_not_help)
{
	struct rdma_config a = mock_config("a"), b = mock_config("b");
	struct pair *p;

	a.times.ban = b.times.ban = 20 * MS;
	p = pair_new(a, b);
	verbs_mock.create_qp = ENOMEM;
	pair_connect(p);
	rdma_link_moved(p->a.l, MIB);
	test_clock_hold();
	for (int64_t length = 20 * MS, ban; length < 320 * MS; length *= 2) {
		unsigned int n = p->a.faults;
		int64_t begin = clock_now_ns();

		while (p->a.faults == n) {
			p->a.faults = 0;
			cr_assert(pair_until(p, has_a_fault_later, SECONDS));
			p->a.faults += n;
		}
		ban = clock_now_ns() - begin;
		if (length > 20 * MS) /* the first came at once */
			cr_expect_geq(ban, length / 4);
	}
	test_clock_run();
	pair_free(p);
}

static bool wrong_key(struct side *s, struct rdma_msg *m)
{
	m->grant.rkey ^= m->type == RDMA_GRANT ? 0x40000000 : 0;
	return true;
}

Test(rdma_pieces, a_wrong_key_harms_nobody)
{
	struct pair *p = mock_connected();

	p->a.meddle = wrong_key;
	cr_assert(pair_send(&p->a, 0, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->a.fell_back, 1);
	cr_expect_eq(p->b.arrived, 0);
	cr_expect(pair_is_down(p));
	pair_free(p);
}

/* The reader of one lane asks for memory of another, with its right key. */
static struct rdma_msg stolen;
static bool keep_grant(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_GRANT)
		stolen = *m;
	return true;
}

static bool use_stolen(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_GRANT) {
		m->grant.addr = stolen.grant.addr;
		m->grant.rkey = stolen.grant.rkey;
	}
	return true;
}

Test(rdma_pieces, a_peer_cannot_read_what_another_one_was_granted)
{
	struct pair *p = mock_connected();
	struct rdma_link *a = p->a.l, *b = p->b.l;

	p->a.meddle = keep_grant;
	cr_assert(pair_send(&p->a, 0, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_assert_neq(stolen.grant.rkey, 0);
	/* A second link between the same two, beside the first. */
	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	p->a.meddle = use_stolen;
	cr_assert(pair_send(&p->a, 0, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->a.fell_back, 1);
	cr_expect_eq(p->b.arrived, 1);
	cr_expect(rdma_link_is_ready(a));
	rdma_link_free(a);
	rdma_link_free(b);
	pair_free(p);
	mock_expect_nothing_left();
}

/* ---------------------------------------------------------- a hostile peer --- */

static uint32_t lots = 1;
static uint32_t lot(uint32_t n)
{
	lots = lots * 1664525u + 1013904223u;
	return (lots >> 8) % n;
}

static struct rdma_msg before; /* that was told, of whatever attempt */

/* One thing of it is another, or it is one that was told before. */
static bool lie(struct side *s, struct rdma_msg *m)
{
	struct rdma_msg now = *m;

	if (lot(3) == 0) {
		*m = before;
	} else if (lot(8) == 0) {
		m->epoch = now.epoch + lot(3) - 1;
	} else if (m->type == RDMA_GRANT) {
		switch (lot(6)) {
		case 0:
			m->grant.len = 1 + lot(1u << 23);
			break;
		case 1:
			m->grant.addr += lot(1u << 24);
			break;
		case 2:
			m->grant.id -= lot(3);
			break;
		case 3:
			m->grant.lease_ms = lot(2) * UINT32_MAX;
			break;
		case 4:
			m->grant.stamp ^= lot(2);
			break;
		}
	} else if (m->type == RDMA_DONE) {
		m->done.id -= lot(3);
		m->done.status = (enum rdma_done)lot(3);
	} else if (m->type == RDMA_OFFER || m->type == RDMA_ACCEPT) {
		m->end.qpn += lot(2);
		m->end.rd_atomic = (uint8_t)(1 + lot(255));
	}
	if (lot(16) == 0 && before.type)
		m->type = (enum rdma_type)(RDMA_OFFER + lot(2));
	before = now;
	return lot(8) != 0;
}

static bool a_moment(struct pair *p)
{
	return true;
}

Test(rdma_pieces, whatever_a_peer_says_harms_nobody)
{
	struct rdma_config a = mock_config("a"), b = mock_config("b");
	unsigned int n_read = 0, n_up = 0;

	a.times.ban = b.times.ban = a.times.retry = b.times.retry = 1;
	for (unsigned int round = 0; round < 12; round++) {
		struct pair *p = mock_connected_as(a, b);
		unsigned int n = 0;

		memset(&before, 0, sizeof(before));
		p->b.meddle = lie;
		for (unsigned int k = 0; k < 40; k++) {
			uint32_t len = 1 + lot(lot(8) ? 70000 : 2 * MIB - 8);

			n += pair_send(&p->a, lot(4 * MIB), len);
			n_read += pair_send(&p->b, lot(4 * MIB), len);
			verbs_mock.is_held = lot(4) == 0;
			cr_assert(pair_until(p, a_moment, SECONDS));
			n_up += rdma_link_is_ready(p->a.l);
			if (lot(2))
				verbs_mock_release();
		}
		pair_disconnect(p);
		/* Each has one outcome at most; the last ones none, since the
		 * link is gone. */
		cr_expect_leq(p->a.sent + p->a.fell_back, n);
		pair_free(p);
		mock_expect_nothing_left();
	}
	cr_expect_gt(n_read, 0);
	cr_expect_gt(n_up, 0);
}

Test(rdma_pieces, a_piece_read_after_its_lease_is_known_for_stale)
{
	struct rdma_config a = mock_config("a");
	struct pair *p;

	a.times.lease = 1; /* over at once */
	p = mock_connected_as(a, mock_config("b"));
	verbs_mock.is_held = true;
	cr_assert(pair_send(&p->a, 0, 2 * MIB - 8)); /* all of the lane */
	while (mock_told(&p->a, RDMA_GRANT) == 1) {
		/* Its memory is taken for this one. */
		cr_assert(pair_send(&p->a, 1000, 1000));
	}
	verbs_mock_release();
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->b.wrong, 0);
	cr_expect_geq(p->a.fell_back, 1);
	cr_expect_geq(mock_stats(&p->a).stale_total, 1);
	cr_expect_eq(p->a.faults + p->b.faults, 0);
	cr_expect(pair_is_up(p));
	pair_free(p);
}

Test(rdma_pieces, reads_that_never_end_are_given_up)
{
	struct rdma_config a = mock_config("a"), b = mock_config("b");
	struct pair *p;

	b.times.stall = 50 * MS;
	p = mock_connected_as(a, b);
	verbs_mock.is_mute = true;
	cr_assert(pair_send(&p->a, 0, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->a.fell_back, 1);
	cr_expect_str_eq(p->b.fault, "READs do not complete");
	pair_free(p);
}

static bool lose_done(struct side *s, struct rdma_msg *m)
{
	return m->type != RDMA_DONE;
}

Test(rdma_pieces, a_peer_that_never_says_done_is_given_up)
{
	struct rdma_config a = mock_config("a");
	struct pair *p;

	a.times.forget = 50 * MS;
	p = mock_connected_as(a, mock_config("b"));
	p->b.meddle = lose_done;
	cr_assert(pair_send(&p->a, 0, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->a.fell_back, 1);
	cr_expect_str_eq(p->a.fault, "the peer does not say whether it read");
	pair_free(p);
}

Test(rdma_pieces, reads_that_cannot_be_posted_are_a_fault)
{
	struct pair *p = mock_connected();

	verbs_mock.post_send = ENOMEM;
	cr_assert(pair_send(&p->a, 0, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->a.fell_back, 1);
	cr_expect_str_eq(p->b.fault, "READs cannot be posted");
	pair_free(p);
}

static void leave(struct side *s)
{
	rdma_link_free(s->l);
	s->l = NULL;
}

static bool b_left(struct pair *p)
{
	return p->b.l == NULL;
}

Test(rdma_pieces, a_link_may_end_while_a_piece_arrives)
{
	struct pair *p = mock_connected();

	p->b.on_arrived = leave;
	for (uint32_t i = 0; i < 10; i++)
		cr_assert(pair_send(&p->a, i, 50000));
	cr_assert(pair_until(p, b_left, SECONDS));
	cr_expect_eq(p->b.arrived, 1);
	pair_free(p);
	mock_expect_nothing_left();
}
