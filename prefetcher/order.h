// SPDX-License-Identifier: Apache-2.0
/* The blocks that a prefetch fetches, and their order. Pure. */
#ifndef BOOTSEER_PREFETCHER_ORDER_H
#define BOOTSEER_PREFETCHER_ORDER_H

#include <stdatomic.h>

#include "prefetcher/prefetcher.h"

/* Distinct blocks of a map in an order; shared, read-only. */
struct order {
	atomic_uint refs;
	size_t n;
	uint64_t bytes; /* stored */
	uint32_t blocks[];
};
struct order *order_ref(struct order *o); /* NULL is allowed */
void order_unref(struct order *o);        /* NULL is allowed */

/* All stored places once, in the order in which they lie in the packs. */
int order_by_pack(const struct blockmap *map, struct order **ret,
		  struct error *err) MUST_CHECK;

/* The blocks of the hot list; -EINVAL when it does not fit this map. */
int order_of_hot(const struct blockmap *map, const struct hot_list *hot,
		 struct order **ret, struct error *err) MUST_CHECK;

bool order_equal(const struct order *a, const struct order *b);

#endif
