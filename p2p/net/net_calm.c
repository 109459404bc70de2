// SPDX-License-Identifier: Apache-2.0
/*
 * Message allowances left over from ended links. The next link to the same node continues with
 * them, so a node gains nothing by reconnecting.
 */
#include <string.h>

#include "common/clock.h"
#include "p2p/net/net_priv.h"

/* The entry of this name, or the one unused for longest. */
static struct net_spent *find_or_replace_entry(struct net *n, const char *name)
{
	struct net_spent *oldest = n->spent;

	for (size_t k = 0; k < NET_SPENT_MAX; k++) {
		if (strcmp(n->spent[k].name, name) == 0)
			return &n->spent[k];
		if (n->spent[k].calm.at < oldest->calm.at)
			oldest = &n->spent[k];
	}
	return oldest;
}

void calm_keep(struct net_link *l)
{
	int64_t now = clock_now_ns();
	struct net_spent *s;

	(void)bucket_look(&l->calm, 1, now);
	(void)bucket_look(&l->names, 1, now);
	if (l->calm.tokens == l->calm.burst &&
	    l->names.tokens == l->names.burst)
		return;
	s = find_or_replace_entry(l->net, l->peer.name);
	(void)snprintf(s->name, sizeof(s->name), "%s", l->peer.name);
	s->calm = l->calm;
	s->names = l->names;
}

void calm_recall(struct net_link *l)
{
	const struct net_spent *s = find_or_replace_entry(l->net, l->peer.name);

	if (strcmp(s->name, l->peer.name) != 0)
		return;
	l->calm = s->calm;
	l->names = s->names;
}
