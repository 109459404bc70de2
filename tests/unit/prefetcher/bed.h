// SPDX-License-Identifier: Apache-2.0
/* A node whose images are prefetched, for the tests of a prefetch. */
#ifndef BOOTSEER_TESTS_BED_H
#define BOOTSEER_TESTS_BED_H

#include <stdatomic.h>

#include "prefetcher/prefetch.h"
#include "tests/unit/blockstore/node.h"

#define SPAN 32768u /* bytes of a block in these tests */

/* One prefetch over each device of the node. */
struct bed {
	struct node n;
	struct prefetcher *all;
	struct prefetch *p[NODE_DEVICES];
	atomic_bool pressure;     /* the disk is full */
	atomic_bool memory_short; /* ... memory is */
	atomic_uint_fast64_t room;
	atomic_llong idle_ns;
	atomic_uint
		n_seen; /* so many blocks of the map, the first, were read */
	atomic_uint n_done, n_failed;
	atomic_uint n_given_up; /* of n_failed, those that are no mere pause */
};

extern const struct wait_policy bed_all_of_it;
extern const struct hot_list bed_no_trace;

/* `limits` NULL: small ones. */
void bed_make(struct bed *b, const struct prefetch_limits *limits);
void bed_remove(struct bed *b);

/* Blocks `first`, first + step and so on. */
struct hot_list bed_hot_list(uint32_t first, uint32_t step, size_t n);
void bed_start(struct bed *b, int which, struct hot_list hot, bool rest);

void bed_wait_phase(struct bed *b, int which, enum prefetch_phase want);
/* Until `n` blocks of the hot set are here. */
void bed_wait_hot(struct bed *b, int which, size_t n);
int bed_wait(struct bed *b, int which, const struct wait_policy *w,
	     struct error *err);

/* Read a block, until it is also kept: the reader has his bytes before that. */
void bed_read(struct bed *b, int which, uint32_t block);

/* Stored bytes that the sources of all devices passed on. */
uint64_t bed_bytes_read(struct bed *b);
/* The same without what was cut off on its way. */
uint64_t bed_bytes_kept(struct bed *b);
uint64_t bed_bytes_stored(const struct bed *b);

#endif
