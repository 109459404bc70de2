// SPDX-License-Identifier: Apache-2.0
/* The messages of docs/formats/p2p.md as bytes. */
#include "p2p/net/wire.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"

#define HELLO_FIXED 34u /* bytes before the texts */
#define OPEN_FIXED 40u
#define WANT_FIXED 12u
#define HAVE_FIXED 12u
#define RANGE_SIZE 8u

/* CRC-32C (Castagnoli) by halves of bytes: heads are short. */
static uint32_t wire_crc32c(const uint8_t *p, size_t n)
{
	static const uint32_t half[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
		0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	uint32_t c = UINT32_MAX;

	for (; n > 0; n--, p++) {
		c ^= *p;
		c = half[c & 15] ^ (c >> 4);
		c = half[c & 15] ^ (c >> 4);
	}
	return ~c;
}

/* ------------------------------------------------------------------ heads --- */

void wire_put_head(uint8_t out[WIRE_HEAD_SIZE], const struct wire_head *h)
{
	put_le32(out, h->len);
	out[4] = h->type;
	out[5] = h->prio;
	put_le16(out + 6, h->flags);
	put_le32(out + 8, h->req);
	put_le32(out + 12, wire_crc32c(out, 12));
}

int wire_get_head(const uint8_t in[WIRE_HEAD_SIZE], struct wire_head *ret,
		  struct error *err)
{
	struct wire_head h = { .len = get_le32(in),
			       .type = in[4],
			       .prio = in[5],
			       .flags = get_le16(in + 6),
			       .req = get_le32(in + 8) };

	if (get_le32(in + 12) != wire_crc32c(in, 12))
		return error_set(err, EBADMSG,
				 "what came is not a message's head");
	if (h.len > (h.type == WIRE_DATA ? WIRE_DATA_MAX : WIRE_CONTROL_MAX))
		return error_set(err, EMSGSIZE,
				 "a message of type %u and %u bytes", h.type,
				 h.len);
	if (h.prio > SOURCE_COLD || (h.flags & ~WIRE_OPTIONAL))
		return error_set(err, EINVAL,
				 "a message with priority %u and flags %#x",
				 h.prio, h.flags);
	*ret = h;
	return 0;
}

/* Append a head and `len` bytes to be filled; NULL: no memory or too long. */
static uint8_t *wire_put_bytes(struct buf *b, const struct wire_head *h,
			       int *ret_rc)
{
	uint8_t *at;

	*ret_rc = buf_reserve(b, WIRE_HEAD_SIZE + h->len);
	if (*ret_rc < 0)
		return NULL;
	at = (uint8_t *)b->data + b->len;
	wire_put_head(at, h);
	memset(at + WIRE_HEAD_SIZE, 0, h->len);
	b->len += WIRE_HEAD_SIZE + h->len;
	b->data[b->len] = '\0';
	return at + WIRE_HEAD_SIZE;
}

static int wrong_length(struct error *err, const char *what, size_t len)
{
	return error_set(err, EINVAL, "%s of %zu bytes", what, len);
}

/* ------------------------------------------------------------------ texts --- */

/* A text is its length in one byte, and the bytes. */
static size_t text_size(const char *s)
{
	return 1 + strlen(s);
}

static uint8_t *put_text(uint8_t *at, const char *s)
{
	size_t n = strlen(s);

	*at = (uint8_t)n;
	memcpy(at + 1, s, n);
	return at + 1 + n;
}

static bool is_text(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x20 || p[i] == 0x7f)
			return false;
	return true;
}

struct cursor {
	const uint8_t *at, *end;
};

static bool get_text(struct cursor *c, char *ret, size_t size)
{
	size_t n;

	if (c->at == c->end)
		return false;
	n = *c->at++;
	if (n >= size || n > (size_t)(c->end - c->at) || !is_text(c->at, n))
		return false;
	memcpy(ret, c->at, n);
	ret[n] = '\0';
	c->at += n;
	return true;
}

static size_t node_size(const struct net_node *n)
{
	return text_size(n->name) + text_size(n->addr) + text_size(n->rack) +
	       text_size(n->zone) + text_size(n->region);
}

static uint8_t *put_node(uint8_t *at, const struct net_node *n)
{
	at = put_text(at, n->name);
	at = put_text(at, n->addr);
	at = put_text(at, n->rack);
	at = put_text(at, n->zone);
	return put_text(at, n->region);
}

