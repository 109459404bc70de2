// SPDX-License-Identifier: Apache-2.0
#include "prefetcher/order.h"

#include <errno.h>
#include <string.h>

static struct order *order_new(size_t n)
{
	struct order *o = calloc(1, sizeof(*o) + n * sizeof(o->blocks[0]));

	if (o)
		atomic_init(&o->refs, 1);
	return o;
}

struct order *order_ref(struct order *o)
{
	if (o)
		atomic_fetch_add(&o->refs, 1);
	return o;
}

void order_unref(struct order *o)
{
	if (o && atomic_fetch_sub(&o->refs, 1) == 1)
		free(o);
}

static void add_block(struct order *o, uint32_t index, const struct block *b)
{
	o->blocks[o->n++] = index;
	o->bytes += b->csize;
}

int order_by_pack(const struct blockmap *map, struct order **ret,
		  struct error *err)
{
	struct order *o = order_new(map->n_blocks);
	struct places places;
	struct block b;
	int rc = o ? places_make(map, &places, err) : error_nomem(err);

	if (rc < 0) {
		order_unref(o);
		return rc;
	}
	for (size_t i = 0; i < places.n; i++) {
		blockmap_block(map, places.entry[i], &b);
		add_block(o, places.entry[i], &b);
	}
	places_fini(&places);
	*ret = o;
	return 0;
}

int order_of_hot(const struct blockmap *map, const struct hot_list *hot,
		 struct order **ret, struct error *err)
{
	AUTO_FREE uint8_t *seen = calloc(map->n_blocks / 8 + 1, 1);
	struct order *o = order_new(hot->n);
	struct block b;

	if (!seen || !o) {
		order_unref(o);
		return error_nomem(err);
	}
	for (size_t i = 0; i < hot->n; i++) {
		uint32_t index = hot->blocks[i].index;

		if (index >= map->n_blocks) {
			order_unref(o);
			return error_set(err, EINVAL,
					 "hot list: block %u of %zu", index,
					 map->n_blocks);
		}
		if (seen[index / 8] & 1u << index % 8)
			continue;
		seen[index / 8] |= (uint8_t)(1u << index % 8);
		blockmap_block(map, index, &b);
		add_block(o, index, &b);
	}
	*ret = o;
	return 0;
}

bool order_equal(const struct order *a, const struct order *b)
{
	return a->n == b->n &&
	       memcmp(a->blocks, b->blocks, a->n * sizeof(a->blocks[0])) == 0;
}
