// SPDX-License-Identifier: Apache-2.0
/* The state of the workloads of an image, with the clock set by the test. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshotter/node/traces/workload.h"

#define NOW INT64_C(5000)

TestSuite(workload, .timeout = 120);

static struct image_workloads *new_table(void)
{
	struct image_workloads *w = calloc(1, sizeof(*w));

	cr_assert(w);
	return w;
}

static struct workload_entry *add(struct image_workloads *w, const char *key)
{
	struct workload_entry *e = workload_add(w, key);

	cr_assert(e);
	return e;
}

/* A complete search for `purpose`; `finds`: it finds a trace. */
static void search(struct image_workloads *w, struct workload_entry *e,
		   enum workload_purpose purpose, bool finds, int64_t now)
{
	struct trace t = { .info = { .ready_ms = 700, .window_ms = 900 } };
	const struct trace_found best = { .trace = finds ? &t : NULL,
					  .match = TRACE_MATCH_RELATIVE };

	workload_begin(e, purpose);
	workload_answer(e, &best);
	workload_end(w, e, NULL, now);
}

Test(workload, is_unknown_and_due_at_first)
{
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, "a");

	cr_expect_eq(e->phase, WORKLOAD_UNKNOWN);
	cr_expect_not(workload_has_answer(e));
	cr_expect(workload_is_due(w, e, WORKLOAD_TO_LOOK, 0));
	cr_expect_eq(workload_find(w, "a"), e);
	cr_expect_null(workload_find(w, "b"));
	cr_expect_null(workload_find(w, NULL));
	image_workloads_free(w);
}

Test(workload, is_searched_once_for_all_who_ask_meanwhile)
{
	const struct trace_found none = { .trace = NULL };
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, "a");

	workload_begin(e, WORKLOAD_TO_LOOK);
	cr_expect(workload_is_searched(e));
	cr_expect_not(workload_is_due(w, e, WORKLOAD_TO_START, NOW));
	/* A mount waits for the answer, not for the prefetch that follows. */
	workload_answer(e, &none);
	cr_expect(workload_has_answer(e));
	cr_expect(workload_is_searched(e));
	cr_expect_not(workload_is_due(w, e, WORKLOAD_TO_START, NOW));
	workload_end(w, e, NULL, NOW);
	cr_expect_not(workload_is_searched(e));
	cr_expect_eq(e->phase, WORKLOAD_KNOWN);
	image_workloads_free(w);
}

Test(workload, answer_tells_how_near_and_how_long)
{
	struct trace t = { .info = { .ready_ms = 0, .window_ms = 900 } };
	const struct trace_found far = { .trace = &t,
					 .match = TRACE_MATCH_FAR,
					 .wanted = false };
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, "a");

	search(w, e, WORKLOAD_TO_FETCH, true, NOW);
	cr_expect(e->found);
	cr_expect_not(e->wanted);
	cr_expect_eq(e->match, TRACE_MATCH_RELATIVE);
	cr_expect_eq(e->length_ms, 700);
	/* A start that never got ready counts with its window. */
	workload_begin(e, WORKLOAD_TO_FETCH);
	workload_answer(e, &far);
	cr_expect_eq(e->length_ms, 900);
	workload_end(w, e, NULL, NOW);
	/* A trace is wanted if there is none. */
	search(w, e, WORKLOAD_TO_FETCH, false, NOW);
	cr_expect_not(e->found);
	cr_expect(e->wanted);
	cr_expect_eq(e->length_ms, 0);
	image_workloads_free(w);
}

Test(workload, answer_grows_old_and_sooner_when_it_is_no)
{
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, "a");

	search(w, e, WORKLOAD_TO_START, true, NOW);
	cr_expect_not(workload_is_due(w, e, WORKLOAD_TO_START,
				      NOW + WORKLOAD_FOUND_NS - 1));
	cr_expect(workload_is_due(w, e, WORKLOAD_TO_LOOK,
				  NOW + WORKLOAD_FOUND_NS));
	search(w, e, WORKLOAD_TO_START, false, NOW);
	cr_expect_not(workload_is_due(w, e, WORKLOAD_TO_START,
				      NOW + WORKLOAD_NONE_NS - 1));
	cr_expect(workload_is_due(w, e, WORKLOAD_TO_LOOK,
				  NOW + WORKLOAD_NONE_NS));
	image_workloads_free(w);
}