static bool get_node(struct cursor *c, struct net_node *ret)
{
	return get_text(c, ret->name, sizeof(ret->name)) && ret->name[0] &&
	       get_text(c, ret->addr, sizeof(ret->addr)) &&
	       get_text(c, ret->rack, sizeof(ret->rack)) &&
	       get_text(c, ret->zone, sizeof(ret->zone)) &&
	       get_text(c, ret->region, sizeof(ret->region));
}

/* -------------------------------------------------------------- handshake --- */

int wire_put_hello(struct buf *b, enum wire_type type,
		   const struct wire_hello *h)
{
	struct wire_head head = { .len = (uint32_t)(HELLO_FIXED +
						    node_size(&h->node)),
				  .type = (uint8_t)type };
	int rc;
	uint8_t *at = wire_put_bytes(b, &head, &rc);

	if (!at)
		return rc;
	put_le16(at, h->version);
	put_le16(at + 2, h->version_min);
	at[4] = h->security;
	put_le32(at + 6, h->features);
	put_le64(at + 10, h->instance);
	memcpy(at + 18, h->nonce, WIRE_NONCE_SIZE);
	put_node(at + HELLO_FIXED, &h->node);
	return 0;
}

int wire_get_hello(const void *body, size_t len, struct wire_hello *ret,
		   struct error *err)
{
	const uint8_t *p = body;
	struct wire_hello h = { .version = 0 };
	struct cursor c;

	if (len < HELLO_FIXED)
		return wrong_length(err, "HELLO", len);
	c = (struct cursor){ p + HELLO_FIXED, p + len };
	h.version = get_le16(p);
	h.version_min = get_le16(p + 2);
	h.security = p[4];
	h.features = get_le32(p + 6);
	h.instance = get_le64(p + 10);
	memcpy(h.nonce, p + 18, WIRE_NONCE_SIZE);
	if (h.version < WIRE_VERSION_MIN || h.version_min > WIRE_VERSION)
		return error_set(
			err, EPROTONOSUPPORT,
			"it speaks versions %u to %u of the protocol, we %u",
			h.version_min, h.version, WIRE_VERSION);
	/* A newer version may append fields after the texts. */
	if (!get_node(&c, &h.node) ||
	    (h.version == WIRE_VERSION && c.at != c.end))
		return error_set(err, EINVAL, "HELLO's texts are not right");
	*ret = h;
	return 0;
}

int wire_put_bind(struct buf *b, enum wire_type type, const struct wire_bind *m)
{
	struct wire_head head = { .len = WIRE_NONCE_SIZE,
				  .type = (uint8_t)type };
	int rc;
	uint8_t *at = wire_put_bytes(b, &head, &rc);

	if (!at)
		return rc;
	memcpy(at, m->nonce, WIRE_NONCE_SIZE);
	return 0;
}

int wire_get_bind(const void *body, size_t len, struct wire_bind *ret,
		  struct error *err)
{
	if (len != WIRE_NONCE_SIZE)
		return wrong_length(err, "BIND", len);
	memcpy(ret->nonce, body, WIRE_NONCE_SIZE);
	return 0;
}

int wire_put_empty(struct buf *b, enum wire_type type, uint32_t req)
{
	struct wire_head head = { .type = (uint8_t)type, .req = req };
	int rc;

	(void)wire_put_bytes(b, &head, &rc);
	return rc;
}

int wire_put_goaway(struct buf *b, enum wire_leave kind, const char *text)
{
	size_t n = strnlen(text, WIRE_TEXT_MAX);
	struct wire_head head = { .len = (uint32_t)(2 + n),
				  .type = WIRE_GOAWAY };
	int rc;
	uint8_t *at = wire_put_bytes(b, &head, &rc);

	if (!at)
		return rc;
	at[0] = (uint8_t)kind;
	at[1] = (uint8_t)n;
	memcpy(at + 2, text, n);
	return 0;
}

int wire_get_goaway(const void *body, size_t len, struct wire_goaway *ret,
		    struct error *err)
{
	const uint8_t *p = body;
	struct cursor c;

