// SPDX-License-Identifier: Apache-2.0
/*
 * Output of a connection: messages first, then the requested pieces in parts, so that messages can
 * go between the parts.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/net/net_priv.h"
#include "p2p/net/net_rdma.h"
#include "p2p/net/net_turn.h"

int conn_sign_out(struct conn *c, size_t from, struct error *err)
{
	size_t n = c->out.len - from - WIRE_HEAD_SIZE;
	char *at;

	if (!c->signs)
		return 0;
	if (buf_reserve(&c->out, WIRE_MAC_SIZE) < 0)
		return error_nomem(err);
	at = c->out.data + from;
	memmove(at + WIRE_HEAD_SIZE + WIRE_MAC_SIZE, at + WIRE_HEAD_SIZE, n);
	c->out.len += WIRE_MAC_SIZE;
	if (signer_sign(c->signer, at, at + WIRE_HEAD_SIZE + WIRE_MAC_SIZE, n,
			(uint8_t *)at + WIRE_HEAD_SIZE) < 0)
		return error_set(err, EIO, "cannot sign a message");
	return 0;
}

/* Begin the next part of the first piece. */
static int begin_part(struct conn *c)
{
	struct net_answer *a = c->answers;
	uint32_t left = a->piece.len - a->at;
	struct wire_head h = { .type = WIRE_DATA,
			       .prio = (uint8_t)a->priority,
			       .req = a->req };
	struct wire_data d = { .piece = a->piece.piece,
			       .off = a->at,
			       .total = a->piece.len,
			       .form = a->piece.form };
	uint8_t *fields = c->head + WIRE_HEAD_SIZE;

	c->part_left = c->bulk ? left : turn_least(left, NET_PART_MAX);
	h.len = WIRE_DATA_SIZE + c->part_left;
	wire_put_head(c->head, &h);
	if (c->signs)
		fields += WIRE_MAC_SIZE;
	wire_put_data(fields, &d);
	c->head_len = (uint32_t)(fields - c->head) + WIRE_DATA_SIZE;
	c->head_at = 0;
	a->begun = true;
	if (!c->signs)
		return 0;
	return signer_sign(c->signer, c->head, fields, WIRE_DATA_SIZE,
			   c->head + WIRE_HEAD_SIZE);
}

static void count_sent_part_bytes(struct conn *c, uint32_t n)
{
	struct net_answer *a = c->answers;
	uint32_t head = turn_least(n, c->head_len - c->head_at);

	c->head_at += head;
	n -= head;
	a->at += n;
	c->part_left -= n;
	bucket_take(&c->net->up, n);
	c->link->st.sent_bytes += n;
	c->link->st.queued_bytes -= n;
	c->net->st.sent_bytes_total += n;
	net_rdma_moved(c->link, n);
	if (c->part_left)
		return;
	c->head_len = 0;
	if (a->at < a->piece.len)
		return;
	c->answers = a->next;
	if (c->answers)
		c->answers->pprev = &c->answers;
	else
		c->answers_last = &c->answers;
	piece_sent(c, a);
}

static ssize_t write_part(struct conn *c)
{
	struct net_answer *a = c->answers;
	struct net_body body = a->body;
	uint32_t n;
	ssize_t sent;

	if (!c->head_len && begin_part(c) < 0)
		return -EIO;
	n = turn_least(c->part_left, NET_BUDGET);
	if (c->bulk && c->net->up.rate) {
		n = bucket_look_bytes(&c->net->up, turn_least(n, NET_SLICE),
				      clock_now_ns());
		if (n == 0) {
			c->tx_paused = true;
			net_wait_refill(c->net);
			return 0;
		}
	}
	if (body.fd >= 0)
		body.off += a->at;
	else
		body.data = (const char *)body.data + a->at;
	sent = c->io->send(c, c->head + c->head_at, c->head_len - c->head_at,
			   &body, n);
	if (sent > 0)
		count_sent_part_bytes(c, (uint32_t)sent);
	return sent;
}

static ssize_t write_messages(struct conn *c)
{
	ssize_t n = c->io->send(c, c->out.data + c->out_at,
				c->out.len - c->out_at, NULL, 0);

	if (n <= 0)
		return n;
	c->out_at += (size_t)n;
	if (c->out_at == c->out.len) {
		c->out.len = c->out_at = 0;
	} else if (c->out_at > c->out.len / 2) {
		c->out.len -= c->out_at;
		memmove(c->out.data, c->out.data + c->out_at, c->out.len);
		c->out_at = 0;
	}
	return n;
}

void conn_write(struct conn *c)
{
	struct error err = ERROR_INIT;
	uint32_t moved = 0, budget = turn_budget(c, &c->net->up);
	ssize_t n;

	if (c->state != CONN_GREETING && c->state != CONN_UP)
		return;
	c->wants_write = false;
	do {
		n = c->io->flush(c);
		if (n < 0)
			break;
		if (!c->head_len && c->out_at < c->out.len)
			n = write_messages(c);
		else if (c->answers)
			n = write_part(c);
		if (n > 0) {
			moved += (uint32_t)n;
			c->tx_at = clock_now_ns();
		}
	} while (n > 0 && moved < budget);
	if (n == -EAGAIN || n > 0) {
		c->wants_write = true;
	} else if (n < 0) {
		error_errno(&err, (int)-n, "send");
		conn_fail(c, &err);
		return;
	}
	conn_update(c);
}
