// SPDX-License-Identifier: Apache-2.0
/* RDMA over a mock of the verbs: devices, handshakes and admission;
 * tests/functional/rdma.bats has a real device. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "common/bytes.h"
#include "mock_pair.h"
#include "verbs_mock.h"

TestSuite(rdma, .init = verbs_mock_reset, .timeout = 120);

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
	mock_expect_nothing_left();
	return rc;
}

Test(rdma, takes_the_device_of_the_nodes_address)
{
	char text[ERROR_MSG_MAX];

	cr_assert_eq(open_one(mock_config("b"), text), 0);
	cr_expect_str_eq(text, "mock1 port 1 gid ::ffff:10.0.0.2, 4 lanes of "
			       "4096 KiB");
}

Test(rdma, takes_the_device_that_was_named)
{
	struct rdma_config c = mock_config("b");
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
	cr_assert_eq(open_one(mock_config("a"), text), 0);
	cr_expect(strstr(text, "mock1"));
	verbs_mock.port_state[1] = IBV_PORT_DOWN;
	cr_assert_eq(open_one(mock_config("a"), text), -ENODEV);
	verbs_mock.n_devices = 0;
	cr_assert_eq(open_one(mock_config("a"), text), -ENODEV);
}

Test(rdma, an_infiniband_port_needs_no_address)
{
	char text[ERROR_MSG_MAX];

	verbs_mock.link_layer = IBV_LINK_LAYER_INFINIBAND;
	cr_assert_eq(open_one(mock_config("a"), text), 0);
}

Test(rdma, says_what_to_raise_when_memory_cannot_be_locked)
{
	struct rlimit limit = { .rlim_cur = 64 * KIB, .rlim_max = 64 * KIB };
	char text[ERROR_MSG_MAX];

	verbs_mock.reg_mr = ENOMEM;
	verbs_mock.reg_mr_after = 3;
	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	cr_assert_eq(open_one(mock_config("a"), text), -EPERM);
	cr_expect(strstr(text, "RLIMIT_MEMLOCK"), "%s", text);
}

Test(rdma, has_as_many_lanes_as_the_device_allows)
{
	char text[ERROR_MSG_MAX];

	verbs_mock.max_cqe = 300; /* of 128 for each lane */
	cr_assert_eq(open_one(mock_config("a"), text), 0);
	cr_expect(strstr(text, "2 lanes"), "%s", text);
	verbs_mock.max_pd = 1;
	cr_assert_eq(open_one(mock_config("a"), text), 0);
	cr_expect(strstr(text, "1 lanes"), "%s", text);
	verbs_mock.max_mr_size = MIB;
	cr_assert_eq(open_one(mock_config("a"), text), -ENOMEM);
	cr_expect(strstr(text, "registers at most 1048576 bytes"), "%s", text);
}

Test(rdma, a_slab_that_holds_no_lane_is_refused)
{
	struct rdma_config c = mock_config("a");
	char text[ERROR_MSG_MAX];

	c.slab = MIB;
	cr_assert_eq(open_one(c, text), -ENOMEM);
}

/* --------------------------------------------------------------- handshakes --- */

Test(rdma, a_link_that_moved_little_gets_no_queue_pair)
{
	struct pair *p = pair_new(mock_config("a"), mock_config("b"));

	pair_connect(p);
	pair_moved(p, MIB - 1);
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_not(pair_send(&p->a, 0, 4096));
	pair_moved(p, 1);
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 2);
	cr_expect_eq(mock_stats(&p->a).links, 1);
	pair_free(p);
	mock_expect_nothing_left();
}

/* Both offer before either heard of the other's: "a" is the lower name. */
static bool crossing(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_OFFER && mock_told(s->other, RDMA_OFFER) == 0) {
		s->meddle = NULL;
		/* Enough for it to be tried at once. */
		rdma_link_moved(s->other->l, 4 * MIB);
	}
	return true;
}

Test(rdma, the_lower_name_wins_when_both_offer)
{
	struct rdma_config b = mock_config("b");
	struct pair *p;

	b.times.retry = 1; /* it does not wait for "a" to go first */
	p = pair_new(mock_config("a"), b);
	pair_connect(p);
	rdma_link_moved(p->b.l, MIB - 1);
	p->a.meddle = crossing;
	rdma_link_moved(p->a.l, MIB);
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	cr_expect_eq(mock_told(&p->a, RDMA_ACCEPT), 0);
	cr_expect_eq(mock_told(&p->b, RDMA_ACCEPT), 1);
	cr_expect_eq(verbs_mock.n_qps, 2);
	cr_expect_eq(p->a.heard, 0);
	cr_expect_eq(p->b.heard, 0);
	pair_free(p);
}

static bool lose_accept(struct side *s, struct rdma_msg *m)
{
	return m->type != RDMA_ACCEPT;
}

Test(rdma, a_handshake_without_an_answer_ends)
{
	struct rdma_config a = mock_config("a"), b = mock_config("b");
	struct pair *p;

	a.times.handshake = 50 * MS;
	a.times.ban = 50 * MS;
	b.times.ban = 50 * MS;
	p = pair_new(a, b);
	p->b.meddle = lose_accept;
	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, mock_has_fault, SECONDS));
	cr_expect_str_eq(p->a.fault, "no answer to the handshake");
	p->b.meddle = NULL;
	cr_assert(pair_until(p, pair_is_up, SECONDS)); /* after its ban */
	pair_free(p);
	mock_expect_nothing_left();
}

