// SPDX-License-Identifier: Apache-2.0
/*
 * Units that this node has stored for saves that are in the store now. When a later save has a
 * unit with the same bytes, the unit is named there instead of stored:
 * docs/decisions/0027-grouped-write.md. No I/O.
 */
#ifndef BOOTSEER_GROUPIO_SAVE_KNOWN_H
#define BOOTSEER_GROUPIO_SAVE_KNOWN_H

#include "ckpt-fuse/parts.h"
#include "groupio/save_plan.h"

struct known_units;

/* Decision of the node that writes a unit about it. */
enum unit_fate {
	/* another node writes it, or it is zeros and nobody does */
	UNIT_OTHERS,
	UNIT_CHANGED, /* it is stored, in columns with other changed units */
	/* it is stored again, in columns with other unchanged units */
	UNIT_UNCHANGED,
	UNIT_NAMED, /* it is in the store already, and only named */
};

struct known_units *known_units_new(void);
void known_units_free(struct known_units *k);

/* Decide about each unit with the fate UNIT_CHANGED; at[u] becomes the place of a unit that
 * gets UNIT_NAMED. Any thread. */
int known_units_choose(struct known_units *k, const struct save_plan *p,
		       uint8_t *fates, struct ckpt_place *at,
		       struct error *err) MUST_CHECK;

/* Note this node's part of a save that is now in the store. */
int known_units_note(struct known_units *k, const struct save_plan *p,
		     const struct buf *part, struct error *err) MUST_CHECK;

#endif
