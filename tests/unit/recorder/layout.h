// SPDX-License-Identifier: Apache-2.0
/* A made-up image: which blocks its device has, and which files lie in them. */
#ifndef BOOTSEER_TESTS_UNIT_RECORDER_LAYOUT_H
#define BOOTSEER_TESTS_UNIT_RECORDER_LAYOUT_H

#include "recorder/recorder.h"

/* One after the other in the device.  Blocks of one content have one stored
 * place. */
struct layout_block {
	uint32_t content; /* make_digest() of it is the digest */
	uint32_t usize;   /* csize is half of it */
};

struct layout_range {
	const char *path;
	uint64_t off;   /* in the file */
	uint32_t block; /* index */
	uint32_t at;    /* in the block */
	uint32_t len;
};

struct layout {
	struct file_map files;
	struct blockmap map;
	void *map_data;
	const struct layout_range *ranges; /* borrowed; in device order */
	size_t n_ranges;
};

void layout_make(struct layout *l, const struct layout_block *blocks,
		 size_t n_blocks, const struct layout_range *ranges,
		 size_t n_ranges);
void layout_fini(struct layout *l);

/* Where block `i` starts in the device. */
uint64_t layout_voff(const struct layout *l, size_t i);

#endif
