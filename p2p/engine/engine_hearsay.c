// SPDX-License-Identifier: Apache-2.0
/*
 * What neighbours say of others.  Whoever has a certificate may say anything, so an
 * address that leads to this machine, or to no machine, is not dialled for it; and a
 * neighbour whose names nobody answers to, one after the other, is not believed for a
 * time, and what it said is forgotten.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_hearsay.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/net/net_addr.h"

/* For how long a node that said too many names that nobody answers to is not heard. */
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

void hearsay_forgive(struct member *teller)
{
	while (teller->n_bad_says)
		free(teller->bad_says[--teller->n_bad_says]);
}

/* One that it says again and again, as an honest node does of a neighbour that this one
 * does not reach, counts once. */
static void add_bad(struct member *teller, const struct net_node *node)
{
	AUTO_FREE char *says = NULL;

	if (asprintf(&says, "%s %s", node->addr, node->name) < 0) {
		says = NULL;
		return;
	}
	for (size_t k = 0; k < teller->n_bad_says; k++)
		if (strcmp(teller->bad_says[k], says) == 0)
			return;
	teller->bad_says[teller->n_bad_says++] = steal_ptr(&says);
}

void hearsay_note_bad(struct p2p *p, struct member *teller,
		      const struct net_node *node, int64_t now)
{
	add_bad(teller, node);
	if (teller->n_bad_says < BAD_SAYS_MAX)
		return;
	hearsay_forgive(teller);
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

	if (known && is_new)
		(void)snprintf(known->told_by, sizeof(known->told_by), "%s",
			       teller->node.name);
	return known;
}

void hearsay_failed(struct p2p *p, struct member *m, int64_t now)
{
	struct member *teller =
		*m->told_by ? member_by_name(p, m->told_by) : NULL;

	if (teller && teller != m)
		hearsay_note_bad(p, teller, &m->node, now);
}

void hearsay_proved(struct p2p *p, struct member *m)
{
	struct member *teller =
		*m->told_by ? member_by_name(p, m->told_by) : NULL;

	if (teller)
		hearsay_forgive(teller);
	m->told_by[0] = '\0';
}
