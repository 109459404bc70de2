// SPDX-License-Identifier: Apache-2.0
/* RDMA over a mock of the verbs; tests/functional/rdma.bats has a real device. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "rdma_pair.h"
#include "tests/unit/test_clock.h"
#include "verbs_mock.h"

#define MS ((int64_t)1000 * 1000)
#define SECONDS 110 /* then it hangs */

static void setup(void)
{
	verbs_mock_reset();
}

TestSuite(rdma, .init = setup, .timeout = 120);

static struct rdma_config config(const char *node)
{
	struct rdma_config c = { .verbs = &verbs_mock_ops,
				 .node = node,
				 .addr = *node == 'a' ? "10.0.0.1" : "10.0.0.2",
				 .slab = 16 * MIB,
				 .min_moved = MIB,
				 .seed = 7 };

	/* Long, so that a busy machine is no fault. */
	c.times.stall = c.times.forget = c.times.handshake = 20 * 1000 * MS;
	c.times.lease = 10 * 1000 * MS;
	return c;
}

static struct pair *connected_as(struct rdma_config a, struct rdma_config b)
{
	struct pair *p = pair_new(a, b);

	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	return p;
}

static struct pair *connected(void)
{
	return connected_as(config("a"), config("b"));
}

static struct rdma_stats stats(const struct side *s)
{
	struct rdma_stats v;

	rdma_get_stats(s->r, &v);
	return v;
}

static unsigned int told(const struct side *s, enum rdma_type type)
{
	return s->told[type - RDMA_OFFER];
}

static void expect_nothing_left(void)
{
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_eq(verbs_mock.n_mrs, 0);
	cr_expect_eq(verbs_mock.n_pds, 0);
	cr_expect_eq(verbs_mock.n_cqs, 0);
	cr_expect_eq(verbs_mock.n_contexts, 0);
}

/* ------------------------------------------------------------------ devices --- */

static int open_one(struct rdma_config c, char text[ERROR_MSG_MAX])
{
	struct loop *loop = NULL;
	struct rdma *r = NULL;
	struct error err = ERROR_INIT;
	int rc;

	cr_assert_eq(loop_new(&loop, NULL), 0);
	c.loop = loop;
	rc = rdma_new(&c, &r, &err);
	snprintf(text, ERROR_MSG_MAX, "%s", rc == 0 ? rdma_device(r) : err.msg);
	rdma_free(r);
	loop_free(loop);
	expect_nothing_left();
	return rc;
}

Test(rdma, takes_the_device_of_the_nodes_address)
{
	char text[ERROR_MSG_MAX];

	cr_assert_eq(open_one(config("b"), text), 0);
	cr_expect_str_eq(text, "mock1 port 1 gid ::ffff:10.0.0.2, 4 lanes of "
			       "4096 KiB");
}

Test(rdma, takes_the_device_that_was_named)
{
	struct rdma_config c = config("b");
	char text[ERROR_MSG_MAX];

	c.device = "mock0";
	cr_assert_eq(open_one(c, text), 0);
	cr_expect(strstr(text, "mock0"));
	c.device = "mock7";
	cr_assert_eq(open_one(c, text), -ENODEV);
	cr_expect_str_eq(text, "no RDMA device 'mock7' with an active port");
}

Test(rdma, says_when_there_is_no_device_to_use)
{
	char text[ERROR_MSG_MAX];

	verbs_mock.port_state[0] = IBV_PORT_DOWN;
	cr_assert_eq(open_one(config("a"), text), 0);
	cr_expect(strstr(text, "mock1"));
	verbs_mock.port_state[1] = IBV_PORT_DOWN;
	cr_assert_eq(open_one(config("a"), text), -ENODEV);
	verbs_mock.n_devices = 0;
	cr_assert_eq(open_one(config("a"), text), -ENODEV);
}

Test(rdma, an_infiniband_port_needs_no_address)
{
	char text[ERROR_MSG_MAX];

	verbs_mock.link_layer = IBV_LINK_LAYER_INFINIBAND;
	cr_assert_eq(open_one(config("a"), text), 0);
}