Test(rdma, a_queue_pair_that_cannot_be_made_is_a_fault_of_that_link_only)
{
	struct rdma_config a = mock_config("a"), b = mock_config("b");
	struct pair *p;

	a.times.ban = b.times.ban = 20 * MS;
	p = pair_new(a, b);
	verbs_mock.create_qp = ENOMEM;
	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, mock_has_fault, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 0);
	verbs_mock.create_qp = 0;
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	pair_free(p);
	mock_expect_nothing_left();
}

/* Each step of the handshake fails in its turn. */
Test(rdma, a_queue_pair_that_cannot_be_changed_leaves_nothing)
{
	for (int after = 0; after < 6; after++) {
		struct pair *p = pair_new(mock_config("a"), mock_config("b"));

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
		mock_expect_nothing_left();
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
	return mock_stats(&p->b).refused_total > 0 && !p->b.first;
}

Test(rdma, ends_of_different_fabrics_leave_it)
{
	struct pair *p = pair_new(mock_config("a"), mock_config("b"));

	p->a.meddle = only_b_offers;
	pair_connect(p);
	rdma_link_moved(p->b.l, MIB / 2);
	rdma_link_moved(p->a.l, MIB);
	cr_assert(pair_until(p, a_was_refused, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_eq(mock_told(&p->a, RDMA_OFFER), 1);
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
	return mock_stats(&p->b).failed_total > 0;
}

Test(rdma, who_takes_his_offer_back_is_left_alone)
{
	struct pair *p = pair_new(mock_config("a"), mock_config("b"));

	p->a.meddle = take_back;
	pair_connect(p);
	rdma_link_moved(p->b.l, MIB / 2);
	rdma_link_moved(p->a.l, MIB);
	cr_assert(pair_until(p, b_failed, SECONDS));
	cr_expect_eq(verbs_mock.n_qps, 1); /* a's, which it lied about */
	pair_free(p);
	mock_expect_nothing_left();
}

Test(rdma, an_offer_of_another_version_is_refused_politely)
{
	struct pair *p = pair_new(mock_config("a"), mock_config("b"));
	struct rdma_msg m = { .type = RDMA_OFFER, .epoch = 9 };
	uint8_t body[RDMA_BODY_MAX];
	size_t n = rdma_wire_put(body, &m);

	pair_connect(p);
	body[0] = 2;
	cr_expect_eq(rdma_link_hear(p->a.l, RDMA_OFFER, body, n, NULL), 0);
	cr_expect_eq(mock_told(&p->a, RDMA_CLOSE), 1);
	pair_free(p);
}

Test(rdma, what_breaks_the_order_is_told)
{
	struct pair *p = mock_connected();
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

Test(rdma, a_queue_pair_or_port_that_fails_is_left_for_tcp)
{
	static const enum ibv_event_type events[] = { IBV_EVENT_QP_FATAL,
						      IBV_EVENT_PORT_ERR };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct pair *p = mock_connected();

		verbs_mock.is_held = true;
		cr_assert(pair_send(&p->a, 0, 100000));
		verbs_mock_event(events[i]);
		cr_assert(pair_until(p, pair_is_down, SECONDS));
		cr_assert(pair_until(p, pair_is_quiet, SECONDS));
		cr_expect_eq(p->a.fell_back, 1);
		verbs_mock_release(); /* too late, and of nobody */
		pair_free(p);
		mock_expect_nothing_left();
	}
}

Test(rdma, a_device_that_fails_is_not_used_again)
{
	static const enum ibv_event_type events[] = { IBV_EVENT_DEVICE_FATAL,
						      IBV_EVENT_CQ_ERR };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		struct rdma_config a = mock_config("a");
		struct pair *p;

		a.times.ban = MS;
		p = mock_connected_as(a, mock_config("b"));
		verbs_mock_event(events[i]);
		cr_assert(pair_until(p, pair_is_down, SECONDS));
		pair_disconnect(p);
		pair_connect(p);
		pair_moved(p, 2 * MIB);
		cr_expect_eq(verbs_mock.n_qps, 0);
		pair_free(p);
		mock_expect_nothing_left();
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
	struct rdma_config c = mock_config("a");
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
	mock_expect_nothing_left();
}

static struct rdma_link *first_a, *first_b;
static bool second_is_up(struct pair *p)
{
	return pair_is_up(p) && !rdma_link_is_ready(first_a) &&
	       !rdma_link_is_ready(first_b);
}

Test(rdma, an_idle_link_gives_its_lane_to_another)
{
	struct rdma_config a = mock_config("a"), b = mock_config("b");
	struct pair *p;

	a.slab = b.slab = 4 * MIB; /* one lane */
	a.times.idle = 1;
	a.times.retry = b.times.retry = MS;
	p = mock_connected_as(a, b);
	first_a = p->a.l;
	first_b = p->b.l;
	/* The harness lets messages go to the newest link, so the first one's
	 * end of "b" is told by hand. */
	rdma_link_free(first_b);
	cr_assert_eq(rdma_link_new(p->b.r, "a", &p->b, &first_b, NULL), 0);
	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, second_is_up, SECONDS));
	cr_expect_eq(mock_stats(&p->a).evicted_total, 1);
	cr_expect_eq(verbs_mock.n_qps, 2);
	cr_assert(pair_send(&p->a, 5, 5000));
	cr_assert(pair_until(p, pair_is_quiet, SECONDS));
	cr_expect_eq(p->b.wrong, 0);
	rdma_link_free(first_a);
	rdma_link_free(first_b);
	pair_free(p);
	mock_expect_nothing_left();
}
