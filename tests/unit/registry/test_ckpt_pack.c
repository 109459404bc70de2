// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "registry/ckpt_pack.h"

TestSuite(ckpt_pack, .timeout = 60);

static int next(struct ckpt_pack *p, const struct buf *b, size_t *pos,
		uint64_t facts[STAGE_FACTS], struct start_event *ret)
{
	return ckpt_pack_next(p, b->data, b->len, pos, facts, ret);
}

Test(ckpt_pack, says_an_event_in_the_bytes_of_its_format)
{
	const uint64_t facts[STAGE_FACTS] = { [STAGE_FACT_SAVED_BYTES] = 300 };
	const struct start_event e = { .stage = START_CKPT_SAVE,
				       .ev = STAGE_END,
				       .ts_ns = 70,
				       .mono_ns = STAGE_NONE,
				       .boot = 5,
				       .rank = 2,
				       .status = 0,
				       .facts = facts };
	/* Flags; 70; boot; rank; status; the tenth fact; 300. */
	static const unsigned char want[] = { 0xed, 0x8c, 0x01, 0x05, 0x04,
					      0x00, 0x80, 0x08, 0xac, 0x02 };
	struct ckpt_pack p = CKPT_PACK_INIT;
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(ckpt_pack_add(&p, &e, &b), 0);
	cr_assert_eq(b.len, sizeof(want));
	cr_expect_eq(memcmp(b.data, want, sizeof(want)), 0);
}

static uint64_t seed = 1;

static uint64_t any(void)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return seed >> (1 + seed % 61);
}

static void make_any(struct start_event *e, uint64_t facts[STAGE_FACTS])
{
	memset(facts, 0, STAGE_FACTS * sizeof(*facts));
	*e = (struct start_event){
		.stage = any() % 2 ? START_CKPT_SAVE : START_CKPT_LOAD,
		.ev = (enum stage_ev)(any() % 3),
		.ts_ns = any() % 4 ? (int64_t)any() : STAGE_NONE,
		.mono_ns = any() % 4 ? (int64_t)any() : STAGE_NONE,
		.rank = any() % 2 ? (int64_t)(any() % 9) : STAGE_NONE,
		.status = any() % 2 ? (int64_t)(any() % 256) : STAGE_NONE,
		.boot = any() % 3 ? any() : 0,
		.facts = facts,
	};
	for (unsigned int i = 0; i < STAGE_FACTS; i++)
		facts[i] = any() % 3 ? 0 : any();
}

static void expect_same(const struct start_event *a,
			const struct start_event *b)
{
	static const uint64_t none[STAGE_FACTS];

	cr_assert_str_eq(a->stage, b->stage);
	cr_assert_eq(a->ev, b->ev);
	cr_assert_eq(a->ts_ns, b->ts_ns);
	cr_assert_eq(a->mono_ns, b->mono_ns);
	cr_assert_eq(a->rank, b->rank);
	cr_assert_eq(a->status, b->status);
	cr_assert_eq(a->boot, b->boot);
	cr_assert_eq(memcmp(a->facts ? a->facts : none,
			    b->facts ? b->facts : none, sizeof(none)),
		     0);
}

#define SAID 500

Test(ckpt_pack, gives_back_what_was_packed)
{
	static struct start_event said[SAID];
	static uint64_t said_facts[SAID][STAGE_FACTS];
	struct ckpt_pack to = CKPT_PACK_INIT, from = CKPT_PACK_INIT;
	uint64_t facts[STAGE_FACTS];
	struct start_event e;
	AUTO_BUF b = BUF_INIT;
	size_t pos = 0;

	for (size_t i = 0; i < SAID; i++) {
		make_any(&said[i], said_facts[i]);
		cr_assert_eq(ckpt_pack_add(&to, &said[i], &b), 0);
	}
	for (size_t i = 0; i < SAID; i++) {
		cr_assert_eq(next(&from, &b, &pos, facts, &e), 1);
		expect_same(&said[i], &e);
		cr_assert_eq(e.facts == NULL || e.facts == facts, 1);
	}
	cr_expect_eq(next(&from, &b, &pos, facts, &e), 0);
	/* The unpacking state equals the packing state, so packing can continue with it. */
	cr_expect_eq(memcmp(&from, &to, sizeof(to)), 0);
}

Test(ckpt_pack, refuses_what_is_cut_off_or_no_event)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {
		{ "\x03", 1 },     /* unknown kind of event */
		{ "\x08", 1 },     /* the wall clock is missing */
		{ "\x08\x80", 2 }, /* the number has no end */
		{ "\x20\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", 11 },
		/* the bits of facts are missing */
		{ "\x80\x00", 2 },
		{ "\x80\x00\x80\x80\x02", 5 }, /* a fact that does not exist */
		/* the value of a fact is missing */
		{ "\x80\x00\x01", 3 },
	};
	uint64_t facts[STAGE_FACTS];
	struct start_event e;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ckpt_pack p = CKPT_PACK_INIT;
		size_t pos = 0;

		cr_expect_eq(ckpt_pack_next(&p, bad[i].bytes, bad[i].n, &pos,
					    facts, &e),
			     -EBADMSG, "%zu", i);
	}
}

Test(ckpt_pack, knows_loads_and_saves_alone)
{
	cr_expect_str_eq(ckpt_pack_stage(stage_text("ckpt.save")),
			 START_CKPT_SAVE);
	cr_expect_str_eq(ckpt_pack_stage(stage_text("ckpt.load")),
			 START_CKPT_LOAD);
	cr_expect_eq(ckpt_pack_stage(stage_text("ckpt.open")), NULL);
	cr_expect_eq(ckpt_pack_stage(stage_text("ckpt.saves")), NULL);
}
