// SPDX-License-Identifier: Apache-2.0
/*
 * The blocks of a map in their stored order. The map itself is sorted by place in the device; to
 * fetch scattered blocks with few requests, their neighbours in the pack must be known.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "blockstore/device_priv.h"

struct stored {
	uint64_t poff;
	uint32_t pack;
	uint32_t entry;
};

static int device_places_compare(const void *a, const void *b)
{
	const struct stored *x = a, *y = b;

	if (x->pack != y->pack)
		return x->pack < y->pack ? -1 : 1;
	if (x->poff != y->poff)
		return x->poff < y->poff ? -1 : 1;
	return (x->entry > y->entry) - (x->entry < y->entry);
}

static bool is_same(const struct stored *x, const struct stored *y)
{
	return x->pack == y->pack && x->poff == y->poff;
}

/* Entries with the same place must describe the same block: only one of them is checked
 * against the bytes, for all of them. */
static int check_blocks_equal(const struct blockmap *map, uint32_t entry,
			      uint32_t first, struct error *err)
{
	struct block a, b;

	blockmap_block(map, first, &a);
	blockmap_block(map, entry, &b);
	if (block_is_same(&a, &b))
		return 0;
	return error_set(err, EINVAL,
			 "block map: blocks %" PRIu32 " and %" PRIu32
			 " lie at one place of pack %" PRIu32
			 " and differ: convert the image again",
			 first, entry, a.pack);
}

/* Fill `p`, whose arrays have room for all entries of the map. */
static int device_places_fill(const struct blockmap *map, struct places *p,
			      struct stored *all, size_t n, struct error *err)
{
	int rc = 0;

	qsort(all, n, sizeof(*all), device_places_compare);
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (i == 0 || !is_same(&all[i], &all[i - 1]))
			p->entry[p->n++] = all[i].entry;
		else
			rc = check_blocks_equal(map, all[i].entry,
						p->entry[p->n - 1], err);
		p->of[all[i].entry] = (uint32_t)(p->n - 1);
	}
	return rc;
}

int places_make(const struct blockmap *map, struct places *ret,
		struct error *err)
{
	size_t n = map->n_blocks;
	AUTO_FREE struct stored *all = malloc((n + 1) * sizeof(*all));
	struct places p = {
		.entry = calloc(n + 1, sizeof(*p.entry)),
		.of = calloc(n + 1, sizeof(*p.of)),
	};
	int rc;

	if (!all || !p.entry || !p.of) {
		places_fini(&p);
		return error_nomem(err);
	}
	for (size_t i = 0; i < n; i++) {
		struct block b;

		blockmap_block(map, i, &b);
		all[i] = (struct stored){ .poff = b.poff,
					  .pack = b.pack,
					  .entry = (uint32_t)i };
	}
	rc = device_places_fill(map, &p, all, n, err);
	if (rc < 0)
		places_fini(&p);
	else
		*ret = p;
	return rc;
}

int places_get(struct device *dev, const struct places **ret, struct error *err)
{
	int rc = 0;

	(void)pthread_mutex_lock(&dev->places_lock);
	if (!dev->places.entry)
		rc = places_make(dev->map, &dev->places, err);
	(void)pthread_mutex_unlock(&dev->places_lock);
	*ret = &dev->places;
	return rc;
}

void places_fini(struct places *p)
{
	free(p->entry);
	free(p->of);
	memset(p, 0, sizeof(*p));
}
