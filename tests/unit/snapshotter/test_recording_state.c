// SPDX-License-Identifier: Apache-2.0
/* Whether a start's reads become a trace. */
#include <criterion/criterion.h>
#include <errno.h>

#include "snapshotter/node/starts/recording_state.h"

#define S INT64_C(1000000000)

TestSuite(recording_state, .timeout = 120);

/* A start on a new mount that got ready, under the key that was looked up. */
static const struct recording_end whole = {
	.end = START_READY,
	.words = START_WORDS_ASKED,
	.watched_ms = 4000,
	.has_key = true,
	.n_entries = 10,
	.alone_ns = INT64_MAX,
};

static const struct recording_known enough = { .is_own = true,
					       .length_ms = 4000 };

Test(recording_state, needs_a_mount_whose_reads_are_all_seen)
{
	const enum recording_mode always = RECORDING_MODE_ALWAYS;

	cr_expect_eq(recording_begin(RECORDING_BLIND, always, true),
		     RECORDING_UNSEEN);
	cr_expect_eq(recording_begin(RECORDING_STALE, always, true),
		     RECORDING_FIGURES);
	cr_expect_eq(recording_begin(RECORDING_FRESH, always, false),
		     RECORDING_ORDERED);
}

Test(recording_state, is_made_unasked_while_the_stores_want_more)
{
	const enum recording_sight fresh = RECORDING_FRESH;

	cr_expect_eq(recording_begin(fresh, RECORDING_MODE_AUTO, true),
		     RECORDING_OFFERED);
	cr_expect_eq(recording_begin(fresh, RECORDING_MODE_AUTO, false),
		     RECORDING_FIGURES);
	cr_expect_eq(recording_begin(fresh, RECORDING_MODE_OFF, true),
		     RECORDING_FIGURES);
}

Test(recording_state,
     a_policy_is_a_mode_and_may_say_how_long_a_start_is_watched)
{
	static const struct {
		const char *text;
		enum recording_mode mode;
		int64_t s;
	} good[] = { { "auto", RECORDING_MODE_AUTO, 120 },
		     { "off", RECORDING_MODE_OFF, 120 },
		     { "always", RECORDING_MODE_ALWAYS, 120 },
		     { "auto:10m", RECORDING_MODE_AUTO, 600 },
		     { "always:1s", RECORDING_MODE_ALWAYS, 1 },
		     { "auto:1h", RECORDING_MODE_AUTO, 3600 } };
	static const char *const bad[] = { "",       "aut",      "auto:",
					   "auto:x", "auto:5",   "auto:999ms",
					   "on",     "auto:61m", "auto:-5s" };
	struct recording_policy p;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_assert_eq(recording_policy_parse(good[i].text, &p, NULL), 0);
		cr_expect_eq(p.mode, good[i].mode);
		cr_expect_eq(p.window_ns, good[i].s * 1000000000);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(recording_policy_parse(bad[i], &p, NULL), -EINVAL,
			     "%s", bad[i]);
}

Test(recording_state, of_a_whole_start_is_kept_and_nobody_is_asked)
{
	struct recording_end e = whole;

	cr_expect_eq(recording_end(RECORDING_OFFERED, &e), RECORDING_KEPT);
	cr_expect_eq(recording_end(RECORDING_ORDERED, &e), RECORDING_KEPT);
	e.end = START_WINDOW;
	cr_expect_eq(recording_end(RECORDING_OFFERED, &e), RECORDING_KEPT);
	e.words = START_WORDS_PENDING;
	cr_expect_eq(recording_end(RECORDING_OFFERED, &e), RECORDING_KEPT);
}

Test(recording_state, that_was_none_stays_none_however_it_ends)
{
	cr_expect_eq(recording_end(RECORDING_UNSEEN, &whole), RECORDING_UNSEEN);
	cr_expect_eq(recording_end(RECORDING_FIGURES, &whole),
		     RECORDING_FIGURES);
	cr_expect_eq(recording_judge(RECORDING_FIGURES, &whole, NULL),
		     RECORDING_FIGURES);
	cr_expect_eq(recording_judge(RECORDING_MIXED, &whole, NULL),
		     RECORDING_MIXED);
}

Test(recording_state, of_nobody_knows_what_is_not_kept)
{
	struct recording_end e = whole;

	e.end = START_GONE;
	e.words = START_WORDS_PENDING;
	cr_expect_eq(recording_end(RECORDING_ORDERED, &e), RECORDING_NAMELESS);
}

Test(recording_state, needs_ten_seconds_alone_on_the_mount)
{
	struct recording_end e = whole;

	e.alone_ns = 10 * S - 1;
	cr_expect_eq(recording_end(RECORDING_ORDERED, &e), RECORDING_MIXED);
	e.alone_ns = 10 * S;
	cr_expect_eq(recording_end(RECORDING_ORDERED, &e), RECORDING_KEPT);
}

