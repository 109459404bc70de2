// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses of other nodes that neighbours announce. Any holder of a certificate may announce
 * anything, so an address that leads to this machine, or to no machine, is not dialled; and when
 * one address after the other from a neighbour does not answer, its announcements are ignored for
 * a time and forgotten.
 *
 * An honest neighbour may announce nodes that have just died, even a whole rack. Other neighbours
 * then announce the same nodes, so an address from two neighbours counts against neither. With a
 * single neighbour this node cannot tell the two cases apart. So the first mute time is short: an
 * honest neighbour soon stops to announce dead nodes, while a liar's mute time grows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_hearsay.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/net/net_addr.h"

/* How long a neighbour that announced too many dead addresses is ignored: the first time, and
 * the maximum up to which the time doubles. */
#define MUTE_FIRST_NS (30 * NS_PER_S)
#define MUTE_NS (600 * NS_PER_S)

/* May a node be at this address? An address of a special kind (loopback, link-local) is
 * accepted only if this node's own is of that kind: all nodes are then on one machine, or one
 * wire. */
bool hearsay_may_be(const struct p2p *p, const char *addr)
{
	struct sockaddr_storage said, own;
	enum net_addr_kind kind, own_kind = NET_ADDR_NOWHERE;
	socklen_t len, own_len;

	/* An empty address: a node that cannot be dialled. */
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

/* Forget the members that only this node announced. */
static void announced_members_forget(struct p2p *p, const char *name)
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

/* Key of an announced node; NULL: no memory. */
static char *format_announced_key(const struct net_node *node)
{
	char *says;

	return asprintf(&says, "%s %s", node->addr, node->name) < 0 ? NULL
								    : says;
}

/* Index of the key; n_bad_says: not found. */
static size_t find_bad_announcement(const struct member *teller,
				    const char *says)
{
	size_t k = 0;

	while (k < teller->n_bad_says && strcmp(teller->bad_says[k], says) != 0)
		k++;
	return k;
}

/* An address that is announced again and again counts once: an honest node repeats a neighbour
 * that this node cannot reach. */
static void add_bad_announcement(struct member *teller,
				 const struct net_node *node)
{
	AUTO_FREE char *says = format_announced_key(node);

	if (says && find_bad_announcement(teller, says) == teller->n_bad_says)
		teller->bad_says[teller->n_bad_says++] = steal_ptr(&says);
}

static void remove_bad_announcement(struct member *teller,
				    const struct net_node *node)
{
	AUTO_FREE char *says = format_announced_key(node);
	size_t k =
		says ? find_bad_announcement(teller, says) : teller->n_bad_says;

	if (k == teller->n_bad_says)
		return;
	free(teller->bad_says[k]);
	teller->bad_says[k] = teller->bad_says[--teller->n_bad_says];
}

/* Ignore what the neighbour announces; returns for how long. */
static int64_t neighbour_mute(struct member *teller, int64_t now)
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

	add_bad_announcement(teller, node);
	if (teller->n_bad_says < BAD_SAYS_MAX)
		return;
	hearsay_clear(teller);
	(void)snprintf(why, sizeof(why),
		       "nobody answers where this node alone says that others "
		       "are: it is not heard on that for %d s",
		       (int)(neighbour_mute(teller, now) / NS_PER_S));
	announced_members_forget(p, teller->node.name);
	engine_note(p, P2P_MADE_UP, teller->node.name, why);
}

/* Note whether `teller` announces the same address for `m` as another neighbour did. */
static void note_address_is_agreed(struct p2p *p, const struct member *teller,
				   struct member *m,
				   const struct net_node *node)
{
	struct member *other;

	if (strcmp(m->node.addr, node->addr) != 0 || !*m->told_by ||
	    strcmp(m->told_by, teller->node.name) == 0)
		return;
	m->is_agreed = true;
	other = member_by_name(p, m->told_by);
	if (other)
		remove_bad_announcement(other, node);
}

struct member *hearsay_know(struct p2p *p, const struct member *teller,
			    const struct net_node *node)
{
	struct member *m = member_by_name(p, node->name), *known;
	bool is_new = !m || member_may_be_told(m);
	bool is_elsewhere = m && strcmp(m->node.addr, node->addr) != 0;

	if (m && !m->is_vouched)
		note_address_is_agreed(p, teller, m, node);
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
