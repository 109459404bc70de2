// SPDX-License-Identifier: Apache-2.0
#include "registry/peer_sums.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

#define TAKER_SHARE \
	16 /* one taker gets at most one in so many of the pairs shown */
#define PLACES_FIRST 1024u /* places for pairs at first; a power of two */
#define NO_NODE UINT32_MAX /* marks a place without a pair */

struct peer_node_entry {
	struct peer_node node;
	uint32_t index;
	UT_hash_handle hh;
};

struct peer_sums {
	struct peer_node_entry *nodes, *last_taker; /* last_taker: found last */
	/* Hash table of pairs: each is at the first free place after that of its hash. At least
	 * half of the places are free. */
	struct peer_pair *places;
	size_t n_places, n_pairs;
	uint64_t got, origin, left_out;
	/* Set by peer_sums_end(). */
	struct peer_node *node_list;
	uint32_t *order;
};

int peer_sums_new(struct peer_sums **ret, struct error *err)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : error_nomem(err);
}

void peer_sums_free(struct peer_sums *s)
{
	struct peer_node_entry *n, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->nodes, n, next)
	{
		HASH_DEL(s->nodes, n);
		free(n->node.name);
		free(n);
	}
	free(s->node_list);
	free(s->places);
	free(s->order);
	free(s);
}

/* Find or add a node. Returns 0 with `*ret` NULL if there are too many. */
static int find_or_add_node(struct peer_sums *s, const char *name,
			    struct peer_node_entry **ret)
{
	struct peer_node_entry *n;

	HASH_FIND_STR(s->nodes, name, n);
	*ret = n;
	if (n || HASH_COUNT(s->nodes) >= PEER_SUMS_NODES_MAX)
		return 0;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->index = HASH_COUNT(s->nodes);
	n->node.name = strdup(name);
	if (n->node.name)
		HASH_ADD_KEYPTR(hh, s->nodes, n->node.name, strlen(name), n);
	if (!n->node.name || !hash_has_added(n)) {
		free(n->node.name);
		free(n);
		return -ENOMEM;
	}
	*ret = n;
	return 0;
}

/* Stop a sum at the largest signed number, because readers use signed numbers. */
static void add_bounded(uint64_t *sum, uint64_t bytes)
{
	*sum = bytes > PEER_SUMS_BYTES_MAX - *sum ? PEER_SUMS_BYTES_MAX
						  : *sum + bytes;
}

/* find_or_add_node() with the last taker cached, since all pairs of a report have the same
 * taker. */
static int find_or_add_taker(struct peer_sums *s, const char *name,
			     struct peer_node_entry **ret)
{
	int rc = 0;

	if (!s->last_taker || strcmp(s->last_taker->node.name, name) != 0)
		rc = find_or_add_node(s, name, &s->last_taker);
	*ret = s->last_taker;
	return rc;
}

int peer_sums_add(struct peer_sums *s, const char *taker, uint64_t got,
		  uint64_t origin)
{
	struct peer_node_entry *n;
	int rc = find_or_add_taker(s, taker, &n);

	add_bounded(&s->got, got);
	add_bounded(&s->origin, origin);
	if (rc == 0 && n) {
		add_bounded(&n->node.got, got);
		add_bounded(&n->node.origin, origin);
	}
	s->left_out += rc == 0 && !n;
	return rc;
}

/* Find the pair's place, or the free place to add it. */
static struct peer_pair *find_place_of_pair(struct peer_pair *places, size_t n,
					    uint32_t giver, uint32_t taker)
{
	uint64_t key = (uint64_t)giver << 32 | taker;
	/* A simple hash is enough: the keys are indices of nodes, which no attacker can choose to
	 * collide. */
	size_t i = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32;

	for (i &= n - 1; places[i].giver != NO_NODE; i = (i + 1) & (n - 1))
		if (places[i].giver == giver && places[i].taker == taker)
			break;
	return &places[i];
}

static int grow_places(struct peer_sums *s)
{
	size_t n = s->n_places ? 2 * s->n_places : PLACES_FIRST;
	struct peer_pair *places = calloc(n, sizeof(*places));

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		places[i].giver = NO_NODE;
	for (size_t i = 0; i < s->n_places; i++) {
		const struct peer_pair *p = &s->places[i];

		if (p->giver != NO_NODE)
			*find_place_of_pair(places, n, p->giver, p->taker) = *p;
	}
	free(s->places);
	s->places = places;
	s->n_places = n;
	return 0;
}

/* Find or add a pair. Returns 0 with `*ret` NULL if there are too many. */
static int find_or_add_pair(struct peer_sums *s, uint32_t giver, uint32_t taker,
			    struct peer_pair **ret)
{
	struct peer_pair *p;
	int rc = 2 * s->n_pairs >= s->n_places ? grow_places(s) : 0;

	*ret = NULL;
	if (rc < 0)
		return rc;
	p = find_place_of_pair(s->places, s->n_places, giver, taker);
	if (p->giver == NO_NODE) {
		if (s->n_pairs >= PEER_SUMS_PAIRS_MAX)
			return 0;
		*p = (struct peer_pair){ giver, taker, 0 };
		s->n_pairs++;
	}
	*ret = p;
	return 0;
}

