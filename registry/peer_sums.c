// SPDX-License-Identifier: Apache-2.0
#include "registry/peer_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

#define TAKER_SHARE \
	16 /* of the pairs that are told a taker has one in so many */

struct peer_key {
	uint32_t giver, taker;
};

struct peer_pair_entry {
	struct peer_key key;
	uint64_t bytes;
	UT_hash_handle hh;
};

struct peer_node_entry {
	struct peer_node node;
	uint32_t index;
	UT_hash_handle hh;
};

struct peer_sums {
	struct peer_node_entry *nodes;
	struct peer_pair_entry *pairs;
	uint64_t got, origin, left_out;
	/* Of peer_sums_end(). */
	struct peer_node *node_list;
	struct peer_pair *pair_list;
	uint32_t *order;
};

int peer_sums_new(struct peer_sums **ret, struct error *err)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : error_nomem(err);
}

void peer_sums_free(struct peer_sums *s)
{
	struct peer_node_entry *n, *next_node;
	struct peer_pair_entry *p, *next_pair;

	if (!s)
		return;
	HASH_ITER(hh, s->pairs, p, next_pair)
	{
		HASH_DEL(s->pairs, p);
		free(p);
	}
	HASH_ITER(hh, s->nodes, n, next_node)
	{
		HASH_DEL(s->nodes, n);
		free(n->node.name);
		free(n);
	}
	free(s->node_list);
	free(s->pair_list);
	free(s->order);
	free(s);
}

/* NULL with 0: there are too many. */
static int node_of(struct peer_sums *s, const char *name,
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

/* Readers have them as signed numbers: a sum stops there. */
static void add_up(uint64_t *sum, uint64_t bytes)
{
	*sum = bytes > PEER_SUMS_BYTES_MAX - *sum ? PEER_SUMS_BYTES_MAX
						  : *sum + bytes;
}

int peer_sums_add(struct peer_sums *s, const char *taker, uint64_t got,
		  uint64_t origin)
{
	struct peer_node_entry *n;
	int rc = node_of(s, taker, &n);

	add_up(&s->got, got);
	add_up(&s->origin, origin);
	if (rc == 0 && n) {
		add_up(&n->node.got, got);
		add_up(&n->node.origin, origin);
	}
	s->left_out += rc == 0 && !n;
	return rc;
}

static int pair_of(struct peer_sums *s, const struct peer_key *key,
		   struct peer_pair_entry **ret)
{
	struct peer_pair_entry *p;

	HASH_FIND(hh, s->pairs, key, sizeof(*key), p);
	*ret = p;
	if (p || HASH_COUNT(s->pairs) >= PEER_SUMS_PAIRS_MAX)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->key = *key;
	HASH_ADD(hh, s->pairs, key, sizeof(p->key), p);
	if (!hash_has_added(p)) {
		free(p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

int peer_sums_add_pair(struct peer_sums *s, const char *giver,
		       const char *taker, uint64_t bytes)
{
	struct peer_node_entry *from, *to = NULL;
	struct peer_pair_entry *p = NULL;
	int rc = node_of(s, giver, &from);

	if (rc == 0)
		rc = node_of(s, taker, &to);
	if (rc == 0 && from && to) {
		const struct peer_key key = { from->index, to->index };

		add_up(&from->node.gave, bytes);
		rc = pair_of(s, &key, &p);
	}
	if (rc == 0 && p) {
		from->node.takers += p->bytes == 0 && bytes;
		to->node.givers += p->bytes == 0 && bytes;
		add_up(&p->bytes, bytes);
	}
	s->left_out += rc == 0 && !p;
	return rc;
}

static int peers_by_gave(const void *x, const void *y, void *arg)
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

static int peers_by_bytes(const void *x, const void *y, void *arg)
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

int peer_sums_end(struct peer_sums *s, struct peer_sums_result *ret)
{
	size_t n_nodes = HASH_COUNT(s->nodes), n_pairs = HASH_COUNT(s->pairs);
	struct peer_node_entry *n;
	struct peer_pair_entry *p;
	size_t k = 0;

	s->node_list = calloc(n_nodes + 1, sizeof(*s->node_list));
	s->pair_list = calloc(n_pairs + 1, sizeof(*s->pair_list));
	s->order = calloc(n_nodes + 1, sizeof(*s->order));
	if (!s->node_list || !s->pair_list || !s->order)
		return -ENOMEM;
	for (n = s->nodes; n; n = n->hh.next) {
		s->node_list[n->index] = n->node;
		s->order[n->index] = n->index;
	}
	for (p = s->pairs; p; p = p->hh.next)
		s->pair_list[k++] =
			(struct peer_pair){ p->key.giver, p->key.taker,
					    p->bytes };
	if (n_nodes)
		qsort_r(s->order, n_nodes, sizeof(*s->order), peers_by_gave,
			s->node_list);
	if (n_pairs)
		qsort_r(s->pair_list, n_pairs, sizeof(*s->pair_list),
			peers_by_bytes, s->node_list);
	*ret = (struct peer_sums_result){ .nodes = s->node_list,
					  .order = s->order,
					  .pairs = s->pair_list,
					  .n_nodes = n_nodes,
					  .n_pairs = n_pairs,
					  .got = s->got,
					  .origin = s->origin,
					  .left_out = s->left_out };
	return 0;
}

static bool is_pair_of(const struct peer_sums_result *s,
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
		if (is_pair_of(s, &s->pairs[i], node) &&
		    had[s->pairs[i].taker]++ < share) {
			ret[i] = true;
			n++;
		}
	for (size_t i = 0; i < s->n_pairs && n < limit; i++)
		if (!ret[i] && is_pair_of(s, &s->pairs[i], node)) {
			ret[i] = true;
			n++;
		}
	return 0;
}
