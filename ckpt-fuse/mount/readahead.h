// SPDX-License-Identifier: Apache-2.0
/*
 * Finds which bytes to read ahead. Readers of a file, in any process and descriptor, are
 * distinguished by the positions of their reads. Pure.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_READAHEAD_H
#define BOOTSEER_CKPT_FUSE_MOUNT_READAHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READAHEAD_READERS 16u
/* A reader that stops leaves at most READAHEAD_FIRST units unread, or READAHEAD_SHARE times as many
 * bytes as it has read forward, whichever is more, and never more than readahead.most
 * (docs/checkpoints.md). */
#define READAHEAD_FIRST 2u
#define READAHEAD_SHARE 4u

/* A sequential reader. */
struct readahead_reader {
	uint64_t begin; /* where it began to read forward */
	uint64_t next;  /* next byte that it will read */
	uint64_t ahead; /* read-ahead has been requested up to here */
	uint64_t begun; /* clock when it was first seen */
	uint64_t used;  /* clock when it was last seen; 0: unused */
	unsigned int n; /* number of consecutive reads */
};

struct readahead {
	/* Bytes of a request, and most bytes ahead of a reader; `most` may change. */
	uint64_t unit, most;
	uint64_t share; /* READAHEAD_SHARE, or less */
	uint64_t clock;
	struct readahead_reader readers[READAHEAD_READERS];
};

struct readahead_advice {
	bool is_sequential;
	bool goes_on;      /* not the reader's first read */
	uint64_t from, to; /* range to read ahead now; empty if equal */
	/* Where the reader is expected to jump away, as it did after reading as much before;
	 * UINT64_MAX: no jump is expected. */
	uint64_t until;
};

void readahead_init(struct readahead *r, uint64_t unit, uint64_t most);

/* Note a read of [off, off + len) in a file of `size` bytes. */
struct readahead_advice readahead_note(struct readahead *r, uint64_t off,
				       uint64_t len, uint64_t size);

/* Where in (off, end) another sequential reader began, or `end`. Bytes behind that were read, or
 * are read ahead for that reader. */
uint64_t readahead_end(const struct readahead *r, uint64_t off, uint64_t end);

/* Number of current sequential readers, at least 1. */
unsigned int readahead_count(const struct readahead *r);

/* Note that bytes from `off` on were not read or were dropped: read them ahead again. */
void readahead_lost(struct readahead *r, uint64_t off);
/* Bytes that the nearest reader will read before it reaches this range; 0: it is within it;
 * UINT64_MAX: none will. */
uint64_t readahead_distance(const struct readahead *r, uint64_t off,
			    uint64_t len);

#endif