Test(recording_state, without_a_read_or_a_key_is_not_kept)
{
	struct recording_end e = whole;

	e.n_entries = 0;
	cr_expect_eq(recording_end(RECORDING_ORDERED, &e), RECORDING_EMPTY);
	e.end = START_GONE;
	cr_expect_eq(recording_end(RECORDING_ORDERED, &e),
		     RECORDING_ORDERED_ASK);
	cr_expect_eq(recording_judge(RECORDING_ORDERED_ASK, &e, NULL),
		     RECORDING_EMPTY);
	e = whole;
	e.has_key = false;
	e.end = START_GONE;
	cr_expect_eq(recording_end(RECORDING_OFFERED, &e), RECORDING_EMPTY);
}

Test(recording_state, of_a_container_that_went_is_a_question)
{
	struct recording_end e = whole;

	e.end = START_GONE;
	cr_expect_eq(recording_end(RECORDING_OFFERED, &e),
		     RECORDING_OFFERED_ASK);
	e = whole;
	e.words = START_WORDS_OTHER;
	cr_expect_eq(recording_end(RECORDING_ORDERED, &e),
		     RECORDING_ORDERED_ASK);
	cr_expect(recording_has_to_ask(RECORDING_ORDERED_ASK));
	cr_expect(recording_has_to_ask(RECORDING_OFFERED_ASK));
	cr_expect_not(recording_has_to_ask(RECORDING_KEPT));
	cr_expect_not(recording_has_to_ask(RECORDING_OFFERED));
}

Test(recording_state, is_kept_when_nobody_knows_this_start)
{
	struct recording_end e = whole;
	struct recording_known of_relative = enough;

	e.end = START_GONE;
	e.watched_ms = 1;
	of_relative.is_own = false;
	cr_expect_eq(recording_judge(RECORDING_OFFERED_ASK, &e, NULL),
		     RECORDING_KEPT);
	cr_expect_eq(recording_judge(RECORDING_OFFERED_ASK, &e, &of_relative),
		     RECORDING_KEPT);
}

Test(recording_state, takes_a_crash_for_a_fragment_of_what_is_known)
{
	struct recording_end e = whole;

	e.end = START_GONE;
	e.watched_ms = 999;
	cr_expect_eq(recording_judge(RECORDING_ORDERED_ASK, &e, &enough),
		     RECORDING_FRAGMENT);
	e.watched_ms = 1000;
	cr_expect_eq(recording_judge(RECORDING_ORDERED_ASK, &e, &enough),
		     RECORDING_KEPT);
	/* A start that reported ready, or whose window ended, is no fragment however short it
	 * is. */
	e.watched_ms = 1;
	e.end = START_READY;
	cr_expect_eq(recording_judge(RECORDING_ORDERED_ASK, &e, &enough),
		     RECORDING_KEPT);
	e.end = START_WINDOW;
	cr_expect_eq(recording_judge(RECORDING_ORDERED_ASK, &e, &enough),
		     RECORDING_KEPT);
}

Test(recording_state, that_was_not_ordered_has_to_be_wanted_still)
{
	struct recording_known wanted = enough;
	struct recording_end e = whole;

	wanted.is_wanted = true;
	e.words = START_WORDS_OTHER;
	cr_expect_eq(recording_judge(RECORDING_OFFERED_ASK, &e, &enough),
		     RECORDING_KNOWN);
	cr_expect_eq(recording_judge(RECORDING_OFFERED_ASK, &e, &wanted),
		     RECORDING_KEPT);
	/* A start that ends within a second may be a crash, so one recording of it is enough. */
	wanted.length_ms = 0;
	e.end = START_GONE;
	e.watched_ms = 999;
	cr_expect_eq(recording_judge(RECORDING_OFFERED_ASK, &e, &wanted),
		     RECORDING_KNOWN);
	e.watched_ms = 1000;
	cr_expect_eq(recording_judge(RECORDING_OFFERED_ASK, &e, &wanted),
		     RECORDING_KEPT);
	e.end = START_READY;
	e.watched_ms = 1;
	cr_expect_eq(recording_judge(RECORDING_OFFERED_ASK, &e, &wanted),
		     RECORDING_KEPT);
}

Test(recording_state, users_are_told_of_it_while_it_may_be_kept)
{
	static const enum recording_state on[] = {
		RECORDING_OFFERED,     RECORDING_ORDERED, RECORDING_OFFERED_ASK,
		RECORDING_ORDERED_ASK, RECORDING_KEPT,    RECORDING_EMPTY
	};
	static const enum recording_state off[] = {
		RECORDING_UNSEEN, RECORDING_FIGURES,  RECORDING_NAMELESS,
		RECORDING_MIXED,  RECORDING_FRAGMENT, RECORDING_KNOWN
	};

	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++)
		cr_expect(recording_is_on(on[i]), "%zu", i);
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
		cr_expect_not(recording_is_on(off[i]), "%zu", i);
}