	if (len < 2 || (p[0] != WIRE_LEAVE_CLOSED && p[0] != WIRE_LEAVE_TWICE))
		return wrong_length(err, "GOAWAY", len);
	c = (struct cursor){ p + 1, p + len };
	if (!get_text(&c, ret->text, sizeof(ret->text)) || c.at != c.end)
		return wrong_length(err, "GOAWAY", len);
	ret->kind = p[0];
	return 0;
}

/* ----------------------------------------------------------------- images --- */

static int put_open(struct buf *b, struct wire_head *head,
		    const struct wire_open *m)
{
	int rc;
	uint8_t *at;

	if (m->capability_len > WIRE_CAPABILITY_MAX)
		return -EFBIG;
	head->len = (uint32_t)(OPEN_FIXED + m->capability_len);
	at = wire_put_bytes(b, head, &rc);
	if (!at)
		return rc;
	put_le16(at, m->alias);
	put_le16(at + 2, (uint16_t)m->capability_len);
	put_le32(at + 4, m->n_pieces);
	memcpy(at + 8, m->image.b, DIGEST_SIZE);
	if (m->capability_len)
		memcpy(at + OPEN_FIXED, m->capability, m->capability_len);
	return 0;
}

int wire_put_open(struct buf *b, uint32_t req, const struct wire_open *m)
{
	struct wire_head head = { .type = WIRE_OPEN, .req = req };

	return put_open(b, &head, m);
}

int wire_put_renew(struct buf *b, const struct wire_open *m)
{
	struct wire_head head = { .type = WIRE_RENEW, .flags = WIRE_OPTIONAL };

	return put_open(b, &head, m);
}

int wire_get_open(const void *body, size_t len, struct wire_open *ret,
		  struct error *err)
{
	const uint8_t *p = body;
	size_t n;

	if (len < OPEN_FIXED)
		return wrong_length(err, "OPEN", len);
	n = get_le16(p + 2);
	if (n > WIRE_CAPABILITY_MAX || len != OPEN_FIXED + n)
		return wrong_length(err, "OPEN", len);
	ret->n_pieces = get_le32(p + 4);
	if (ret->n_pieces == 0 || ret->n_pieces > SWARM_PIECES_MAX)
		return error_set(err, EINVAL, "an image of %u pieces",
				 ret->n_pieces);
	ret->alias = get_le16(p);
	memcpy(ret->image.b, p + 8, DIGEST_SIZE);
	ret->capability = p + OPEN_FIXED;
	ret->capability_len = n;
	return 0;
}

int wire_put_verdict(struct buf *b, enum wire_type type, uint32_t req,
		     const struct wire_verdict *m)
{
	struct wire_head head = { .len = 4, .type = (uint8_t)type, .req = req };
	int rc;
	uint8_t *at = wire_put_bytes(b, &head, &rc);

	if (!at)
		return rc;
	put_le16(at, m->alias);
	at[2] = m->ok;
	at[3] = (uint8_t)m->why;
	return 0;
}

int wire_get_verdict(const void *body, size_t len, struct wire_verdict *ret,
		     struct error *err)
{
	const uint8_t *p = body;

	if (len != 4)
		return wrong_length(err, "OPEN_ACK or CLOSE", len);
	if (p[2] > 1 || p[3] > SWARM_DENIED)
		return error_set(err, EINVAL, "no such answer: %u, %u", p[2],
				 p[3]);
	ret->alias = get_le16(p);
	ret->ok = p[2];
	ret->why = p[3];
	return 0;
}

int wire_put_have(struct buf *b, const struct wire_have *m,
		  const struct swarm_range *ranges)
{
	size_t n = m->n_have + m->n_lost + m->n_promised;
	struct wire_head head = { .len = (uint32_t)(HAVE_FIXED +
						    n * RANGE_SIZE),
				  .type = WIRE_HAVE };
	int rc;
	uint8_t *at;

	if (n > WIRE_RANGES_MAX)
		return -EFBIG;
	at = wire_put_bytes(b, &head, &rc);
	if (!at)
		return rc;
	put_le16(at, m->alias);
	put_le16(at + 2, (uint16_t)m->n_have);
	put_le16(at + 4, (uint16_t)m->n_lost);
	put_le16(at + 6, (uint16_t)m->n_promised);
	put_le32(at + 8, m->eta_ms);
	at += HAVE_FIXED;
	for (size_t i = 0; i < n; i++, at += RANGE_SIZE) {
		put_le32(at, ranges[i].first);
		put_le32(at + 4, ranges[i].n);
	}
	return 0;
}

