// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses of others that neighbours tell.  Any holder of a certificate may say anything, so
 * an address that leads to this machine, or to no machine, is not dialled for it; and a
 * neighbour whose names nobody answers to, one after the other, is not believed for a time,
 * and what it said is forgotten.
 *
 * An honest neighbour tells of nodes that have just died, of a whole rack at once.  Others
 * tell of the same nodes: what two neighbours say is held against neither.  Where this node
 * has one neighbour alone it cannot tell the two apart; so the first time is short, as an
 * honest one soon stops to tell of the dead, and a liar makes it longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_hearsay.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/net/net_addr.h"

/* For how long a node that said too many names that nobody answers to is not heard: the first
 * time, and at most, to which it doubles. */
#define MUTE_FIRST_NS (30 * NS_PER_S)
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

bool hearsay_is_remembered(const struct member *teller, int64_t now)
{
	return !hearsay_is_believed(teller, now) ||
	       (teller->mutes && teller->muted_until + MUTE_NS > now);
}

/* Names that another node says, too, stay. */
static void forget_told(struct p2p *p, const char *name)
{
	struct member *m, *next;
	struct p2p_image *i;

	LIST_FOREACH(i, &p->images, all)
	members_forget_told(i, name);
	for (m = TAILQ_FIRST(&p->members); m; m = next) {
		next = TAILQ_NEXT(m, by_age);
		if (!m->is_agreed && strcmp(m->told_by, name) == 0)
			member_drop(p, m);
	}
}

void hearsay_clear(struct member *teller)
{
	while (teller->n_bad_says)
		free(teller->bad_says[--teller->n_bad_says]);
}

/* As it is told apart from others; NULL: memory is short. */
static char *said_text(const struct net_node *node)
{
	char *says;

	return asprintf(&says, "%s %s", node->addr, node->name) < 0 ? NULL
								    : says;
}

/* Its place; n_bad_says: it is not there. */
static size_t find_bad(const struct member *teller, const char *says)
{
	size_t k = 0;

	while (k < teller->n_bad_says && strcmp(teller->bad_says[k], says) != 0)
		k++;
	return k;
}

/* A name that is said again and again, as an honest node does of a neighbour that this node
 * does not reach, counts once. */
static void add_bad(struct member *teller, const struct net_node *node)
{
	AUTO_FREE char *says = said_text(node);

	if (says && find_bad(teller, says) == teller->n_bad_says)
		teller->bad_says[teller->n_bad_says++] = steal_ptr(&says);
}

static void remove_bad(struct member *teller, const struct net_node *node)
{
	AUTO_FREE char *says = said_text(node);
	size_t k = says ? find_bad(teller, says) : teller->n_bad_says;

	if (k == teller->n_bad_says)
		return;
	free(teller->bad_says[k]);
	teller->bad_says[k] = teller->bad_says[--teller->n_bad_says];
}

/* Returns how long. */
static int64_t teller_mute(struct member *teller, int64_t now)
{
	int64_t ns = MUTE_FIRST_NS;

	if (!hearsay_is_remembered(teller, now))
		teller->mutes = 0;
	for (unsigned int k = 0; k < teller->mutes && ns < MUTE_NS; k++)
		ns *= 2;
	ns = ns < MUTE_NS ? ns : MUTE_NS;
	teller->mutes++;
	teller->muted_until = now + ns;
	return ns;
}

void hearsay_note_bad(struct p2p *p, struct member *teller,
		      const struct net_node *node, int64_t now)
{
	char why[160];

	add_bad(teller, node);
	if (teller->n_bad_says < BAD_SAYS_MAX)
		return;
	hearsay_clear(teller);
	(void)snprintf(why, sizeof(why),
		       "nobody answers where this node alone says that others "
		       "are: it is not heard on that for %d s",
		       (int)(teller_mute(teller, now) / NS_PER_S));
	forget_told(p, teller->node.name);
	engine_note(p, P2P_MADE_UP, teller->node.name, why);
}

/* `teller` says where `m` is, which is known by hearsay: does it say what another one did? */
static void note_agreed(struct p2p *p, const struct member *teller,
			struct member *m, const struct net_node *node)
{
	struct member *other;

	if (strcmp(m->node.addr, node->addr) != 0 || !*m->told_by ||
	    strcmp(m->told_by, teller->node.name) == 0)
		return;
	m->is_agreed = true;
	other = member_by_name(p, m->told_by);
	if (other)
		remove_bad(other, node);
}

struct member *hearsay_know(struct p2p *p, const struct member *teller,
			    const struct net_node *node)
{
	struct member *m = member_by_name(p, node->name), *known;
	bool is_new = !m || member_may_be_told(m);
	bool is_elsewhere = m && strcmp(m->node.addr, node->addr) != 0;

	if (m && !m->is_vouched)
		note_agreed(p, teller, m, node);
	known = member_know(p, node, true);
	if (!known || !is_new)
		return known;
	if (is_elsewhere)
		known->is_agreed = false;
	(void)snprintf(known->told_by, sizeof(known->told_by), "%s",
		       teller->node.name);
	return known;
}

void hearsay_failed(struct p2p *p, struct member *m, int64_t now)
{
	struct member *teller = *m->told_by && !m->is_agreed
					? member_by_name(p, m->told_by)
					: NULL;

	if (teller && teller != m)
		hearsay_note_bad(p, teller, &m->node, now);
}

void hearsay_proved(struct p2p *p, struct member *m)
{
	struct member *teller =
		*m->told_by ? member_by_name(p, m->told_by) : NULL;

	if (teller) {
		hearsay_clear(teller);
		teller->mutes = 0;
	}
	m->told_by[0] = '\0';
}
