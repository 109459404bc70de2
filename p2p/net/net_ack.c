// SPDX-License-Identifier: Apache-2.0
/*
 * Pieces given to the kernel by sendfile() that the peer has not acknowledged. The socket's queue
 * holds the file's own pages, not copies: if a hole is punched into the file meanwhile, zeros may
 * be sent or sent again. So the file must stay unchanged until TCP has the acknowledgement.
 *
 * Between sockets of one kernel the acknowledgement comes before the receiver has read the pages.
 * There a hole may still damage a piece; its SHA-256 shows that.
 */
#include "p2p/net/net_ack.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/clock.h"

/* How often the kernel is asked what the peer has acknowledged; nothing waits for that. */
#define LOOK_NS (100 * NS_PER_MS)

bool ack_is_wanted(const struct conn *c, const struct net_answer *a)
{
	return a->body.fd >= 0 && c->io == &conn_plain;
}

void ack_await(struct conn *c, struct net_answer *a)
{
	struct net *n = c->net;

	ack_look(c); /* so a busy sender is checked often */
	a->end = c->tx_total;
	a->next = NULL;
	a->pprev = c->unacked_last;
	*c->unacked_last = a;
	c->unacked_last = &a->next;
	/* Without memory for a timer, the slower tick does it. */
	if (!n->acking)
		n->acking =
			loop_timer_start(n->loop, &n->acks, LOOK_NS, NULL) == 0;
}

struct net_answer *ack_take(struct conn *c)
{
	struct net_answer *a = c->unacked;

	if (!a)
		return NULL;
	c->unacked = a->next;
	if (c->unacked)
		c->unacked->pprev = &c->unacked;
	else
		c->unacked_last = &c->unacked;
	return a;
}

void ack_look(struct conn *c)
{
	int queued;

	if (!c->unacked || ioctl(c->fd, SIOCOUTQ, &queued) < 0)
		return;
	while (c->unacked && c->unacked->end + (uint64_t)queued <= c->tx_total)
		piece_acked(c->link, ack_take(c));
}

void ack_forget(struct conn *c)
{
	const struct linger at_once = { .l_onoff = 1 };

	ack_look(c);
	/* Discard the unsent data: the kernel would send pages that are being changed. */
	if (c->unacked)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once,
				 sizeof(at_once));
}

/* True: unacknowledged pieces are left. */
static bool link_acks_check(const struct net_link *l)
{
	if (l->state != LINK_UP)
		return false;
	ack_look(l->control);
	ack_look(l->bulk);
	return l->control->unacked || l->bulk->unacked;
}

void acks_look(struct net *n)
{
	bool is_more = false;

	for (struct net_link *l = n->links; l; l = l->next)
		is_more = link_acks_check(l) || is_more;
	if (is_more && !n->acking)
		n->acking =
			loop_timer_start(n->loop, &n->acks, LOOK_NS, NULL) == 0;
}

void acks_on_timer(struct loop_timer *t)
{
	struct net *n = container_of(t, struct net, acks);

	n->acking = false;
	net_enter(n);
	acks_look(n);
	net_leave(n);
}
