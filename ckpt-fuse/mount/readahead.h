// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes that are worth reading before they are asked for: a file's readers, of whatever
 * process and descriptor, are told apart by where they read. Pure.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_READAHEAD_H
#define BOOTSEER_CKPT_FUSE_MOUNT_READAHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READAHEAD_READERS 16u
/* A reader that stops leaves unread so many units, or so many times what it has read
 * forward, whichever is more, and never more than readahead.most: docs/checkpoints.md.
 * It is told of at most so much ahead of the byte that it wants next. */
#define READAHEAD_FIRST 2u
#define READAHEAD_SHARE 4u

/* A reader that reads forward. */
struct readahead_reader {
	uint64_t begin; /* where it began to read forward */
	uint64_t next;  /* byte that it wants next */
	uint64_t ahead; /* bytes before this were asked for */
	uint64_t begun; /* when it was seen first */
	uint64_t used;  /* when it was seen last; 0: no reader */
	unsigned int n; /* reads that followed one another */
};

struct readahead {
	/* Bytes: of a request, and of ahead of a reader, which may change. */
	uint64_t unit, most;
	uint64_t share; /* READAHEAD_SHARE, or less */
	uint64_t clock;
	struct readahead_reader readers[READAHEAD_READERS];
};

struct readahead_advice {
	bool is_sequential;
	bool goes_on;      /* it is not the reader's first read */
	uint64_t from, to; /* worth reading now; nothing when they are equal */
	/* The reader is expected to jump there, as it did when it had read as much before;
	 * UINT64_MAX: nothing speaks for that. */
	uint64_t until;
};

void readahead_init(struct readahead *r, uint64_t unit, uint64_t most);

/* Somebody reads [off, off + len) of `size` bytes. */
struct readahead_advice readahead_note(struct readahead *r, uint64_t off,
				       uint64_t len, uint64_t size);

/* Where in (off, end) another began to read forward, or `end`: what is behind that was had, or
 * is read ahead of that reader. */
uint64_t readahead_end(const struct readahead *r, uint64_t off, uint64_t end);

/* How many read forward just now, at least 1. */
unsigned int readahead_count(const struct readahead *r);

/* Note that bytes from there on were not read, or are gone: they are worth reading again. */
void readahead_lost(struct readahead *r, uint64_t off);
/* How many bytes the reader that is nearest has before it gets to these; 0: it reads forward
 * in them; UINT64_MAX: none gets there. */
uint64_t readahead_distance(const struct readahead *r, uint64_t off,
			    uint64_t len);

#endif
