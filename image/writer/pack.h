// SPDX-License-Identifier: Apache-2.0
/* Packs: files that grow in a temporary folder and are uploaded when full. */
#ifndef BOOTSEER_IMAGE_WRITER_PACK_H
#define BOOTSEER_IMAGE_WRITER_PACK_H

#include "blockstore/blockstore.h"

struct upload;
struct pack_writer;

/* A pack is closed when it has a quarter of the bytes of the packs before it, but at `first`
 * bytes at the earliest and `max` at the latest. So the upload of the first pack begins early,
 * and little is left to upload when the last one is complete. */
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

/* Append bytes to a pack; returns their place. Waits when packs are made faster than they
 * are stored. One thread at a time. */
int pack_writer_add(struct pack_writer *w, const void *data, uint32_t len,
		    uint32_t *ret_pack, uint64_t *ret_off,
		    struct error *err) MUST_CHECK;

/* Close the last pack. */
int pack_writer_finish(struct pack_writer *w, struct error *err) MUST_CHECK;

/* All closed packs, in the order of their numbers. */
const struct pack *pack_writer_packs(const struct pack_writer *w,
				     size_t *ret_n);

#endif
