// SPDX-License-Identifier: Apache-2.0
/*
 * Units that this node has stored for saves which are in the store by now.  Where a later save has
 * a unit with the same bytes, the unit is named there and not stored again:
 * docs/decisions/0027-grouped-write.md.  No I/O.
 */
#ifndef BOOTSEER_GROUPIO_SAVE_KNOWN_H
#define BOOTSEER_GROUPIO_SAVE_KNOWN_H

#include "ckpt-fuse/parts.h"
#include "groupio/save_plan.h"

struct known_units;

/* Each unit of a save, to the node that writes it. */
enum unit_fate {
	UNIT_OTHERS,  /* another node writes it, or nobody: it is zeros */
	UNIT_CHANGED, /* to be stored */
	UNIT_UNCHANGED, /* to be stored, in columns of units that stay as they are */
	UNIT_NAMED, /* is in the store already */
};

struct known_units *known_units_new(void);
void known_units_free(struct known_units *k);

/* Decide about each unit that fates[u] says is UNIT_CHANGED.  at[u] is where one is that becomes
 * UNIT_NAMED.  Any thread. */
int known_units_choose(struct known_units *k, const struct save_plan *p,
		       uint8_t *fates, struct ckpt_place *at,
		       struct error *err) MUST_CHECK;

/* The save is in the store, with this part of this node. */
int known_units_note(struct known_units *k, const struct save_plan *p,
		     const struct buf *part, struct error *err) MUST_CHECK;

#endif
