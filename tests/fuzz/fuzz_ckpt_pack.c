// SPDX-License-Identifier: Apache-2.0
/* Packed events: what is read from any bytes is the same when it is packed again. */
#include <string.h>

#include "registry/ckpt_pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void must_be_same(const struct start_event *a,
			 const struct start_event *b)
{
	static const uint64_t none[STAGE_FACTS];

	must(strcmp(a->stage, b->stage) == 0 && a->ev == b->ev &&
	     a->ts_ns == b->ts_ns && a->mono_ns == b->mono_ns &&
	     a->rank == b->rank && a->status == b->status &&
	     a->boot == b->boot);
	must(memcmp(a->facts ? a->facts : none, b->facts ? b->facts : none,
		    sizeof(none)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct ckpt_pack in = CKPT_PACK_INIT, out = CKPT_PACK_INIT,
			 in_2 = CKPT_PACK_INIT;
	uint64_t facts[STAGE_FACTS], facts_2[STAGE_FACTS];
	AUTO_BUF b = BUF_INIT;
	struct start_event e, again;
	size_t pos = 0, pos_2 = 0;

	while (ckpt_pack_next(&in, data, len, &pos, facts, &e) == 1) {
		if (ckpt_pack_add(&out, &e, &b) < 0)
			return 0;
		must(ckpt_pack_next(&in_2, b.data, b.len, &pos_2, facts_2,
				    &again) == 1);
		must_be_same(&e, &again);
	}
	must(pos <= len && pos_2 == b.len);
	return 0;
}
