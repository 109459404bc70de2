// SPDX-License-Identifier: Apache-2.0
/* Messages against bytes that another program made from docs/formats/p2p.md. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/net/wire.h"

TestSuite(wire, .timeout = 120);

static const uint8_t hello_bytes[] = {
	0x36, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0xef, 0x58, 0x02, 0xee, 0x01, 0x00, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x00, 0x01,
	0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d,
	0x0e, 0x0f, 0x02, 0x6e, 0x31, 0x0a, 0x31, 0x30, 0x2e, 0x30, 0x2e, 0x30,
	0x2e, 0x31, 0x3a, 0x37, 0x01, 0x72, 0x00, 0x02, 0x65, 0x75
};
static const uint8_t bind_bytes[] = { 0x10, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00,
				      0x00, 0x00, 0x00, 0x00, 0x00, 0x27, 0xea,
				      0x0d, 0xe9, 0x00, 0x01, 0x02, 0x03, 0x04,
				      0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
				      0x0c, 0x0d, 0x0e, 0x0f };
static const uint8_t ping_bytes[] = { 0x00, 0x00, 0x00, 0x00, 0x05, 0x00,
				      0x00, 0x00, 0x07, 0x00, 0x00, 0x00,
				      0xdd, 0xf2, 0x41, 0x5a };
static const uint8_t goaway_bytes[] = { 0x05, 0x00, 0x00, 0x00, 0x07, 0x00,
					0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
					0xa9, 0x34, 0x8f, 0x25, 0x02, 0x03,
					0x62, 0x79, 0x65 };
static const uint8_t open_bytes[] = {
	0x2a, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00,
	0xee, 0xb7, 0x88, 0x9c, 0x03, 0x00, 0x02, 0x00, 0xe8, 0x03, 0x00, 0x00,
	0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f,
	0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x7b,
	0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0x83, 0x6f, 0x6b
};
static const uint8_t open_ack_bytes[] = { 0x04, 0x00, 0x00, 0x00, 0x09,
					  0x00, 0x00, 0x00, 0x09, 0x00,
					  0x00, 0x00, 0x3e, 0x55, 0xa1,
					  0xce, 0x03, 0x00, 0x00, 0x02 };
static const uint8_t have_bytes[] = {
	0x2c, 0x00, 0x00, 0x00, 0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x79, 0x01, 0xe9, 0xcb, 0x03, 0x00, 0x02, 0x00, 0x01, 0x00, 0x01, 0x00,
	0xfa, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
	0x0a, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00,
	0x02, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00
};
static const uint8_t want_bytes[] = {
	0x0c, 0x00, 0x00, 0x00, 0x0c, 0x01, 0x00, 0x00, 0x03, 0x02,
	0x01, 0x00, 0xd0, 0xdb, 0x0f, 0x55, 0x03, 0x00, 0x00, 0x00,
	0x4d, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00
};
static const uint8_t data_bytes[] = {
	0x14, 0x00, 0x00, 0x00, 0x0d, 0x01, 0x00, 0x00, 0x03, 0x02, 0x01, 0x00,
	0x95, 0xa9, 0x78, 0x8b, 0x4d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x04, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x61, 0x62, 0x63, 0x64
};
static const uint8_t nack_bytes[] = { 0x08, 0x00, 0x00, 0x00, 0x0e, 0x00,
				      0x00, 0x00, 0x03, 0x02, 0x01, 0x00,
				      0x96, 0x5d, 0xb3, 0x6a, 0x00, 0x00,
				      0x00, 0x00, 0x19, 0x00, 0x00, 0x00 };
static const uint8_t members_bytes[] = {
	0x22, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0xaf, 0xa4, 0xa6, 0xff, 0x02, 0x00, 0x01, 0x78,
	0x0a, 0x31, 0x30, 0x2e, 0x30, 0x2e, 0x30, 0x2e, 0x31, 0x3a,
	0x31, 0x00, 0x00, 0x00, 0x01, 0x79, 0x07, 0x5b, 0x3a, 0x3a,
	0x31, 0x5d, 0x3a, 0x32, 0x01, 0x72, 0x01, 0x7a, 0x01, 0x67
};

static const uint8_t image_members_bytes[] = {
	0x15, 0x00, 0x00, 0x00, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x44, 0x1a, 0xf1, 0xd0, 0x03, 0x00, 0x01, 0x00,
	0x01, 0x78, 0x0a, 0x31, 0x30, 0x2e, 0x30, 0x2e, 0x30, 0x2e,
	0x31, 0x3a, 0x31, 0x00, 0x01, 0x7a, 0x00
};

static void expect_bytes(struct buf *b, const uint8_t *want, size_t n)
{
	cr_assert_eq(b->len, n, "%zu", b->len);
	cr_expect_arr_eq(b->data, want, n);
	buf_fini(b);
}

/* The head of golden bytes, which is right; its body follows. */
static const uint8_t *body_of(const uint8_t *bytes, struct wire_head *h)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(wire_get_head(bytes, h, &err), 0, "%s", err.msg);
	return bytes + WIRE_HEAD_SIZE;
}

