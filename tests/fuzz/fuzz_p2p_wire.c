// SPDX-License-Identifier: Apache-2.0
/* Messages of peers: what is read, and written again, has the same bytes. */
#include <string.h>

#include "p2p/net/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static int again_hello(struct buf *b, const struct wire_head *h,
		       const uint8_t *body)
{
	struct wire_hello m;

	if (wire_get_hello(body, h->len, &m, NULL) < 0 ||
	    m.version != WIRE_VERSION || body[5])
		return -1;
	return wire_put_hello(b, h->type, &m);
}

static int again_bind(struct buf *b, const struct wire_head *h,
		      const uint8_t *body)
{
	struct wire_bind m;

	if (wire_get_bind(body, h->len, &m, NULL) < 0)
		return -1;
	return wire_put_bind(b, h->type, &m);
}

static int again_goaway(struct buf *b, const struct wire_head *h,
			const uint8_t *body)
{
	struct wire_goaway m;

	if (wire_get_goaway(body, h->len, &m, NULL) < 0)
		return -1;
	require(strlen(m.text) <= WIRE_TEXT_MAX);
	return wire_put_goaway(b, m.kind, m.text);
}

static int again_open(struct buf *b, const struct wire_head *h,
		      const uint8_t *body)
{
	struct wire_open m;

	if (wire_get_open(body, h->len, &m, NULL) < 0)
		return -1;
	return h->type == WIRE_RENEW ? wire_put_renew(b, &m)
				     : wire_put_open(b, h->req, &m);
}

static int again_verdict(struct buf *b, const struct wire_head *h,
			 const uint8_t *body)
{
	struct wire_verdict m;

	if (wire_get_verdict(body, h->len, &m, NULL) < 0)
		return -1;
	return wire_put_verdict(b, h->type, h->req, &m);
}

static int again_have(struct buf *b, const struct wire_head *h,
		      const uint8_t *body)
{
	static struct swarm_range r[WIRE_RANGES_MAX];
	struct wire_have m;

	if (wire_get_have(body, h->len, &m, r, NULL) < 0)
		return -1;
	for (size_t i = 0; i < m.n_have + m.n_lost + m.n_promised; i++) {
		bool is_first =
			i == 0 || i == m.n_have || i == m.n_have + m.n_lost;

		require(r[i].n && r[i].first + r[i].n <= SWARM_PIECES_MAX);
		require(is_first || r[i].first >= r[i - 1].first + r[i - 1].n);
	}
	return wire_put_have(b, &m, r);
}

static int again_want(struct buf *b, const struct wire_head *h,
		      const uint8_t *body)
{
	struct wire_want m;

	if (wire_get_want(body, h->len, &m, NULL) < 0)
		return -1;
	require(m.len_max <= BLOCK_USIZE_MAX);
	require(m.n_others <= SWARM_OTHERS_MAX);
	return wire_put_want(b, h->req, h->prio, &m);
}

static int again_nack(struct buf *b, const struct wire_head *h,
		      const uint8_t *body)
{
	struct wire_nack m;

	if (wire_get_nack(body, h->len, &m, NULL) < 0 || body[2] || body[3])
		return -1;
	return wire_put_nack(b, h->req, &m);
}

static int again_members(struct buf *b, const struct wire_head *h,
			 const uint8_t *body)
{
	static struct net_node nodes[WIRE_MEMBERS_MAX];
	size_t n;

	if (wire_get_members(body, h->len, nodes, &n, NULL) < 0)
		return -1;
	return wire_put_members(b, nodes, n);
}

static int again_image_members(struct buf *b, const struct wire_head *h,
			       const uint8_t *body)
{
	static struct net_node nodes[WIRE_MEMBERS_MAX];
	uint16_t alias;
	size_t n;

	if (wire_get_image_members(body, h->len, &alias, nodes, &n, NULL) < 0)
		return -1;
	return wire_put_image_members(b, alias, nodes, n);
}

static int again_data(struct buf *b, const struct wire_head *h,
		      const uint8_t *body)
{
	uint8_t fields[WIRE_DATA_SIZE];
	struct wire_data d;
	uint32_t n;

	if (h->len <= WIRE_DATA_SIZE)
		return -1;
	n = h->len - WIRE_DATA_SIZE;
	if (wire_get_data(body, n, &d, NULL) < 0)
		return -1;
	require(n <= d.total && d.off <= d.total - n);
	wire_put_data(fields, &d);
	require(memcmp(fields, body, WIRE_DATA_SIZE) == 0);
	return -1;
}

static int (*const again[])(struct buf *b, const struct wire_head *h,
			    const uint8_t *body) = {
	[WIRE_HELLO] = again_hello,
	[WIRE_HELLO_ACK] = again_hello,
	[WIRE_BIND] = again_bind,
	[WIRE_BIND_ACK] = again_bind,
	[WIRE_GOAWAY] = again_goaway,
	[WIRE_OPEN] = again_open,
	[WIRE_OPEN_ACK] = again_verdict,
	[WIRE_CLOSE] = again_verdict,
	[WIRE_HAVE] = again_have,
	[WIRE_WANT] = again_want,
	[WIRE_NACK] = again_nack,
	[WIRE_PEX] = again_members,
	[WIRE_DATA] = again_data,
	[WIRE_RENEW] = again_open,
	[WIRE_IMAGE_PEX] = again_image_members,
};

/* The body in memory of exactly its size, so that a read past it is seen. */
static void one(const struct wire_head *h, const uint8_t *body)
{
	AUTO_FREE uint8_t *copy = malloc(h->len ? h->len : 1);
	struct buf b = BUF_INIT;

	require(copy != NULL);
	memcpy(copy, body, h->len);
	if (h->type < ARRAY_SIZE(again) && again[h->type] &&
	    again[h->type](&b, h, copy) == 0) {
		require(b.len == WIRE_HEAD_SIZE + h->len);
		require(memcmp(b.data + WIRE_HEAD_SIZE, body, h->len) == 0);
	}
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct wire_head h;
	uint8_t head[WIRE_HEAD_SIZE], type;

	while (len >= WIRE_HEAD_SIZE && wire_get_head(data, &h, NULL) == 0) {
		wire_put_head(head, &h);
		require(memcmp(head, data, sizeof(head)) == 0);
		data += WIRE_HEAD_SIZE;
		len -= WIRE_HEAD_SIZE;
		if (len < h.len)
			break;
		one(&h, data);
		data += h.len;
		len -= h.len;
	}
	/* And what is left as a body: check sums are hard to guess. */
	if (len < 1 || len - 1 > WIRE_CONTROL_MAX)
		return 0;
	type = data[0];
	h = (struct wire_head){ .type = type, .len = (uint32_t)len - 1 };
	one(&h, data + 1);
	return 0;
}
