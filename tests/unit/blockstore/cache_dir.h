// SPDX-License-Identifier: Apache-2.0
/* Private cache folders for tests, and pictures of them to restore spoilt. */
#ifndef BOOTSEER_TESTS_UNIT_BLOCKSTORE_CACHE_DIR_H
#define BOOTSEER_TESTS_UNIT_BLOCKSTORE_CACHE_DIR_H

#include "blockstore/blockstore.h"
#include "tests/unit/blockstore/image.h"

#define CACHE_TEST_SEGMENT (8u << 20)
#define PICTURE_FILES_MAX 16

struct cache_dir {
	char path[64];
};

void cache_dir_make(struct cache_dir *d);
void cache_dir_remove(struct cache_dir *d);
struct cache *cache_dir_open(const struct cache_dir *d, uint64_t quota);

/* Put block `i` of the image; the return of cache_put(). */
int put_block(struct cache *c, const struct image *img, size_t i);
/* Read the whole block: 0 and right, or -ENOENT; all else fails the test. */
int get_block(struct cache *c, const struct image *img, size_t i);

/* All files of a folder but the lock. */
struct picture {
	size_t n;
	struct picture_file {
		char name[32];
		uint8_t *data;
		size_t len;  /* up to the last byte that is not zero */
		size_t size; /* of the file */
	} file[PICTURE_FILES_MAX];
};

void picture_take(struct picture *p, const struct cache_dir *d);
/* Make the folder hold exactly these files. */
void picture_restore(const struct picture *p, const struct cache_dir *d);
void picture_copy(struct picture *to, const struct picture *from);
void picture_fini(struct picture *p);
struct picture_file *picture_find(struct picture *p, const char *prefix);

#endif