Test(wire, hello_has_its_bytes)
{
	struct wire_hello h = { .version = 1,
				.version_min = 1,
				.security = NET_OPEN,
				.instance = 0x0102030405060708,
				.node = { .name = "n1",
					  .addr = "10.0.0.1:7",
					  .rack = "r",
					  .region = "eu" } },
			  got;
	struct wire_head head;
	struct buf b = BUF_INIT;
	const uint8_t *body = body_of(hello_bytes, &head);

	for (uint8_t i = 0; i < WIRE_NONCE_SIZE; i++)
		h.nonce[i] = i;
	cr_assert_eq(wire_put_hello(&b, WIRE_HELLO, &h), 0);
	expect_bytes(&b, hello_bytes, sizeof(hello_bytes));
	cr_assert_eq(wire_get_hello(body, head.len, &got, NULL), 0);
	cr_expect_str_eq(got.node.name, "n1");
	cr_expect_str_eq(got.node.addr, "10.0.0.1:7");
	cr_expect_str_eq(got.node.region, "eu");
	cr_expect_eq(got.instance, h.instance);
	cr_expect_arr_eq(got.nonce, h.nonce, WIRE_NONCE_SIZE);
}

/* Put the golden bytes of HELLO into `copy` to change them. */
static int get_changed_hello(size_t at, uint8_t value, size_t len)
{
	uint8_t copy[sizeof(hello_bytes) + 8] = { 0 };
	struct wire_hello got;

	memcpy(copy, hello_bytes, sizeof(hello_bytes));
	copy[WIRE_HEAD_SIZE + at] = value;
	return wire_get_hello(copy + WIRE_HEAD_SIZE, len, &got, NULL);
}

Test(wire, hello_of_another_version_is_understood_or_refused)
{
	const size_t len = sizeof(hello_bytes) - WIRE_HEAD_SIZE;

	/* A newer one that still speaks ours may say more. */
	cr_expect_eq(get_changed_hello(0, 2, len + 8), 0);
	cr_expect_eq(get_changed_hello(0, 1, len + 8), -EINVAL);
	cr_expect_eq(get_changed_hello(2, 2, len), -EPROTONOSUPPORT);
	cr_expect_eq(get_changed_hello(0, 0, len), -EPROTONOSUPPORT);
}

Test(wire, hello_with_wrong_texts_is_refused)
{
	const size_t len = sizeof(hello_bytes) - WIRE_HEAD_SIZE;

	cr_expect_eq(get_changed_hello(34, 0, len), -EINVAL);   /* length */
	cr_expect_eq(get_changed_hello(34, 255, len), -EINVAL); /* past */
	cr_expect_eq(get_changed_hello(35, '\n', len), -EINVAL);
	cr_expect_eq(get_changed_hello(0, 1, len - 1), -EINVAL);
	cr_expect_eq(get_changed_hello(0, 1, 33), -EINVAL);
	cr_expect_eq(get_changed_hello(0, 1, 0), -EINVAL);
}

