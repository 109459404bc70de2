// SPDX-License-Identifier: Apache-2.0
/*
 * Searches for what a start of an image reads by what the image itself says, where no
 * trace tells it; what they find is prefetched.  On threads of their own.
 */
#ifndef BOOTSEER_NODE_IMAGE_CLOSURE_H
#define BOOTSEER_NODE_IMAGE_CLOSURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/error.h"

struct closure_searches;
struct hot_list;
struct image;
struct origins;
struct prefetches;

/* All is borrowed; `is_ending`: the node ends. */
int closure_searches_new(struct origins *origins, struct prefetches *prefetches,
			 const atomic_bool *is_ending,
			 struct closure_searches **ret,
			 struct error *err) MUST_CHECK;
void closure_searches_free(struct closure_searches *s); /* NULL is allowed */

/* The prefetches that get the blocks. */
struct prefetches *
closure_searches_prefetches(const struct closure_searches *s);

/* Begin a search whose blocks are prefetched behind `hot` (or NULL), which is taken.
 * Returns at once: what cannot be searched for now is not. */
void closure_searches_begin(struct closure_searches *s, struct image *i,
			    struct hot_list *hot, bool for_start);

#endif
