// SPDX-License-Identifier: Apache-2.0
/*
 * Units of a written file that are in memory: those written last, anywhere in the file. No I/O;
 * protected by the lock of the containing object.
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
	char *data;    /* budget_memory() */
	size_t size;   /* allocated bytes; the rest of the unit is zeros */
	size_t set;    /* valid bytes of `data`; the rest is zeros too */
	uint64_t used; /* clock of the last use */
	bool is_dirty; /* differs from the store */
	bool is_whole; /* all bytes are known; else only the written ranges */
	/* Ranges written since the unit was staged, sorted, with gaps between. If a whole unit has
	 * too many, ranges are merged over gaps. */
	struct stage_range written[STAGE_RANGES_MAX];
	unsigned int n_written;
};

struct unit_stage {
	/* memory is allocated from it; the bytes must be taken from it by the caller */
	struct budget *budget;
	size_t unit; /* bytes of a unit; it changes only while none is staged */
	struct staged_unit *units; /* sorted by number */
	size_t n, cap;
	uint64_t clock;
};

/* Initialise; `b` must stay valid. */
void unit_stage_init(struct unit_stage *s, struct budget *b);
void unit_stage_fini(struct unit_stage *s);

/* Find a staged unit; NULL: not staged. Valid until another is added or dropped. */
struct staged_unit *unit_stage_find(struct unit_stage *s, uint64_t u);
/* Additional memory needed for `need` bytes of the unit. */
size_t unit_stage_wants(struct unit_stage *s, uint64_t u, size_t need);
/* Stage the unit with room for `need` bytes; a new one is whole and all zeros. -ENOMEM */
int unit_stage_have(struct unit_stage *s, uint64_t u, size_t need,
		    struct staged_unit **ret) MUST_CHECK;
/* Drop a unit; returns the freed bytes. */
size_t unit_stage_drop(struct unit_stage *s, struct staged_unit *x);
/* Remove a unit; the caller owns its memory. */
void unit_stage_take(struct unit_stage *s, struct staged_unit *x);

/* Can the bytes be written without the rest of the unit? */
bool staged_can_write(const struct staged_unit *x, size_t at, size_t len);
/* Write bytes to a unit; `data` NULL: zeros. */
void staged_write(struct unit_stage *s, struct staged_unit *x, size_t at,
		  const void *data, size_t len);
/* Are these bytes of the unit known? */
bool staged_has(const struct staged_unit *x, size_t at, size_t len);
void staged_read(const struct staged_unit *x, size_t at, void *data,
		 size_t len);
/* Fill the bytes not written with the stored ones, then zeros. */
void staged_fill(struct staged_unit *x, const void *stored, size_t len);
/* Was all of the unit written? Then a sequential writer is done with it. */
bool staged_is_full(const struct unit_stage *s, const struct staged_unit *x);
/* Make `len` bytes valid; the unit must have room for them. */
void staged_set_up_to(struct staged_unit *x, size_t len);

#endif