Test(rdma, says_what_to_raise_when_memory_cannot_be_locked)
{
	struct rlimit limit = { .rlim_cur = 64 * KIB, .rlim_max = 64 * KIB };
	char text[ERROR_MSG_MAX];

	verbs_mock.reg_mr = ENOMEM;
	verbs_mock.reg_mr_after = 3;
	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	cr_assert_eq(open_one(config("a"), text), -EPERM);
	cr_expect(strstr(text, "RLIMIT_MEMLOCK"), "%s", text);
}

Test(rdma, has_as_many_lanes_as_the_device_allows)
{
	char text[ERROR_MSG_MAX];

	verbs_mock.max_cqe = 300; /* of 128 for each lane */
	cr_assert_eq(open_one(config("a"), text), 0);
	cr_expect(strstr(text, "2 lanes"), "%s", text);
	verbs_mock.max_pd = 1;
	cr_assert_eq(open_one(config("a"), text), 0);
	cr_expect(strstr(text, "1 lanes"), "%s", text);
	verbs_mock.max_mr_size = MIB;
	cr_assert_eq(open_one(config("a"), text), -ENOMEM);
	cr_expect(strstr(text, "registers at most 1048576 bytes"), "%s", text);
}

Test(rdma, a_slab_that_holds_no_lane_is_refused)
{
	struct rdma_config c = config("a");
	char text[ERROR_MSG_MAX];

	c.slab = MIB;
	cr_assert_eq(open_one(c, text), -ENOMEM);
}

/* --------------------------------------------------------------- handshakes --- */

Test(rdma, a_link_that_moved_little_gets_no_queue_pair)
{
	struct pair *p = pair_new(config("a"), config("b"));

	pair_connect(p);
	pair_moved(p, MIB - 1);
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_not(pair_send(&p->a, 0, 4096));
	pair_moved(p, 1);
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 2);
	cr_expect_eq(stats(&p->a).links, 1);
	pair_free(p);
	expect_nothing_left();
}

/* Both offer before either heard of the other's: "a" is the lower name. */
static bool crossing(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_OFFER && told(s->other, RDMA_OFFER) == 0) {
		s->meddle = NULL;
		/* Enough for it to be tried at once. */
		rdma_link_moved(s->other->l, 4 * MIB);
	}
	return true;
}

Test(rdma, the_lower_name_wins_when_both_offer)
{
	struct rdma_config b = config("b");
	struct pair *p;

	b.times.retry = 1; /* it does not wait for "a" to go first */
	p = pair_new(config("a"), b);
	pair_connect(p);
	rdma_link_moved(p->b.l, MIB - 1);
	p->a.meddle = crossing;
	rdma_link_moved(p->a.l, MIB);
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	cr_expect_eq(told(&p->a, RDMA_ACCEPT), 0);
	cr_expect_eq(told(&p->b, RDMA_ACCEPT), 1);
	cr_expect_eq(verbs_mock.n_qps, 2);
	cr_expect_eq(p->a.heard, 0);
	cr_expect_eq(p->b.heard, 0);
	pair_free(p);
}

static bool lose_accept(struct side *s, struct rdma_msg *m)
{
	return m->type != RDMA_ACCEPT;
}

static bool has_a_fault(struct pair *p)
{
	return p->a.faults > 0;
}

Test(rdma, a_handshake_without_an_answer_ends)
{
	struct rdma_config a = config("a"), b = config("b");
	struct pair *p;

	a.times.handshake = 50 * MS;
	a.times.ban = 50 * MS;
	b.times.ban = 50 * MS;
	p = pair_new(a, b);
	p->b.meddle = lose_accept;
	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, has_a_fault, SECONDS));
	cr_expect_str_eq(p->a.fault, "no answer to the handshake");
	p->b.meddle = NULL;
	cr_assert(pair_until(p, pair_is_up, SECONDS)); /* after its ban */
	pair_free(p);
	expect_nothing_left();
}

Test(rdma, a_queue_pair_that_cannot_be_made_is_a_fault_of_that_link_only)
{
	struct rdma_config a = config("a"), b = config("b");
	struct pair *p;

	a.times.ban = b.times.ban = 20 * MS;
	p = pair_new(a, b);
	verbs_mock.create_qp = ENOMEM;
	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, has_a_fault, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 0);
	verbs_mock.create_qp = 0;
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	pair_free(p);
	expect_nothing_left();
}