/* Read `n` ranges of one kind; they must ascend without overlap. Otherwise one message could
 * name each piece thousands of times and keep its receiver busy. */
static int get_ranges(const uint8_t *p, struct swarm_range *ret, size_t n,
		      struct error *err)
{
	uint32_t end = 0;

	for (size_t i = 0; i < n; i++, p += RANGE_SIZE) {
		struct swarm_range r = { get_le32(p), get_le32(p + 4) };

		if (r.n == 0 || r.n > SWARM_PIECES_MAX ||
		    r.first > SWARM_PIECES_MAX - r.n)
			return error_set(err, EINVAL,
					 "pieces %u and %u more in HAVE",
					 r.first, r.n);
		if (r.first < end)
			return error_set(err, EINVAL,
					 "pieces %u and %u more in HAVE, after "
					 "%u",
					 r.first, r.n, end);
		end = r.first + r.n;
		ret[i] = r;
	}
	return 0;
}

int wire_get_have(const void *body, size_t len, struct wire_have *ret,
		  struct swarm_range ranges[WIRE_RANGES_MAX], struct error *err)
{
	const uint8_t *p = body;
	size_t n, at = 0;

	if (len < HAVE_FIXED)
		return wrong_length(err, "HAVE", len);
	ret->alias = get_le16(p);
	ret->n_have = get_le16(p + 2);
	ret->n_lost = get_le16(p + 4);
	ret->n_promised = get_le16(p + 6);
	ret->eta_ms = get_le32(p + 8);
	n = ret->n_have + ret->n_lost + ret->n_promised;
	if (n > WIRE_RANGES_MAX || len != HAVE_FIXED + n * RANGE_SIZE)
		return wrong_length(err, "HAVE", len);
	p += HAVE_FIXED;
	for (int k = 0; k < 3; k++) {
		n = k == 0   ? ret->n_have
		    : k == 1 ? ret->n_lost
			     : ret->n_promised;
		if (get_ranges(p + at * RANGE_SIZE, ranges + at, n, err) < 0)
			return -EINVAL;
		at += n;
	}
	return 0;
}

/* ----------------------------------------------------------------- pieces --- */

int wire_put_want(struct buf *b, uint32_t req, enum source_priority prio,
		  const struct wire_want *m)
{
	struct wire_head head = { .len = WANT_FIXED + 4u * m->n_others,
				  .type = WIRE_WANT,
				  .prio = (uint8_t)prio,
				  .req = req };
	int rc;
	uint8_t *at = wire_put_bytes(b, &head, &rc);

	if (!at)
		return rc;
	put_le16(at, m->alias);
	put_le16(at + 2, m->n_others);
	put_le32(at + 4, m->piece);
	put_le32(at + 8, m->len_max);
	for (unsigned int i = 0; i < m->n_others; i++)
		put_le32(at + WANT_FIXED + 4 * i, m->others[i]);
	return 0;
}

int wire_get_want(const void *body, size_t len, struct wire_want *ret,
		  struct error *err)
{
	const uint8_t *p = body;

	if (len < WANT_FIXED)
		return wrong_length(err, "WANT", len);
	ret->n_others = get_le16(p + 2);
	if (ret->n_others > SWARM_OTHERS_MAX ||
	    len != WANT_FIXED + 4u * ret->n_others)
		return wrong_length(err, "WANT", len);
	for (unsigned int i = 0; i < ret->n_others; i++)
		ret->others[i] = get_le32(p + WANT_FIXED + 4 * i);
	ret->alias = get_le16(p);
	ret->piece = get_le32(p + 4);
	ret->len_max = get_le32(p + 8);
	if (ret->len_max == 0 || ret->len_max > BLOCK_USIZE_MAX)
		return error_set(err, EINVAL, "WANT for %u bytes",
				 ret->len_max);
	return 0;
}

void wire_put_data(uint8_t out[WIRE_DATA_SIZE], const struct wire_data *d)
{
	put_le32(out, d->piece);
	put_le32(out + 4, d->off);
	put_le32(out + 8, d->total);
	put_le32(out + 12, d->form);
}

int wire_get_data(const uint8_t in[WIRE_DATA_SIZE], uint32_t n,
		  struct wire_data *ret, struct error *err)
{
	uint32_t form = get_le32(in + 12);