Test(workload, is_searched_again_when_a_recording_came)
{
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, "a");

	search(w, e, WORKLOAD_TO_START, true, NOW);
	workload_forget(w);
	cr_expect(workload_is_due(w, e, WORKLOAD_TO_LOOK, NOW));
	search(w, e, WORKLOAD_TO_START, true, NOW);
	cr_expect_not(workload_is_due(w, e, WORKLOAD_TO_LOOK, NOW));
	image_workloads_free(w);
}

Test(workload, answer_is_old_already_when_a_recording_came_meanwhile)
{
	const struct trace_found none = { .trace = NULL };
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, "a");

	workload_begin(e, WORKLOAD_TO_START);
	workload_forget(w);
	workload_answer(e, &none);
	workload_end(w, e, NULL, NOW);
	cr_expect(workload_has_answer(e), "whoever waits has it all the same");
	cr_expect(workload_is_due(w, e, WORKLOAD_TO_LOOK, NOW));
	image_workloads_free(w);
}

Test(workload, that_was_only_looked_at_is_searched_again_for_its_hot_set)
{
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, "a");

	search(w, e, WORKLOAD_TO_LOOK, true, NOW);
	cr_expect_not(workload_is_hot(w, e));
	cr_expect_not(workload_is_due(w, e, WORKLOAD_TO_LOOK, NOW));
	cr_expect(workload_is_due(w, e, WORKLOAD_TO_FETCH, NOW));
	search(w, e, WORKLOAD_TO_FETCH, true, NOW);
	cr_expect(workload_is_hot(w, e));
	cr_expect_not(workload_is_due(w, e, WORKLOAD_TO_START, NOW));
	image_workloads_free(w);
}

Test(workload, takes_the_place_of_another_one_in_the_prefetch)
{
	struct image_workloads *w = new_table();
	struct workload_entry *a = add(w, "a"), *b = add(w, "b");

	search(w, a, WORKLOAD_TO_START, true, NOW);
	search(w, b, WORKLOAD_TO_START, true, NOW);
	cr_expect(workload_is_hot(w, b));
	cr_expect(workload_is_due(w, a, WORKLOAD_TO_START, NOW));
	/* Nothing was found for `a`, so the prefetch stays that of `b`. */
	search(w, a, WORKLOAD_TO_START, false, NOW);
	cr_expect(workload_is_hot(w, a));
	cr_expect(workload_is_hot(w, b));
	image_workloads_free(w);
}

Test(workload, of_the_config_has_its_key_when_it_was_searched)
{
	const struct trace_found none = { .trace = NULL };
	struct image_workloads *w = new_table();
	struct workload_entry *e = add(w, NULL);

	cr_expect_eq(workload_find(w, NULL), e);
	cr_expect_null(workload_find(w, "k"));
	workload_begin(e, WORKLOAD_TO_FETCH);
	workload_answer(e, &none);
	workload_end(w, e, strdup("k"), NOW);
	cr_expect_eq(workload_find(w, NULL), e);
	cr_expect_eq(workload_find(w, "k"), e);
	image_workloads_free(w);
}

Test(workload, makes_room_for_another_by_the_oldest_that_nobody_uses)
{
	struct image_workloads *w = new_table();
	struct workload_entry *first = NULL, *second = NULL, *e;
	char key[16];

	for (int i = 0; i < WORKLOADS_MAX; i++) {
		snprintf(key, sizeof(key), "%d", i);
		e = add(w, key);
		first = first ? first : e;
		second = i == 1 ? e : second;
	}
	search(w, second, WORKLOAD_TO_START, true, NOW);
	workload_begin(first, WORKLOAD_TO_START);
	cr_expect_eq(w->hot, second);
	(void)add(w, "new");
	cr_expect_eq(workload_find(w, "0"), first, "it is being searched");
	cr_expect_null(workload_find(w, "1"));
	cr_expect_null(w->hot, "and with it the place in the prefetch");
	for (e = w->first; e; e = e->next)
		e->waiters = 1;
	cr_expect_null(workload_add(w, "more"), "all are in use");
	image_workloads_free(w);
}
