// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "p2p/rdma/rdma_wire.h"

TestSuite(rdma_wire, .timeout = 120);

static struct rdma_msg example(enum rdma_type type)
{
	struct rdma_msg m;

	memset(&m, 0, sizeof(m));
	m.type = type;
	m.epoch = 0x01020304;
	switch (type) {
	case RDMA_OFFER:
	case RDMA_ACCEPT:
		m.end.gid[15] = 7;
		m.end.qpn = 0xabcdef;
		m.end.psn = 0x123456;
		m.end.lid = 99;
		m.end.mtu = IBV_MTU_1024;
		m.end.rd_atomic = 16;
		m.end.fabric = RDMA_ROCE2;
		strcpy(m.end.device, "mlx5_0");
		break;
	case RDMA_GRANT:
		m.grant.id = 5;
		m.grant.len = 1000;
		m.grant.addr = 0x7f0011223344;
		m.grant.rkey = 0x55667788;
		m.grant.lease_ms = 200;
		m.grant.stamp = 0x1122334455667788;
		m.grant.n_about = 3;
		memcpy(m.grant.about, "abc", 3);
		break;
	case RDMA_DONE:
		m.done.id = 5;
		m.done.status = RDMA_DONE_STALE;
		break;
	case RDMA_CLOSE:
		m.close.why = RDMA_CLOSE_BUSY;
		m.close.retry_ms = 1500;
		break;
	case RDMA_READY:
		break;
	}
	return m;
}

static int get(unsigned int type, const void *body, size_t len,
	       struct rdma_msg *ret)
{
	return rdma_wire_get(type, body, len, ret, NULL);
}

Test(rdma_wire, what_is_put_is_got)
{
	for (unsigned int t = RDMA_OFFER; t <= RDMA_CLOSE; t++) {
		struct rdma_msg m = example(t), got;
		uint8_t body[RDMA_BODY_MAX];
		size_t n = rdma_wire_put(body, &m);

		cr_assert_eq(get(t, body, n, &got), 0, "type %u", t);
		cr_expect_eq(memcmp(&m, &got, sizeof(m)), 0, "type %u", t);
		/* What a piece is about may be shorter. */
		if (t == RDMA_GRANT)
			n -= m.grant.n_about;
		for (size_t i = 0; i < n; i++)
			cr_expect_eq(get(t, body, i, &got), -EINVAL,
				     "type %u of %zu bytes", t, i);
	}
}

/* The bytes of docs/formats/p2p.md, so that nobody changes them by chance. */
Test(rdma_wire, the_bytes_are_those_of_the_format)
{
	static const uint8_t grant[] = {
		1,    0,    0,    0,    4,    3,    2,    1, /* head */
		5,    0,    0,    0,    0xe8, 3,    0,    0, /* id, len */
		0x44, 0x33, 0x22, 0x11, 0,    0x7f, 0,    0, /* addr */
		0x88, 0x77, 0x66, 0x55, 200,  0,    0,    0, /* rkey, lease */
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* stamp */
		'a',  'b',  'c',
	};
	struct rdma_msg m = example(RDMA_GRANT);
	uint8_t body[RDMA_BODY_MAX];

	cr_assert_eq(rdma_wire_put(body, &m), sizeof(grant));
	cr_expect_arr_eq(body, grant, sizeof(grant));
}

Test(rdma_wire, another_version_says_of_which_attempt_it_is)
{
	struct rdma_msg m = example(RDMA_OFFER), got;
	uint8_t body[RDMA_BODY_MAX];
	size_t n = rdma_wire_put(body, &m);

	body[0] = 2;
	cr_assert_eq(get(RDMA_OFFER, body, n, &got), -EPROTONOSUPPORT);
	cr_expect_eq(got.epoch, m.epoch);
}

Test(rdma_wire, what_is_out_of_range_is_refused)
{
	static const struct {
		enum rdma_type type;
		size_t at;
		uint8_t byte;
	} bad[] = {
		{ RDMA_OFFER, 1, 0 },   /* no fabric */
		{ RDMA_OFFER, 1, 3 },   /* no fabric */
		{ RDMA_OFFER, 2, 1 },   /* reserved */
		{ RDMA_OFFER, 27, 1 },  /* queue pair of 25 bits */
		{ RDMA_OFFER, 31, 1 },  /* sequence number of 25 bits */
		{ RDMA_OFFER, 34, 0 },  /* mtu */
		{ RDMA_OFFER, 34, 6 },  /* mtu */
		{ RDMA_OFFER, 35, 0 },  /* no READ at a time */
		{ RDMA_OFFER, 36, 64 }, /* length of the name */
		{ RDMA_OFFER, 40, 7 },  /* a bell in the name */
		{ RDMA_READY, 1, 1 },   { RDMA_GRANT, 1, 1 },
		{ RDMA_DONE, 1, 3 },    { RDMA_CLOSE, 1, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rdma_msg m = example(bad[i].type), got;
		uint8_t body[RDMA_BODY_MAX];
		size_t n = rdma_wire_put(body, &m);

		body[bad[i].at] = bad[i].byte;
		cr_expect_eq(get(bad[i].type, body, n, &got), -EINVAL, "%zu",
			     i);
	}
}

Test(rdma_wire, a_grant_must_not_wrap_around)
{
	struct rdma_msg m = example(RDMA_GRANT), got;
	uint8_t body[RDMA_BODY_MAX];
	size_t n;

	m.grant.addr = UINT64_MAX - 1000;
	n = rdma_wire_put(body, &m);
	cr_expect_eq(get(RDMA_GRANT, body, n, &got), -EINVAL);
	m = example(RDMA_GRANT);
	m.grant.len = 0;
	n = rdma_wire_put(body, &m);
	cr_expect_eq(get(RDMA_GRANT, body, n, &got), -EINVAL);
	cr_expect_eq(get(RDMA_CLOSE + 1, body, n, &got), -EINVAL);
}
