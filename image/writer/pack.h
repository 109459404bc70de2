// SPDX-License-Identifier: Apache-2.0
/* Packs: files that grow in a temporary folder and are uploaded when full. */
#ifndef BOOTSEER_IMAGE_WRITER_PACK_H
#define BOOTSEER_IMAGE_WRITER_PACK_H

#include "blockstore/blockstore.h"

struct upload;
struct pack_writer;

/* A pack ends at a quarter of what is in those before it, at `first` bytes at least and `max`
 * at most: so the first is stored while most is still to be made, and little is to be stored
 * when the last one is made. */
struct pack_sizes {
	uint64_t first; /* 0: `max` */
	uint64_t max;
};

/* `upload` is borrowed. */
int pack_writer_new(const char *temp_dir, const struct pack_sizes *sizes,
		    struct upload *upload, struct pack_writer **ret,
		    struct error *err) MUST_CHECK;
void pack_writer_free(struct pack_writer *w);
DEFINE_AUTO(pack_writer)

/* Append; says where it lies.  Waits when packs are stored slower than they
 * are made.  One thread at a time. */
int pack_writer_add(struct pack_writer *w, const void *data, uint32_t len,
		    uint32_t *ret_pack, uint64_t *ret_off,
		    struct error *err) MUST_CHECK;

/* Close the last pack. */
int pack_writer_finish(struct pack_writer *w, struct error *err) MUST_CHECK;

/* All that were closed, in the order of their numbers. */
const struct pack *pack_writer_packs(const struct pack_writer *w,
				     size_t *ret_n);

#endif