Test(wire, bind_ping_and_goaway_have_their_bytes)
{
	struct wire_bind m, got;
	struct wire_goaway bye;
	struct wire_head h;
	struct buf b = BUF_INIT;
	const uint8_t *body;

	for (uint8_t i = 0; i < WIRE_NONCE_SIZE; i++)
		m.nonce[i] = i;
	cr_assert_eq(wire_put_bind(&b, WIRE_BIND, &m), 0);
	expect_bytes(&b, bind_bytes, sizeof(bind_bytes));
	body = body_of(bind_bytes, &h);
	cr_assert_eq(wire_get_bind(body, h.len, &got, NULL), 0);
	cr_expect_arr_eq(got.nonce, m.nonce, WIRE_NONCE_SIZE);
	cr_expect_eq(wire_get_bind(body, h.len - 1, &got, NULL), -EINVAL);

	cr_assert_eq(wire_put_empty(&b, WIRE_PING, 7), 0);
	expect_bytes(&b, ping_bytes, sizeof(ping_bytes));

	cr_assert_eq(wire_put_goaway(&b, WIRE_LEAVE_TWICE, "bye"), 0);
	expect_bytes(&b, goaway_bytes, sizeof(goaway_bytes));
	body = body_of(goaway_bytes, &h);
	cr_assert_eq(wire_get_goaway(body, h.len, &bye, NULL), 0);
	cr_expect_eq(bye.kind, WIRE_LEAVE_TWICE);
	cr_expect_str_eq(bye.text, "bye");
	cr_expect_eq(wire_get_goaway(body, h.len - 1, &bye, NULL), -EINVAL);
	cr_expect_eq(wire_get_goaway(body, 1, &bye, NULL), -EINVAL);
	cr_expect_eq(wire_get_goaway("\1", 2, &bye, NULL), -EINVAL);
}

Test(wire, open_and_its_answer_have_their_bytes)
{
	struct wire_open m = { .alias = 3,
			       .n_pieces = 1000,
			       .capability = "ok",
			       .capability_len = 2 },
			 got;
	struct wire_verdict v = { .alias = 3, .why = SWARM_DENIED }, heard;
	struct wire_head h;
	struct buf b = BUF_INIT;
	const uint8_t *body = body_of(open_bytes, &h);
	uint8_t none[40];

	for (uint8_t i = 0; i < DIGEST_SIZE; i++)
		m.image.b[i] = (uint8_t)(100 + i);
	cr_assert_eq(wire_put_open(&b, 9, &m), 0);
	expect_bytes(&b, open_bytes, sizeof(open_bytes));
	cr_assert_eq(wire_get_open(body, h.len, &got, NULL), 0);
	cr_expect(digest_equal(&got.image, &m.image));
	cr_expect_eq(got.capability_len, 2);
	cr_expect_eq(got.n_pieces, 1000);
	cr_expect_eq(wire_get_open(body, h.len - 1, &got, NULL), -EINVAL);
	cr_expect_eq(wire_get_open(body, 39, &got, NULL), -EINVAL);
	/* No pieces. */
	memcpy(none, body, sizeof(none));
	put_le16(none + 2, 0);
	put_le32(none + 4, 0);
	cr_expect_eq(wire_get_open(none, sizeof(none), &got, NULL), -EINVAL);
	cr_assert_eq(wire_put_renew(&b, &m), 0);
	cr_assert_eq(wire_get_head((const uint8_t *)b.data, &h, NULL), 0);
	cr_expect_eq(h.type, WIRE_RENEW);
	cr_expect_eq(h.flags, WIRE_OPTIONAL);
	cr_expect_eq(b.len, WIRE_HEAD_SIZE + h.len);
	cr_expect_arr_eq(b.data + WIRE_HEAD_SIZE, body, h.len);
	buf_reset(&b);
	m.capability_len = WIRE_CAPABILITY_MAX + 1;
	cr_expect_eq(wire_put_open(&b, 9, &m), -EFBIG);
	cr_expect_eq(wire_put_renew(&b, &m), -EFBIG);

	cr_assert_eq(wire_put_verdict(&b, WIRE_OPEN_ACK, 9, &v), 0);
	expect_bytes(&b, open_ack_bytes, sizeof(open_ack_bytes));
	body = body_of(open_ack_bytes, &h);
	cr_assert_eq(wire_get_verdict(body, h.len, &heard, NULL), 0);
	cr_expect_eq(heard.why, SWARM_DENIED);
	cr_expect_not(heard.ok);
	cr_expect_eq(wire_get_verdict(body, 3, &heard, NULL), -EINVAL);
	cr_expect_eq(wire_get_verdict((uint8_t[]){ 3, 0, 0, 3 }, 4, &heard,
				      NULL),
		     -EINVAL);
}

