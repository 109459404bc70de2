// SPDX-License-Identifier: Apache-2.0
/*
 * What neighbours say of others.  Whoever has a certificate may say anything, so an
 * address that leads to this machine, or to no machine, is not dialled for it; and a
 * neighbour whose names nobody answers to, one after the other, is not believed for a
 * time, and what it said is forgotten.
 */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_hearsay.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/net/net_addr.h"

/* Names, one after the other, that nobody answers to; and for how long the node that
 * said them is not heard then. */
#define BAD_SAYS_MAX 16u
#define MUTE_NS (600 * NS_PER_S)

/* Where this node is on such an address itself, others may be: all of them are one
 * machine, or one wire. */
bool hearsay_may_be(const struct p2p *p, const char *addr)
{
	struct sockaddr_storage said, own;
	enum net_addr_kind kind, own_kind = NET_ADDR_NOWHERE;
	socklen_t len, own_len;

	/* Somebody who cannot be dialled. */
	if (!*addr)
		return true;
	if (net_addr_parse(addr, &said, &len, NULL) < 0)
		return false;
	kind = net_addr_kind(&said);
	if (net_addr_parse(net_self(p->net)->addr, &own, &own_len, NULL) == 0)
		own_kind = net_addr_kind(&own);
	if (kind == NET_ADDR_NOWHERE || !net_addr_port(&said))
		return false;
	if (kind != NET_ADDR_PLAIN && kind != own_kind)
		return false;
	return own_kind == NET_ADDR_LOOPBACK || !net_addr_is_own(&said, len);
}

bool hearsay_is_believed(const struct member *teller, int64_t now)
{
	return teller->muted_until <= now;
}

static void forget_told(struct p2p *p, const char *name)
{
	struct member *m, *next;
	struct p2p_image *i;

	LIST_FOREACH(i, &p->images, all)
	members_forget_told(i, name);
	for (m = TAILQ_FIRST(&p->members); m; m = next) {
		next = TAILQ_NEXT(m, by_age);
		if (strcmp(m->told_by, name) == 0)
			member_drop(p, m);
	}
}

void hearsay_note_bad(struct p2p *p, struct member *teller, size_t n,
		      int64_t now)
{
	teller->bad_says += n;
	if (teller->bad_says < BAD_SAYS_MAX)
		return;
	teller->bad_says = 0;
	teller->muted_until = now + MUTE_NS;
	forget_told(p, teller->node.name);
	engine_note(p, P2P_MADE_UP, teller->node.name,
		    "nobody answers where this node says that others are: it "
		    "is not heard on that for 10 minutes");
}

struct member *hearsay_know(struct p2p *p, const struct member *teller,
			    const struct net_node *node)
{
	const struct member *m = member_by_name(p, node->name);
	bool is_new = !m || member_may_be_told(m);
	struct member *known = member_know(p, node, true);

	if (known && is_new) {
		(void)snprintf(known->told_by, sizeof(known->told_by), "%s",
			       teller->node.name);
		known->is_told_bad = false;
	}
	return known;
}

void hearsay_failed(struct p2p *p, struct member *m, int64_t now)
{
	struct member *teller;

	if (!*m->told_by || m->is_told_bad)
		return;
	/* Once, however often it is tried. */
	m->is_told_bad = true;
	teller = member_by_name(p, m->told_by);
	if (teller && teller != m)
		hearsay_note_bad(p, teller, 1, now);
}

void hearsay_proved(struct p2p *p, struct member *m)
{
	struct member *teller =
		*m->told_by ? member_by_name(p, m->told_by) : NULL;

	if (teller)
		teller->bad_says = 0;
	m->told_by[0] = '\0';
}
