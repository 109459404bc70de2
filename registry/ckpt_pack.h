// SPDX-License-Identifier: Apache-2.0
/*
 * Packs the events of one node's checkpoint loads and saves into one block of bytes. An event takes
 * some ten bytes, and is read many times faster than a database row. Pure functions: any thread.
 *
 * An event is a byte of flags, then numbers of 7 bits a byte, the lowest bits first; the last byte
 * of a number is below 128. A signed number is doubled first, and a negative one stored as -2n - 1:
 *
 *     bits 0, 1  STAGE_BEGIN, STAGE_END or STAGE_MARK
 *     bit 2      a save, else a load
 *     bit 3      the wall clock follows, as the difference to that of the event before
 *     bit 4      the monotonic clock follows, likewise
 *     bit 5      the boot follows, else it is that of the event before
 *     bit 6      the rank follows, else likewise
 *     bit 7      the exit status follows, then a number whose bits say which facts follow
 *
 * Before the first event clocks and boot are 0, and the rank is STAGE_NONE. A fact is stored by its
 * number in `enum stage_fact`; such a number is never used for another fact.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_PACK_H
#define BOOTSEER_REGISTRY_CKPT_PACK_H

#include "profiler/start_ckpt.h"

/* Values of the event before, which the next event's differences refer to. Packing or unpacking can
 * stop and go on with the same state. */
struct ckpt_pack {
	int64_t ts_ns, mono_ns, rank;
	uint64_t boot;
};
#define CKPT_PACK_INIT \
	{ \
		.rank = STAGE_NONE \
	}

/* The stage's name as START_CKPT_LOAD or START_CKPT_SAVE; NULL: any other stage, whose events are
 * not packed. */
const char *ckpt_pack_stage(struct stage_text stage);

/* Append the event, whose stage is a load or a save; its node is not stored. -ENOMEM: `to` and `p`
 * are unchanged. */
int ckpt_pack_add(struct ckpt_pack *p, const struct start_event *e,
		  struct buf *to) MUST_CHECK;

/*
 * Read the event at `*pos`, and move `*pos` behind it. `facts` gets its facts, if there are any;
 * its node is NULL. Returns 1; 0: no more events; -EBADMSG: the bytes are not valid events.
 */
int ckpt_pack_next(struct ckpt_pack *p, const void *data, size_t len,
		   size_t *pos, uint64_t facts[STAGE_FACTS],
		   struct start_event *ret) MUST_CHECK;

#endif
