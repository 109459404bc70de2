// SPDX-License-Identifier: Apache-2.0
/*
 * Searches an image itself for the files that its start reads, if no trace tells them; the
 * blocks found are prefetched.  Runs on threads of its own.
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

/* All is borrowed; `is_ending` becomes true when the node ends. */
int closure_searches_new(struct origins *origins, struct prefetches *prefetches,
			 const atomic_bool *is_ending,
			 struct closure_searches **ret,
			 struct error *err) MUST_CHECK;
void closure_searches_free(struct closure_searches *s); /* NULL is allowed */

/* The prefetches that fetch the found blocks. */
struct prefetches *
closure_searches_prefetches(const struct closure_searches *s);

/* Begin a search whose blocks are prefetched after `hot` (or NULL), which is taken.  Returns at
 * once; does nothing if the search is not possible now. */
void closure_searches_begin(struct closure_searches *s, struct image *i,
			    struct hot_list *hot, bool for_start);

#endif