	ret->piece = get_le32(in);
	ret->off = get_le32(in + 4);
	ret->total = get_le32(in + 8);
	if (form > NET_PLAIN)
		return error_set(err, EINVAL, "DATA of form %u", form);
	ret->form = form;
	if (n == 0 || ret->total > BLOCK_USIZE_MAX || n > ret->total ||
	    ret->off > ret->total - n)
		return error_set(err, EINVAL,
				 "DATA of %u bytes at %u of a piece of %u", n,
				 ret->off, ret->total);
	return 0;
}

int wire_put_nack(struct buf *b, uint32_t req, const struct wire_nack *m)
{
	struct wire_head head = { .len = 8, .type = WIRE_NACK, .req = req };
	int rc;
	uint8_t *at = wire_put_bytes(b, &head, &rc);

	if (!at)
		return rc;
	at[0] = (uint8_t)m->why;
	at[1] = m->cancelled;
	put_le32(at + 4, m->retry_ms);
	return 0;
}

int wire_get_nack(const void *body, size_t len, struct wire_nack *ret,
		  struct error *err)
{
	const uint8_t *p = body;

	if (len != 8)
		return wrong_length(err, "NACK", len);
	if (p[0] > SWARM_SENDING || p[1] > 1)
		return error_set(err, EINVAL, "no such refusal: %u, %u", p[0],
				 p[1]);
	ret->why = p[0];
	ret->cancelled = p[1];
	ret->retry_ms = get_le32(p + 4);
	return 0;
}

/* ---------------------------------------------------------------- members --- */

/* `alias` NULL: the members are not of a certain image. */
static int put_members(struct buf *b, const uint16_t *alias,
		       const struct net_node *nodes, size_t n)
{
	struct wire_head head = { .len = alias ? 4 : 2,
				  .type = alias ? WIRE_IMAGE_PEX : WIRE_PEX };
	int rc;
	uint8_t *at;

	if (n > WIRE_MEMBERS_MAX)
		return -EFBIG;
	for (size_t i = 0; i < n; i++)
		head.len += (uint32_t)node_size(&nodes[i]);
	at = wire_put_bytes(b, &head, &rc);
	if (!at)
		return rc;
	if (alias) {
		put_le16(at, *alias);
		at += 2;
	}
	put_le16(at, (uint16_t)n);
	at += 2;
	for (size_t i = 0; i < n; i++)
		at = put_node(at, &nodes[i]);
	return 0;
}

int wire_put_members(struct buf *b, const struct net_node *nodes, size_t n)
{
	return put_members(b, NULL, nodes, n);
}

int wire_put_image_members(struct buf *b, uint16_t alias,
			   const struct net_node *nodes, size_t n)
{
	return put_members(b, &alias, nodes, n);
}

int wire_get_members(const void *body, size_t len,
		     struct net_node ret[WIRE_MEMBERS_MAX], size_t *ret_n,
		     struct error *err)
{
	const uint8_t *p = body;
	struct cursor c;
	size_t n;

	if (len < 2)
		return wrong_length(err, "PEX", len);
	c = (struct cursor){ p + 2, p + len };
	n = get_le16(p);
	if (n > WIRE_MEMBERS_MAX)
		return error_set(err, EINVAL, "PEX of %zu members", n);
	for (size_t i = 0; i < n; i++)
		if (!get_node(&c, &ret[i]))
			return error_set(err, EINVAL,
					 "member %zu of PEX is not right", i);
	if (c.at != c.end)
		return wrong_length(err, "PEX", len);
	*ret_n = n;
	return 0;
}

int wire_get_image_members(const void *body, size_t len, uint16_t *ret_alias,
			   struct net_node ret[WIRE_MEMBERS_MAX], size_t *ret_n,
			   struct error *err)
{
	const uint8_t *p = body;
	int rc;

	if (len < 4)
		return wrong_length(err, "IMAGE_PEX", len);
	rc = wire_get_members(p + 2, len - 2, ret, ret_n, err);
	if (rc == 0)
		*ret_alias = get_le16(p);
	return rc;
}

int wire_put_rdma(struct buf *b, uint8_t type, const void *body, size_t len)
{
	struct wire_head head = { .len = (uint32_t)len, .type = type };
	int rc;
	uint8_t *at = wire_put_bytes(b, &head, &rc);

	if (at)
		memcpy(at, body, len);
	return rc;
}