Test(wire, have_has_its_bytes)
{
	static struct swarm_range got[WIRE_RANGES_MAX];
	const struct swarm_range r[] = {
		{ 0, 3 }, { 10, 1 }, { 5, 2 }, { 20, 4 }
	};
	struct wire_have m = { .alias = 3,
			       .eta_ms = 250,
			       .n_have = 2,
			       .n_lost = 1,
			       .n_promised = 1 },
			 heard;
	struct wire_head h;
	struct buf b = BUF_INIT;
	const uint8_t *body = body_of(have_bytes, &h);
	uint8_t copy[44];

	cr_assert_eq(wire_put_have(&b, &m, r), 0);
	expect_bytes(&b, have_bytes, sizeof(have_bytes));
	cr_assert_eq(wire_get_have(body, h.len, &heard, got, NULL), 0);
	cr_expect_eq(heard.n_promised, 1);
	cr_expect_eq(heard.eta_ms, 250);
	cr_expect_eq(got[3].first, 20);
	cr_expect_eq(got[3].n, 4);
	cr_expect_eq(wire_get_have(body, h.len - 8, &heard, got, NULL),
		     -EINVAL);
	/* An empty range, and one past all pieces. */
	memcpy(copy, body, sizeof(copy));
	put_le32(copy + 16, 0);
	cr_expect_eq(wire_get_have(copy, sizeof(copy), &heard, got, NULL),
		     -EINVAL);
	put_le32(copy + 16, 2);
	put_le32(copy + 12, SWARM_PIECES_MAX - 1);
	cr_expect_eq(wire_get_have(copy, sizeof(copy), &heard, got, NULL),
		     -EINVAL);
	m.n_have = WIRE_RANGES_MAX;
	cr_expect_eq(wire_put_have(&b, &m, got), -EFBIG);
}

/* Of each kind by itself. */
Test(wire, have_names_a_piece_once_and_in_order)
{
	static struct swarm_range got[WIRE_RANGES_MAX];
	struct wire_have heard;
	struct wire_head h;
	const uint8_t *body = body_of(have_bytes, &h);
	uint8_t copy[44];

	cr_assert_eq(h.len, sizeof(copy));
	memcpy(copy, body, sizeof(copy));
	put_le32(copy + 20, 3); /* beside the first one */
	cr_expect_eq(wire_get_have(copy, sizeof(copy), &heard, got, NULL), 0);
	put_le32(copy + 20, 2);
	cr_expect_eq(wire_get_have(copy, sizeof(copy), &heard, got, NULL),
		     -EINVAL);
	put_le32(copy + 20, 0);
	cr_expect_eq(wire_get_have(copy, sizeof(copy), &heard, got, NULL),
		     -EINVAL);
	/* All four of one kind: the third is before the second. */
	memcpy(copy, body, sizeof(copy));
	copy[2] = 4;
	copy[4] = copy[6] = 0;
	cr_expect_eq(wire_get_have(copy, sizeof(copy), &heard, got, NULL),
		     -EINVAL);
}

