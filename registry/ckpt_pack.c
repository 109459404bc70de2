// SPDX-License-Identifier: Apache-2.0
#include "registry/ckpt_pack.h"

#include <errno.h>
#include <string.h>

#define PACK_EV 3u
#define PACK_SAVE 4u
#define PACK_TS 8u
#define PACK_MONO 16u
#define PACK_BOOT 32u
#define PACK_RANK 64u
#define PACK_MORE 128u

#define NUMBER_BYTES 10u
/* The longest event: a byte of flags; clocks, boot, rank, status, the bits of facts; all facts. */
#define EVENT_BYTES (1 + (6 + STAGE_FACTS) * NUMBER_BYTES)

const char *ckpt_pack_stage(struct stage_text stage)
{
	static const char *const stages[] = { START_CKPT_LOAD,
					      START_CKPT_SAVE };

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		if (stage.n == strlen(stages[i]) &&
		    memcmp(stage.s, stages[i], stage.n) == 0)
			return stages[i];
	return NULL;
}

/* ------------------------------------------------------------------ numbers --- */

static uint8_t *put_number(uint8_t *p, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		*p++ = (uint8_t)(v | 128);
	*p++ = (uint8_t)v;
	return p;
}

/* Map signed to unsigned so that numbers close to 0, negative ones too, take few bytes. */
static uint64_t fold_sign(int64_t v)
{
	return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static int64_t unfold_sign(uint64_t v)
{
	return (int64_t)((v >> 1) ^ (v & 1 ? UINT64_MAX : 0));
}

/* Subtract modulo 2^64: signed overflow would be undefined. */
static int64_t wrapping_minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t wrapping_plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static bool get_number(const uint8_t *data, size_t len, size_t *pos,
		       uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; *pos < len && shift < 64; shift += 7) {
		uint8_t b = data[(*pos)++];

		if (shift == 63 && b > 1)
			return false;
		v |= (uint64_t)(b & 127) << shift;
		if (b < 128) {
			*ret = v;
			return true;
		}
	}
	return false;
}

/* --------------------------------------------------------------------- pack --- */

static uint64_t which_facts(const uint64_t *facts)
{
	uint64_t which = 0;

	for (unsigned int i = 0; facts && i < STAGE_FACTS; i++)
		if (facts[i])
			which |= UINT64_C(1) << i;
	return which;
}

int ckpt_pack_add(struct ckpt_pack *p, const struct start_event *e,
		  struct buf *to)
{
	uint64_t which = which_facts(e->facts);
	uint8_t room[EVENT_BYTES], *at = room + 1;
	struct ckpt_pack now = *p;
	unsigned int flags = (unsigned int)e->ev;
	int rc;

	if (strcmp(e->stage, START_CKPT_SAVE) == 0)
		flags |= PACK_SAVE;
	if (e->ts_ns != STAGE_NONE) {
		flags |= PACK_TS;
		at = put_number(at,
				fold_sign(wrapping_minus(e->ts_ns, p->ts_ns)));
		now.ts_ns = e->ts_ns;
	}
	if (e->mono_ns != STAGE_NONE) {
		flags |= PACK_MONO;
		at = put_number(at, fold_sign(wrapping_minus(e->mono_ns,
							     p->mono_ns)));
		now.mono_ns = e->mono_ns;
	}
	if (e->boot != p->boot) {
		flags |= PACK_BOOT;
		at = put_number(at, e->boot);
		now.boot = e->boot;
	}
	if (e->rank != p->rank) {
		flags |= PACK_RANK;
		at = put_number(at, fold_sign(e->rank));
		now.rank = e->rank;
	}
	if (which || e->status != STAGE_NONE) {
		flags |= PACK_MORE;
		at = put_number(at, fold_sign(e->status));
		at = put_number(at, which);
		for (unsigned int i = 0; i < STAGE_FACTS; i++)
			if (which >> i & 1)
				at = put_number(at, e->facts[i]);
	}
	room[0] = (uint8_t)flags;
	rc = buf_append(to, room, (size_t)(at - room));
	if (rc == 0)
		*p = now;
	return rc;
}

/* ------------------------------------------------------------------- unpack --- */

static bool get_facts(const uint8_t *data, size_t len, size_t *pos,
		      uint64_t facts[STAGE_FACTS], struct start_event *ret)
{
	uint64_t status, which;

	if (!get_number(data, len, pos, &status) ||
	    !get_number(data, len, pos, &which) || which >> STAGE_FACTS)
		return false;
	ret->status = unfold_sign(status);
	if (!which)
		return true;
	ret->facts = facts;
	for (unsigned int i = 0; i < STAGE_FACTS; i++) {
		facts[i] = 0;
		if ((which >> i & 1) && !get_number(data, len, pos, &facts[i]))
			return false;
	}
	return true;
}

/* Read a clock's difference if its flag is set, and add it to `*was`; `*ret` gets the sum. */
static bool get_clock(const uint8_t *data, size_t len, size_t *pos,
		      bool is_there, int64_t *was, int64_t *ret)
{
	uint64_t v;

	*ret = STAGE_NONE;
	if (!is_there)
		return true;
	if (!get_number(data, len, pos, &v))
		return false;
	*ret = *was = wrapping_plus(*was, unfold_sign(v));
	return true;
}

int ckpt_pack_next(struct ckpt_pack *p, const void *data, size_t len,
		   size_t *pos, uint64_t facts[STAGE_FACTS],
		   struct start_event *ret)
{
	const uint8_t *b = data;
	unsigned int flags;
	uint64_t rank = fold_sign(p->rank);

	if (*pos >= len)
		return 0;
	flags = b[(*pos)++];
	*ret = (struct start_event){
		.stage = flags & PACK_SAVE ? START_CKPT_SAVE : START_CKPT_LOAD,
		.ev = (enum stage_ev)(flags & PACK_EV),
		.status = STAGE_NONE,
	};
	if (ret->ev > STAGE_MARK ||
	    !get_clock(b, len, pos, flags & PACK_TS, &p->ts_ns, &ret->ts_ns) ||
	    !get_clock(b, len, pos, flags & PACK_MONO, &p->mono_ns,
		       &ret->mono_ns) ||
	    ((flags & PACK_BOOT) && !get_number(b, len, pos, &p->boot)) ||
	    ((flags & PACK_RANK) && !get_number(b, len, pos, &rank)))
		return -EBADMSG;
	ret->boot = p->boot;
	ret->rank = p->rank = unfold_sign(rank);
	if ((flags & PACK_MORE) && !get_facts(b, len, pos, facts, ret))
		return -EBADMSG;
	return 1;
}
