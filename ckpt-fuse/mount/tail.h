// SPDX-License-Identifier: Apache-2.0
/*
 * The last bytes of a file that is being written, in memory until they are sent: what
 * lies in them can be written again, as writers of archives do when they close one.
 * No I/O.  Offsets are in the file.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_TAIL_H
#define BOOTSEER_CKPT_FUSE_MOUNT_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt-fuse/mount/budget.h"

struct tail_unit {
	char *data;  /* budget_memory() */
	size_t size; /* allocated */
};

struct tail {
	struct budget *budget; /* memory comes from there; its bytes do not */
	size_t unit;           /* bytes */
	uint64_t
		first; /* unit that `units` begins with: older ones were sent */
	uint64_t end;  /* of what is staged; beyond are no bytes yet */
	struct tail_unit *units;
	size_t n, cap;
};

/* Empty, from a multiple of `unit` on.  `b` outlives it. */
void tail_init(struct tail *t, struct budget *b, size_t unit, uint64_t start);
void tail_fini(struct tail *t);

static inline uint64_t tail_start(const struct tail *t)
{
	return t->first * t->unit;
}

/* Bytes that lie in one unit from `off` on, `len` at most. */
size_t tail_piece(const struct tail *t, uint64_t off, size_t len);

/* Memory that the tail would have to grow by for bytes up to `end`, which lies in the
 * unit of the tail's end, or at the end of the next one. */
size_t tail_wants(const struct tail *t, uint64_t end);

/* Write a piece that begins in the tail or at its end; `data` NULL: zeros.  -ENOMEM. */
int tail_write(struct tail *t, uint64_t off, const void *data,
	       size_t len) MUST_CHECK;
/* Read a piece of what is staged. */
void tail_read(const struct tail *t, uint64_t off, void *data, size_t len);

/* Unit `first` is whole. */
bool tail_has_whole(const struct tail *t);
/* Take that unit out: the caller has its memory, of ret->size bytes, and gives it to
 * budget_memory_free(). */
void tail_pop(struct tail *t, struct tail_unit *ret);
/* Bytes from `end` on, which is not before the start, are gone; returns the memory that
 * became free. */
size_t tail_cut(struct tail *t, uint64_t end);

#endif