Test(wire, a_want_names_other_pieces)
{
	struct wire_want w = { .alias = 3,
			       .piece = 77,
			       .len_max = 4096,
			       .others = { 9, 5 },
			       .n_others = 2 },
			 w2;
	struct buf b = BUF_INIT;
	struct wire_head h;
	uint8_t body[12 + 4 * (SWARM_OTHERS_MAX + 1)] = { 0 };

	cr_assert_eq(wire_put_want(&b, 1, SOURCE_HOT, &w), 0);
	memcpy(body, body_of((const uint8_t *)b.data, &h), 20);
	cr_expect_eq(h.len, 20);
	cr_assert_eq(wire_get_want(body, h.len, &w2, NULL), 0);
	cr_expect_eq(w2.n_others, 2);
	cr_expect_eq(w2.others[0], 9);
	cr_expect_eq(w2.others[1], 5);
	/* Fewer or more than it says, and more than there may be. */
	cr_expect_eq(wire_get_want(body, 16, &w2, NULL), -EINVAL);
	cr_expect_eq(wire_get_want(body, 24, &w2, NULL), -EINVAL);
	put_le16(body + 2, SWARM_OTHERS_MAX + 1);
	cr_expect_eq(wire_get_want(body, sizeof(body), &w2, NULL), -EINVAL);
	buf_fini(&b);
}

Test(wire, want_data_and_nack_have_their_bytes)
{
	struct wire_want w = { .alias = 3, .piece = 77, .len_max = 4096 }, w2;
	struct wire_data d = { .piece = 77, .total = 4, .form = NET_PLAIN }, d2;
	struct wire_nack k = { .why = SWARM_BUSY, .retry_ms = 25 }, k2;
	uint8_t fields[WIRE_DATA_SIZE];
	struct wire_head h;
	struct buf b = BUF_INIT;
	const uint8_t *body = body_of(want_bytes, &h);

	cr_assert_eq(wire_put_want(&b, 0x10203, SOURCE_HOT, &w), 0);
	expect_bytes(&b, want_bytes, sizeof(want_bytes));
	cr_assert_eq(wire_get_want(body, h.len, &w2, NULL), 0);
	cr_expect_eq(h.prio, SOURCE_HOT);
	cr_expect_eq(h.req, 0x10203);
	cr_expect_eq(w2.piece, 77);
	cr_expect_eq(w2.len_max, 4096);
	cr_expect_eq(w2.n_others, 0);
	cr_expect_eq(wire_get_want(body, 11, &w2, NULL), -EINVAL);

	body = body_of(data_bytes, &h);
	wire_put_data(fields, &d);
	cr_expect_arr_eq(fields, body, WIRE_DATA_SIZE);
	cr_assert_eq(wire_get_data(body, 4, &d2, NULL), 0);
	cr_expect_eq(d2.form, NET_PLAIN);
	cr_expect_eq(wire_get_data(body, 5, &d2, NULL), -EINVAL);
	cr_expect_eq(wire_get_data(body, 0, &d2, NULL), -EINVAL);
	d.off = UINT32_MAX;
	wire_put_data(fields, &d);
	cr_expect_eq(wire_get_data(fields, 1, &d2, NULL), -EINVAL);

	cr_assert_eq(wire_put_nack(&b, 0x10203, &k), 0);
	expect_bytes(&b, nack_bytes, sizeof(nack_bytes));
	body = body_of(nack_bytes, &h);
	cr_assert_eq(wire_get_nack(body, h.len, &k2, NULL), 0);
	cr_expect_eq(k2.retry_ms, 25);
	cr_expect_eq(wire_get_nack((uint8_t[8]){ 4 }, 8, &k2, NULL), -EINVAL);
}

