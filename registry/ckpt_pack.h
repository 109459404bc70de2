// SPDX-License-Identifier: Apache-2.0
/*
 * Events of loads and saves of checkpoints of one node, packed one behind the other: some
 * ten bytes an event, which are read many times faster than as many rows of a database.
 * Pure: any thread.
 *
 * An event is a byte of flags, then numbers of 7 bits a byte, the lowest first, of which the
 * last byte is below 128; signed ones are doubled, and below 0 one is taken from that:
 *
 *     bits 0, 1  STAGE_BEGIN, STAGE_END or STAGE_MARK
 *     bit 2      a save, else a load
 *     bit 3      the wall clock follows, as the difference to that of the event before
 *     bit 4      the monotonic clock follows, likewise
 *     bit 5      the boot follows, else it is that of the event before
 *     bit 6      the rank follows, else likewise
 *     bit 7      the exit status follows, then a number whose bits say which facts follow
 *
 * Before the first event clocks and boot are 0, and the rank is STAGE_NONE.  A fact is known
 * by its number in `enum stage_fact`, which is never another's.
 */
#ifndef BOOTSEER_REGISTRY_CKPT_PACK_H
#define BOOTSEER_REGISTRY_CKPT_PACK_H

#include "profiler/start_ckpt.h"

/* State by which the next event is told; it goes on where packing or unpacking stopped. */
struct ckpt_pack {
	int64_t ts_ns, mono_ns, rank;
	uint64_t boot;
};
#define CKPT_PACK_INIT \
	{ \
		.rank = STAGE_NONE \
	}

/* START_CKPT_LOAD or START_CKPT_SAVE, or NULL: events of this stage are not packed. */
const char *ckpt_pack_stage(struct stage_text stage);

/* Append the event, whose stage is one of the two; its node is not said.  -ENOMEM, and then
 * `to` and `p` are as before. */
int ckpt_pack_add(struct ckpt_pack *p, const struct start_event *e,
		  struct buf *to) MUST_CHECK;

/*
 * The event at `*pos`, which moves behind it.  Its facts, if there are any, are in `facts`,
 * its node is NULL.  1; 0: there is none any more; -EBADMSG: these are no events.
 */
int ckpt_pack_next(struct ckpt_pack *p, const void *data, size_t len,
		   size_t *pos, uint64_t facts[STAGE_FACTS],
		   struct start_event *ret) MUST_CHECK;

#endif
