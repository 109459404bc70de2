// SPDX-License-Identifier: Apache-2.0
/*
 * Units of a file that are in memory while it is written: those that a program wrote last,
 * wherever in the file.  No I/O; with the lock of what it is part of.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_UNIT_STAGE_H
#define BOOTSEER_CKPT_FUSE_MOUNT_UNIT_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt-fuse/mount/budget.h"

#define STAGE_UNIT ((size_t)4 << 20) /* of a file that begins here */
#define STAGE_RANGES_MAX 16u

struct stage_range {
	uint32_t from, to;
};

struct staged_unit {
	uint64_t u;
	char *data;  /* budget_memory() */
	size_t size; /* allocated; beyond are zeros */
	size_t set; /* bytes of `data` that mean something; beyond are zeros, too */
	uint64_t used; /* the larger, the later */
	bool is_dirty; /* the store does not have it so */
	bool is_whole; /* else only what was written is known */
	/* Ranges that were written since it is here, in order, with gaps between; when
	 * there are too many of a whole unit, some of those are taken for written, too. */
	struct stage_range written[STAGE_RANGES_MAX];
	unsigned int n_written;
};

struct unit_stage {
	struct budget *budget; /* memory comes from there; its bytes do not */
	size_t unit; /* bytes of a unit; it changes only while none is staged */
	struct staged_unit *units; /* in their order */
	size_t n, cap;
	uint64_t clock;
};

/* `b` outlives it. */
void unit_stage_init(struct unit_stage *s, struct budget *b);
void unit_stage_fini(struct unit_stage *s);

/* NULL: it is not there.  Valid until another is added or dropped. */
struct staged_unit *unit_stage_find(struct unit_stage *s, uint64_t u);
/* Bytes of memory that the stage grows by when the unit is to have `need` bytes. */
size_t unit_stage_wants(struct unit_stage *s, uint64_t u, size_t need);
/* Have the unit there with room for so many bytes; a new one is whole, and zeros.
 * -ENOMEM */
int unit_stage_have(struct unit_stage *s, uint64_t u, size_t need,
		    struct staged_unit **ret) MUST_CHECK;
/* Drop it; returns the memory that became free. */
size_t unit_stage_drop(struct unit_stage *s, struct staged_unit *x);
/* Take it out: its memory is the caller's. */
void unit_stage_take(struct unit_stage *s, struct staged_unit *x);

/* Can the bytes be written without the rest of the unit? */
bool staged_can_write(const struct staged_unit *x, size_t at, size_t len);
/* `data` NULL: zeros. */
void staged_write(struct unit_stage *s, struct staged_unit *x, size_t at,
		  const void *data, size_t len);
/* Are these bytes known? */
bool staged_has(const struct staged_unit *x, size_t at, size_t len);
void staged_read(const struct staged_unit *x, size_t at, void *data,
		 size_t len);
/* The rest of the unit is what the store has of it, then zeros. */
void staged_fill(struct staged_unit *x, const void *stored, size_t len);
/* All of it was written: whoever writes a file forward is through with it. */
bool staged_is_full(const struct unit_stage *s, const struct staged_unit *x);
/* All of `len` bytes, which it has room for, mean something. */
void staged_set_up_to(struct staged_unit *x, size_t len);

#endif
