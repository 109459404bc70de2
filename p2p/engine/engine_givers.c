// SPDX-License-Identifier: Apache-2.0
/* How many bytes of an image each node sent since the last query, including nodes that have
 * left. */
#include <stdlib.h>
#include <string.h>

#include "p2p/engine/engine_peer.h"

void givers_note(struct p2p_image *i, const char *node, uint64_t bytes)
{
	struct image_givers *g = &i->givers;
	struct p2p_giver *least, *to = NULL;

	if (!bytes)
		return;
	if (!g->list)
		g->list = calloc(P2P_GIVERS_MAX, sizeof(*g->list));
	/* Without memory these figures are dropped; nothing depends on them. */
	if (!g->list)
		return;
	least = g->list;
	for (size_t k = 0; k < g->n && !to; k++) {
		if (strcmp(g->list[k].node, node) == 0)
			to = &g->list[k];
		if (g->list[k].bytes < least->bytes)
			least = &g->list[k];
	}
	/* A node that gave more takes the place of the one that gave least. */
	if (!to && g->n == P2P_GIVERS_MAX && least->bytes >= bytes)
		return;
	if (!to) {
		to = g->n < P2P_GIVERS_MAX ? &g->list[g->n++] : least;
		to->bytes = 0;
		(void)snprintf(to->node, sizeof(to->node), "%s", node);
	}
	to->bytes += bytes;
}

void givers_fini(struct p2p_image *i)
{
	free(i->givers.list);
}

static int compare_givers_by_bytes(const void *x, const void *y)
{
	const struct p2p_giver *a = x, *b = y;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->node, b->node);
}

struct givers_taking {
	struct p2p_image *i;
	struct p2p_giver *ret;
	size_t n;
};

static void take_givers(void *arg)
{
	struct givers_taking *t = arg;
	struct image_givers *g = &t->i->givers;

	neighbours_note_givers(t->i);
	if (g->n)
		qsort(g->list, g->n, sizeof(*g->list), compare_givers_by_bytes);
	if (t->n > g->n)
		t->n = g->n;
	if (t->n)
		memcpy(t->ret, g->list, t->n * sizeof(*g->list));
	g->n = 0;
}

size_t p2p_image_take_givers(struct p2p_image *i, struct p2p_giver *ret,
			     size_t max)
{
	struct givers_taking t = { i, ret, max };

	engine_run(i->p, take_givers, &t);
	return t.n;
}