Test(wire, members_have_their_bytes)
{
	static struct net_node got[WIRE_MEMBERS_MAX], many[65];
	struct net_node m[2] = { { .name = "x", .addr = "10.0.0.1:1" },
				 { .name = "y",
				   .addr = "[::1]:2",
				   .rack = "r",
				   .zone = "z",
				   .region = "g" } };
	struct wire_head h;
	struct buf b = BUF_INIT;
	const uint8_t *body = body_of(members_bytes, &h);
	size_t n;

	cr_assert_eq(wire_put_members(&b, m, 2), 0);
	expect_bytes(&b, members_bytes, sizeof(members_bytes));
	cr_assert_eq(wire_get_members(body, h.len, got, &n, NULL), 0);
	cr_assert_eq(n, 2);
	cr_expect_str_eq(got[1].zone, "z");
	cr_expect_eq(wire_get_members(body, h.len - 1, got, &n, NULL), -EINVAL);
	cr_expect_eq(wire_put_members(&b, many, 65), -EFBIG);
	/* 64 of the longest are still a message. */
	for (int i = 0; i < 64; i++) {
		memset(many[i].name, 'n', sizeof(many[i].name) - 1);
		memset(many[i].addr, 'a', sizeof(many[i].addr) - 1);
		memset(many[i].rack, 'r', sizeof(many[i].rack) - 1);
		memset(many[i].zone, 'z', sizeof(many[i].zone) - 1);
		memset(many[i].region, 'g', sizeof(many[i].region) - 1);
	}
	cr_assert_eq(wire_put_members(&b, many, 64), 0);
	cr_expect_eq(wire_get_head((const uint8_t *)b.data, &h, NULL), 0);
	buf_fini(&b);
}

Test(wire, members_of_an_image_have_their_bytes)
{
	static struct net_node got[WIRE_MEMBERS_MAX];
	struct net_node m = { .name = "x", .addr = "10.0.0.1:1", .zone = "z" };
	struct wire_head h;
	struct buf b = BUF_INIT;
	const uint8_t *body = body_of(image_members_bytes, &h);
	uint16_t alias = 0;
	size_t n = 0;

	cr_assert_eq(wire_put_image_members(&b, 3, &m, 1), 0);
	expect_bytes(&b, image_members_bytes, sizeof(image_members_bytes));
	cr_assert_eq(wire_get_image_members(body, h.len, &alias, got, &n, NULL),
		     0);
	cr_expect_eq(alias, 3);
	cr_assert_eq(n, 1);
	cr_expect_str_eq(got[0].zone, "z");
	for (uint32_t len = 0; len < h.len; len++)
		cr_expect_eq(wire_get_image_members(body, len, &alias, got, &n,
						    NULL),
			     -EINVAL);
}

Test(wire, a_head_that_is_wrong_is_refused)
{
	struct wire_head h = { .len = 4, .type = WIRE_CLOSE, .req = 1 }, got;
	uint8_t b[WIRE_HEAD_SIZE];

	wire_put_head(b, &h);
	for (size_t i = 0; i < sizeof(b); i++) {
		b[i] ^= 1;
		cr_expect_eq(wire_get_head(b, &got, NULL), -EBADMSG);
		b[i] ^= 1;
	}
	h.len = WIRE_CONTROL_MAX + 1;
	wire_put_head(b, &h);
	cr_expect_eq(wire_get_head(b, &got, NULL), -EMSGSIZE);
	h.type = WIRE_DATA;
	wire_put_head(b, &h);
	cr_expect_eq(wire_get_head(b, &got, NULL), 0);
	h.len = WIRE_DATA_MAX + 1;
	wire_put_head(b, &h);
	cr_expect_eq(wire_get_head(b, &got, NULL), -EMSGSIZE);
	h = (struct wire_head){ .type = WIRE_PING, .prio = 3 };
	wire_put_head(b, &h);
	cr_expect_eq(wire_get_head(b, &got, NULL), -EINVAL);
	h = (struct wire_head){ .type = WIRE_PING, .flags = 1 };
	wire_put_head(b, &h);
	cr_expect_eq(wire_get_head(b, &got, NULL), -EINVAL);
}
