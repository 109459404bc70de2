// SPDX-License-Identifier: Apache-2.0
/* When a store is called silent; of a store whose calls do nothing. */
#include <criterion/criterion.h>
#include <errno.h>

#include "common/clock.h"
#include "objects/store/store_watch.h"
#include "objects/store_patience.h"

#define AFTER (5 * NS_PER_S)

TestSuite(store_watch, .timeout = 60);

static struct object_store store;
static int64_t next;

/* `seconds` from when something was heard last. */
static bool look(int seconds)
{
	return store_silence_look(&store.silence,
				  atomic_load(&store.silence.heard_ns) +
					  seconds * NS_PER_S,
				  AFTER, &next);
}

Test(store_watch, a_store_of_which_nobody_wants_anything_is_not_silent)
{
	cr_expect_not(look(100));
	(void)store_call_begin(&store);
	store_call_end(&store, 0);
	cr_expect_not(look(100));
}

Test(store_watch, silence_is_told_of_once)
{
	(void)store_call_begin(&store);
	cr_expect_not(look(3));
	cr_expect_eq(next, atomic_load(&store.silence.heard_ns) + AFTER);
	cr_expect(look(5));
	cr_expect_not(look(6));
	store_note_answer(&store);
	cr_expect_not(look(4));
	cr_expect(look(5));
}

Test(store_watch, a_call_that_got_no_answer_does_not_break_it)
{
	int64_t heard;

	(void)store_call_begin(&store);
	heard = atomic_load(&store.silence.heard_ns);
	(void)store_call_begin(&store);
	store_call_end(&store, -ETIMEDOUT);
	cr_expect_eq(atomic_load(&store.silence.heard_ns), heard);
	(void)store_call_begin(&store);
	store_call_end(&store, -ENOENT);
	cr_expect_gt(atomic_load(&store.silence.heard_ns), heard);
}

static int fake_list(struct object_store *s, const char *folder, bool deep,
		     object_list_fn *fn, void *arg, struct error *err)
{
	const struct object_entry e = { .name = "a" };

	return fn(arg, &e, err);
}

static int saw(void *arg, const struct object_entry *e, struct error *err)
{
	*(bool *)arg = look(100);
	return 0;
}

Test(store_watch, whoever_is_told_of_a_list_does_not_wait_for_the_store)
{
	static const struct object_store_ops ops = { .list = fake_list };
	struct error err = ERROR_INIT;
	bool is_silent = true;

	store.ops = &ops;
	cr_assert_eq(object_list(&store, "", false, saw, &is_silent, &err), 0);
	cr_expect_not(is_silent);
	cr_expect_eq(atomic_load(&store.silence.n_calls), 0);
}

Test(store_watch, what_is_over_soon_is_not_told_of)
{
	cr_expect_eq(store_silence_after(900 * NS_PER_MS), 0);
	cr_expect_eq(store_silence_after(4 * NS_PER_S), 2 * NS_PER_S);
	cr_expect_eq(store_silence_after(60 * NS_PER_S), AFTER);
}

Test(store_watch, no_attempt_outlasts_the_timeout)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;

	object_store_set_timeout(&cfg, 1500 * NS_PER_MS);
	cr_expect_eq(cfg.retry_ms, 1500);
	cr_expect_eq(cfg.stall_timeout_ms, 1500);
	cr_expect_eq(cfg.connect_timeout_ms, 1500);
}
