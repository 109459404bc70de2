// SPDX-License-Identifier: Apache-2.0
/* Trees that no hand would write, for tests. */
#ifndef BOOTSEER_TESTS_RANDOM_TREE_H
#define BOOTSEER_TESTS_RANDOM_TREE_H

#include "image/erofs/erofs.h"

#define RANDOM_DEVICES 3
#define RANDOM_DEVICE_SIZE (UINT64_C(4) << 20)

struct rnd {
	uint64_t state;
};

uint32_t rnd_below(struct rnd *r, uint32_t n);

/* A tree of all kinds of inodes, with about `n` of them; the same for the same
 * seed.  Extents lie in RANDOM_DEVICES devices of RANDOM_DEVICE_SIZE. */
struct tree *random_tree(uint64_t seed, unsigned int n) MUST_CHECK;

/* What the tests write to a device: LEN bytes from OFF. */
void random_device_read(unsigned int device, uint64_t off, uint8_t *ret,
			size_t len);

/* Give a regular file of extents other ones, with the same holes. */
void random_relayout(struct rnd *r, struct tree *t, struct inode *i);

#endif