/* Each step of the handshake fails in its turn. */
Test(rdma, a_queue_pair_that_cannot_be_changed_leaves_nothing)
{
	for (int after = 0; after < 6; after++) {
		struct pair *p = pair_new(config("a"), config("b"));

		verbs_mock.modify_qp = EINVAL;
		verbs_mock.modify_qp_after = after;
		pair_connect(p);
		rdma_link_moved(p->b.l, MIB / 2);
		rdma_link_moved(p->a.l, MIB);
		p->is_done = NULL;
		cr_assert(pair_until(p, pair_is_down, SECONDS));
		while (p->a.faults + p->b.faults == 0)
			cr_assert(pair_until(p, pair_is_down, SECONDS));
		pair_free(p);
		verbs_mock.modify_qp = 0;
		expect_nothing_left();
	}
}

static bool only_b_offers(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_OFFER)
		m->end.fabric = RDMA_INFINIBAND;
	return true;
}

static bool a_was_refused(struct pair *p)
{
	return stats(&p->b).refused_total > 0 && !p->b.first;
}

Test(rdma, ends_of_different_fabrics_leave_it)
{
	struct pair *p = pair_new(config("a"), config("b"));

	p->a.meddle = only_b_offers;
	pair_connect(p);
	rdma_link_moved(p->b.l, MIB / 2);
	rdma_link_moved(p->a.l, MIB);
	cr_assert(pair_until(p, a_was_refused, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_eq(told(&p->a, RDMA_OFFER), 1);
	pair_free(p);
}

static bool take_back(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_READY) {
		m->type = RDMA_CLOSE;
		m->close.why = RDMA_CLOSE_BUSY;
	}
	return true;
}

static bool b_failed(struct pair *p)
{
	return stats(&p->b).failed_total > 0;
}

Test(rdma, who_takes_his_offer_back_is_left_alone)
{
	struct pair *p = pair_new(config("a"), config("b"));

	p->a.meddle = take_back;
	pair_connect(p);
	rdma_link_moved(p->b.l, MIB / 2);
	rdma_link_moved(p->a.l, MIB);
	cr_assert(pair_until(p, b_failed, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 1); /* a's, which it lied about */
	pair_free(p);
	expect_nothing_left();
}

Test(rdma, an_offer_of_another_version_is_refused_politely)
{
	struct pair *p = pair_new(config("a"), config("b"));
	struct rdma_msg m = { .type = RDMA_OFFER, .epoch = 9 };
	uint8_t body[RDMA_BODY_MAX];
	size_t n = rdma_wire_put(body, &m);

	pair_connect(p);
	body[0] = 2;
	cr_expect_eq(rdma_link_hear(p->a.l, RDMA_OFFER, body, n, NULL), 0);
	cr_expect_eq(told(&p->a, RDMA_CLOSE), 1);
	pair_free(p);
}

Test(rdma, what_breaks_the_order_is_told)
{
	struct pair *p = connected();
	struct rdma_msg m = { .type = RDMA_READY, .epoch = 3 };
	uint8_t body[RDMA_BODY_MAX];
	struct error err = ERROR_INIT;
	size_t n = rdma_wire_put(body, &m);

	/* "a" was first to offer: its first attempt is number 3. */
	cr_expect_eq(rdma_link_hear(p->a.l, RDMA_READY, body, n, &err),
		     -EPROTO);
	m.type = RDMA_DONE;
	n = rdma_wire_put(body, &m);
	cr_expect_eq(rdma_link_hear(p->a.l, RDMA_DONE, body, n, &err), -EPROTO);
	cr_expect_eq(rdma_link_hear(p->a.l, RDMA_DONE, body, n - 1, &err),
		     -EPROTO);
	m.epoch = 77; /* of an attempt that is over */
	n = rdma_wire_put(body, &m);
	cr_expect_eq(rdma_link_hear(p->a.l, RDMA_DONE, body, n, &err), 0);
	pair_free(p);
}

/* ------------------------------------------------------------------- pieces --- */

Test(rdma, pieces_arrive_both_ways)
{
	static const uint32_t lens[] = { 1,       7,       4096,
					 65536,   65537,   300000,
					 1 << 20, 1234567, 2 * MIB - 8 };
	struct pair *p = connected();
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
	cr_expect_eq(stats(&p->a).sent_bytes_total, bytes);
	cr_expect_eq(stats(&p->b).received_bytes_total, bytes);
	cr_expect_eq(p->a.faults + p->b.faults, 0);
	cr_expect_leq(verbs_mock.signals * 2, verbs_mock.reads);
	pair_free(p);
	expect_nothing_left();
}

Test(rdma, many_small_pieces_are_under_way_at_once)
{
	struct pair *p = connected();

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

Test(rdma, what_does_not_fit_goes_by_tcp)
{
	struct pair *p = connected();

	cr_expect_not(pair_send(&p->a, 0, 2 * MIB));
	cr_expect_not(pair_send(&p->a, 0, 0));
	cr_expect_not(pair_send(&p->a, PAIR_CONTENT - 10, 11));
	cr_expect_eq(told(&p->a, RDMA_GRANT), 0);
	pair_free(p);
}

static void expect_fall_back(enum ibv_wc_status status, const char *what)
{
	struct rdma_config a = config("a"), b = config("b");
	struct pair *p;

	a.times.ban = b.times.ban = 50 * MS;
	p = connected_as(a, b);
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
	cr_expect_eq(stats(&p->a).fallbacks_total, 5);
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
	expect_nothing_left();
}

Test(rdma, after_any_fault_of_a_read_its_piece_goes_by_tcp)
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
	return has_a_fault(p);
}

Test(rdma, a_ban_is_doubled_when_it_does_not_help)
{
	struct rdma_config a = config("a"), b = config("b");
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

Test(rdma, a_wrong_key_harms_nobody)
{
	struct pair *p = connected();

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

Test(rdma, a_peer_cannot_read_what_another_one_was_granted)
{
	struct pair *p = connected();
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
	expect_nothing_left();
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

Test(rdma, whatever_a_peer_says_harms_nobody)
{
	struct rdma_config a = config("a"), b = config("b");
	unsigned int n_read = 0, n_up = 0;

	a.times.ban = b.times.ban = a.times.retry = b.times.retry = 1;
	for (unsigned int round = 0; round < 12; round++) {
		struct pair *p = connected_as(a, b);
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
		expect_nothing_left();
	}
	cr_expect_gt(n_read, 0);
	cr_expect_gt(n_up, 0);
}

Test(rdma, a_piece_read_after_its_lease_is_known_for_stale)
{
	struct rdma_config a = config("a");
	struct pair *p;

	a.times.lease = 1; /* over at once */
	p = connected_as(a, config("b"));
	verbs_mock.is_held = true;
	cr_assert(pair_send(&p->a, 0, 2 * MIB - 8)); /* all of the lane */
	while (told(&p->a, RDMA_GRANT) == 1) {
		/* Its memory is taken for this one. */
		cr_assert(pair_send(&p->a, 1000, 1000));
	}
	verbs_mock_release();
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->b.wrong, 0);
	cr_expect_geq(p->a.fell_back, 1);
	cr_expect_geq(stats(&p->a).stale_total, 1);
	cr_expect_eq(p->a.faults + p->b.faults, 0);
	cr_expect(pair_is_up(p));
	pair_free(p);
}

Test(rdma, reads_that_never_end_are_given_up)
{
	struct rdma_config a = config("a"), b = config("b");
	struct pair *p;

	b.times.stall = 50 * MS;
	p = connected_as(a, b);
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

Test(rdma, a_peer_that_never_says_done_is_given_up)
{
	struct rdma_config a = config("a");
	struct pair *p;

	a.times.forget = 50 * MS;
	p = connected_as(a, config("b"));
	p->b.meddle = lose_done;
	cr_assert(pair_send(&p->a, 0, 100000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->a.fell_back, 1);
	cr_expect_str_eq(p->a.fault, "the peer does not say whether it read");
	pair_free(p);
}

Test(rdma, reads_that_cannot_be_posted_are_a_fault)
{
	struct pair *p = connected();

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

Test(rdma, a_link_may_end_while_a_piece_arrives)
{
	struct pair *p = connected();

	p->b.on_arrived = leave;
	for (uint32_t i = 0; i < 10; i++)
		cr_assert(pair_send(&p->a, i, 50000));
	cr_assert(pair_until(p, b_left, SECONDS));
	cr_expect_eq(p->b.arrived, 1);
	pair_free(p);
	expect_nothing_left();
}

/* ------------------------------------------------------------------ devices --- */

Test(rdma, a_queue_pair_or_port_that_fails_is_left_for_tcp)
{
	static const enum ibv_event_type events[] = { IBV_EVENT_QP_FATAL,
						      IBV_EVENT_PORT_ERR };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct pair *p = connected();

		verbs_mock.is_held = true;
		cr_assert(pair_send(&p->a, 0, 100000));
		verbs_mock_event(events[i]);
		cr_assert(pair_until(p, pair_is_down, SECONDS));
		cr_assert(pair_until(p, pair_is_quiet, SECONDS));
		cr_expect_eq(p->a.fell_back, 1);
		verbs_mock_release(); /* too late, and of nobody */
		pair_free(p);
		expect_nothing_left();
	}
}

Test(rdma, a_device_that_fails_is_not_used_again)
{
	static const enum ibv_event_type events[] = { IBV_EVENT_DEVICE_FATAL,
						      IBV_EVENT_CQ_ERR };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct rdma_config a = config("a");
		struct pair *p;

		a.times.ban = MS;
		p = connected_as(a, config("b"));
		verbs_mock_event(events[i]);
		cr_assert(pair_until(p, pair_is_down, SECONDS));
		pair_disconnect(p);
		pair_connect(p);
		pair_moved(p, 2 * MIB);
		cr_expect_eq(verbs_mock.n_qps, 0);
		pair_free(p);
		expect_nothing_left();
	}
}

/* ---------------------------------------------------------------- admission --- */

#define MANY 12

static void nobody_hears(void *user, enum rdma_type type, const void *body,
			 size_t len)
{
	unsigned int *offers = user;

	*offers += type == RDMA_OFFER;
}

Test(rdma, eight_handshakes_are_in_work_at_most)
{
	static const struct rdma_events deaf = { .tell = nobody_hears };
	struct rdma_config c = config("a");
	struct rdma_link *links[MANY];
	struct loop *loop = NULL;
	struct rdma *r = NULL;
	unsigned int offers = 0;

	cr_assert_eq(loop_new(&loop, NULL), 0);
	c.loop = loop;
	c.events = &deaf;
	c.slab = 64 * MIB;
	cr_assert_eq(rdma_new(&c, &r, NULL), 0);
	for (size_t i = 0; i < MANY; i++) {
		char name[16];

		snprintf(name, sizeof(name), "node%zu", i);
		cr_assert_eq(rdma_link_new(r, name, &offers, &links[i], NULL),
			     0);
		rdma_link_moved(links[i], MIB);
	}
	cr_expect_eq(offers, 8);
	cr_expect_eq(verbs_mock.n_qps, 8);
	for (size_t i = 0; i < MANY; i++)
		rdma_link_free(links[i]);
	rdma_free(r);
	loop_free(loop);
	expect_nothing_left();
}

static struct rdma_link *first_a, *first_b;
static bool second_is_up(struct pair *p)
{
	return pair_is_up(p) && !rdma_link_is_ready(first_a) &&
	       !rdma_link_is_ready(first_b);
}

Test(rdma, an_idle_link_gives_its_lane_to_another)
{
	struct rdma_config a = config("a"), b = config("b");
	struct pair *p;

	a.slab = b.slab = 4 * MIB; /* one lane */
	a.times.idle = 1;
	a.times.retry = b.times.retry = MS;
	p = connected_as(a, b);
	first_a = p->a.l;
	first_b = p->b.l;
	/* The harness lets messages go to the newest link, so the first one's
	 * end of "b" is told by hand. */
	rdma_link_free(first_b);
	cr_assert_eq(rdma_link_new(p->b.r, "a", &p->b, &first_b, NULL), 0);
	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, second_is_up, SECONDS));
	cr_expect_eq(stats(&p->a).evicted_total, 1);
	cr_expect_eq(verbs_mock.n_qps, 2);
	cr_assert(pair_send(&p->a, 5, 5000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->b.wrong, 0);
	rdma_link_free(first_a);
	rdma_link_free(first_b);
	pair_free(p);
	expect_nothing_left();
}