int peer_sums_add_pair(struct peer_sums *s, const char *giver,
		       const char *taker, uint64_t bytes)
{
	struct peer_node_entry *from, *to = NULL;
	struct peer_pair *p = NULL;
	int rc = find_or_add_node(s, giver, &from);

	if (rc == 0)
		rc = find_or_add_taker(s, taker, &to);
	if (rc == 0 && from && to) {
		add_bounded(&from->node.gave, bytes);
		rc = find_or_add_pair(s, from->index, to->index, &p);
	}
	if (rc == 0 && p) {
		from->node.takers += p->bytes == 0 && bytes;
		to->node.givers += p->bytes == 0 && bytes;
		add_bounded(&p->bytes, bytes);
	}
	s->left_out += rc == 0 && !p;
	return rc;
}

static int compare_nodes_by_gave(const void *x, const void *y, void *arg)
{
	const struct peer_node *nodes = arg;
	const struct peer_node *a = &nodes[*(const uint32_t *)x],
			       *b = &nodes[*(const uint32_t *)y];

	if (a->gave != b->gave)
		return a->gave < b->gave ? 1 : -1;
	if (a->got != b->got)
		return a->got < b->got ? 1 : -1;
	return strcmp(a->name, b->name);
}

static int compare_pairs_by_bytes(const void *x, const void *y, void *arg)
{
	const struct peer_node *nodes = arg;
	const struct peer_pair *a = x, *b = y;
	int order;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	order = strcmp(nodes[a->giver].name, nodes[b->giver].name);
	return order ? order
		     : strcmp(nodes[a->taker].name, nodes[b->taker].name);
}

/* Move all pairs to the front of the table; no pair is added after that. */
static void compact_pairs(struct peer_sums *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_places; i++)
		if (s->places[i].giver != NO_NODE)
			s->places[n++] = s->places[i];
}

int peer_sums_end(struct peer_sums *s, struct peer_sums_result *ret)
{
	size_t n_nodes = HASH_COUNT(s->nodes);
	struct peer_node_entry *n;

	s->node_list = calloc(n_nodes + 1, sizeof(*s->node_list));
	s->order = calloc(n_nodes + 1, sizeof(*s->order));
	if (!s->node_list || !s->order)
		return -ENOMEM;
	for (n = s->nodes; n; n = n->hh.next) {
		s->node_list[n->index] = n->node;
		s->order[n->index] = n->index;
	}
	compact_pairs(s);
	if (n_nodes)
		qsort_r(s->order, n_nodes, sizeof(*s->order),
			compare_nodes_by_gave, s->node_list);
	if (s->n_pairs)
		qsort_r(s->places, s->n_pairs, sizeof(*s->places),
			compare_pairs_by_bytes, s->node_list);
	*ret = (struct peer_sums_result){ .nodes = s->node_list,
					  .order = s->order,
					  .pairs = s->places,
					  .n_nodes = n_nodes,
					  .n_pairs = s->n_pairs,
					  .got = s->got,
					  .origin = s->origin,
					  .left_out = s->left_out };
	return 0;
}

static bool pair_has_node(const struct peer_sums_result *s,
			  const struct peer_pair *p, const char *node)
{
	return !node[0] || strcmp(node, s->nodes[p->giver].name) == 0 ||
	       strcmp(node, s->nodes[p->taker].name) == 0;
}

int peer_sums_choose(const struct peer_sums_result *s, const char *node,
		     size_t limit, bool *ret)
{
	size_t share = (limit + TAKER_SHARE - 1) / TAKER_SHARE, n = 0;
	AUTO_FREE size_t *had = calloc(s->n_nodes + 1, sizeof(*had));

	if (!had)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_pairs && n < limit; i++)
		if (pair_has_node(s, &s->pairs[i], node) &&
		    had[s->pairs[i].taker]++ < share) {
			ret[i] = true;
			n++;
		}
	for (size_t i = 0; i < s->n_pairs && n < limit; i++)
		if (!ret[i] && pair_has_node(s, &s->pairs[i], node)) {
			ret[i] = true;
			n++;
		}
	return 0;
}

/* ------------------------------------------------------------------ in store --- */

int peer_line_format(const char *giver, int64_t bytes, struct buf *ret)
{
	return buf_printf(ret, "%s %" PRId64 "\n", giver, bytes);
}

bool peer_line_parse(const char **text, char giver[STAGE_NODE_MAX + 1],
		     int64_t *ret_bytes)
{
	const char *at = strchr(*text, ' ');
	size_t n = at ? (size_t)(at - *text) : 0;
	char *end;

	if (!n || n > STAGE_NODE_MAX)
		return false;
	memcpy(giver, *text, n);
	giver[n] = '\0';
	*ret_bytes = strtoll(at + 1, &end, 10);
	if (end == at + 1 || *ret_bytes < 0 || *end != '\n')
		return false;
	*text = end + 1;
	return true;
}
