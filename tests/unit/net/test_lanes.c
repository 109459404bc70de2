// SPDX-License-Identifier: Apache-2.0
/* The rules by which calls of registries share the threads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "net/lanes.h"

TestSuite(lanes, .timeout = 120);

#define AT_ONCE 3
#define WAITING 2
#define STRANGE 4
#define ALL 16

static struct lanes *lanes;
static int64_t now;

struct turn {
	struct lane_turn turn;
	int begun;
};

static void on_begin(struct lane_turn *t)
{
	container_of(t, struct turn, turn)->begun++;
}

static void set_up(void)
{
	const struct lanes_config cfg = { .all = ALL,
					  .at_once = AT_ONCE,
					  .waiting = WAITING,
					  .strange_most = STRANGE };

	lanes = lanes_new(&cfg);
	cr_assert(lanes);
}

static void tear_down(void)
{
	lanes_free(lanes);
}

static int enter(const char *name, struct turn *t)
{
	*t = (struct turn){ .turn.begin = on_begin };
	return lanes_enter(lanes, name, &t->turn, now);
}

static void leave(struct turn *t)
{
	lanes_leave(lanes, &t->turn, true, now);
}

/* `name` answers a call, `took_ns` after it began. */
static void answers(const char *name, int64_t took_ns)
{
	struct turn t;

	cr_assert_eq(enter(name, &t), 0);
	now += took_ns;
	leave(&t);
}

/* Names that were never seen hold all that strangers may have. */
static void strangers_enter(struct turn v[STRANGE])
{
	char name[8];

	for (int i = 0; i < STRANGE; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		cr_assert_eq(enter(name, &v[i]), 0);
	}
}

static void leave_all(struct turn *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		leave(&v[i]);
}

Test(lanes, a_name_has_its_places_and_a_queue_in_order, .init = set_up,
     .fini = tear_down)
{
	struct turn in[AT_ONCE], wait[WAITING], more;

	for (int i = 0; i < AT_ONCE; i++)
		cr_expect_eq(enter("a", &in[i]), 0);
	for (int i = 0; i < WAITING; i++)
		cr_expect_eq(enter("a", &wait[i]), 1);
	cr_expect_eq(enter("a", &more), -EAGAIN);
	leave(&in[0]);
	cr_expect_eq(wait[0].begun, 1);
	cr_expect_eq(wait[1].begun, 0);
	leave(&wait[1]); /* it does not want to wait any more */
	leave_all(in + 1, AT_ONCE - 1);
	leave(&wait[0]);
	cr_expect_eq(wait[0].begun, 1);
	cr_expect_eq(wait[1].begun, 0);
}

Test(lanes, many_names_that_do_not_answer_have_no_more_than_their_share,
     .init = set_up, .fini = tear_down)
{
	struct turn s[STRANGE], one, good[AT_ONCE], more;

	answers("good", LANES_QUICK_NS);
	strangers_enter(s);
	cr_expect_eq(enter("another", &one), 1);
	for (int i = 0; i < AT_ONCE; i++)
		cr_expect_eq(enter("good", &good[i]), 0);
	cr_expect_eq(enter("good", &more), 1, "its own bound holds");
	leave(&more);
	leave_all(good, AT_ONCE);
	cr_expect_eq(one.begun, 0, "a stranger has no good one's place");
	leave(&s[0]);
	cr_expect_eq(one.begun, 1);
	leave(&one);
	leave_all(s + 1, STRANGE - 1);
}

Test(lanes, an_answer_is_good_for_a_while, .init = set_up, .fini = tear_down)
{
	struct turn s[STRANGE], t;

	answers("good", 0);
	strangers_enter(s);
	now += LANES_GOOD_NS - 1;
	cr_expect_eq(enter("good", &t), 0);
	lanes_leave(lanes, &t.turn, false, now); /* says nothing */
	now += 1;
	cr_expect_eq(enter("good", &t), 1);
	leave(&t);
	leave_all(s, STRANGE);
}

Test(lanes, a_late_answer_is_none, .init = set_up, .fini = tear_down)
{
	struct turn s[STRANGE], t;

	answers("slow", LANES_QUICK_NS + 1);
	strangers_enter(s);
	cr_expect_eq(enter("slow", &t), 1);
	leave(&t);
	leave_all(s, STRANGE);
}

/* What it holds is a stranger's again, so others do not begin beside it. */
Test(lanes, a_name_that_answered_and_then_hangs_counts_again, .init = set_up,
     .fini = tear_down)
{
	struct turn hung[AT_ONCE], s[2];

	answers("turned", 0);
	for (int i = 0; i < AT_ONCE; i++)
		cr_assert_eq(enter("turned", &hung[i]), 0);
	now += LANES_GOOD_NS;
	cr_expect_eq(enter("s0", &s[0]), 0);
	cr_expect_eq(enter("s0", &s[1]), 1);
	leave(&s[1]);
	leave(&s[0]);
	leave_all(hung, AT_ONCE);
}

/* Its age tells: long before what it once answered is forgotten. */
Test(lanes, a_name_is_strange_while_something_of_it_waits_too_long,
     .init = set_up, .fini = tear_down)
{
	struct turn hung, s[STRANGE - 1], more;

	answers("turned", 0);
	cr_assert_eq(enter("turned", &hung), 0);
	for (int i = 0; i < STRANGE - 1; i++)
		cr_assert_eq(enter(i < 2 ? "s0" : "s1", &s[i]), 0);
	now += LANES_LATE_NS - 1;
	cr_expect_eq(enter("turned", &more), 0);
	lanes_leave(lanes, &more.turn, false, now);
	now += 1;
	cr_expect_eq(enter("turned", &more), 1);
	leave(&more);
	leave(&hung);
	cr_expect_eq(enter("turned", &more), 0, "nothing of it waits now");
	leave(&more);
	leave_all(s, STRANGE - 1);
}

/* However good they were, and before it shows that they are not any more. */
Test(lanes, names_with_several_places_leave_some_to_those_that_have_none,
     .init = set_up, .fini = tear_down)
{
	struct turn hung[5 * AT_ONCE], good, fresh, again;
	size_t waiting = 0;
	char name[8];

	answers("good", 0);
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		answers(name, 0);
	}
	for (int i = 0; i < 5 * AT_ONCE; i++) {
		snprintf(name, sizeof(name), "t%d", i % 5);
		waiting += (size_t)enter(name, &hung[i]);
	}
	cr_expect_eq(5 * AT_ONCE - waiting, ALL - ALL / 4);
	cr_expect_eq(enter("fresh", &fresh), 0);
	cr_expect_eq(enter("good", &good), 0);
	cr_expect_eq(enter("good", &again), 1);
	leave(&again);
	leave(&good);
	leave(&fresh);
	now += LANES_LATE_NS;
	cr_expect_eq(enter("good", &good), 0);
	leave(&good);
	/* Those that wait leave first, so that none of them begins. */
	leave_all(hung + 5 * AT_ONCE - waiting, waiting);
	leave_all(hung, 5 * AT_ONCE - waiting);
}

/* Good names that come last, and turn slow as well, take what is kept for them first. */
Test(lanes, good_names_leave_the_others_half_to_those_that_are_strange,
     .init = set_up, .fini = tear_down)
{
	struct turn hung[4 * AT_ONCE], late[ALL / 8], fresh[ALL / 8], more;
	char name[8];

	for (int i = 0; i < 4 + ALL / 8; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		answers(name, 0);
	}
	for (int i = 0; i < 4 * AT_ONCE; i++) {
		snprintf(name, sizeof(name), "t%d", i % 4);
		cr_assert_eq(enter(name, &hung[i]), 0);
	}
	for (int i = 0; i < ALL / 8; i++) {
		snprintf(name, sizeof(name), "t%d", 4 + i);
		cr_assert_eq(enter(name, &late[i]), 0);
	}
	for (int i = 0; i < ALL / 8; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		cr_expect_eq(enter(name, &fresh[i]), 0);
	}
	cr_expect_eq(enter("more", &more), 1);
	leave(&more);
	leave_all(fresh, ALL / 8);
	leave_all(late, ALL / 8);
	/* The places for good names are theirs again. */
	answers("good", 0);
	cr_assert_eq(enter("g0", &fresh[0]), 0);
	cr_assert_eq(enter("g1", &fresh[1]), 0);
	cr_expect_eq(enter("more", &more), 1);
	leave(&more);
	leave_all(fresh, ALL / 8);
	leave_all(hung, 4 * AT_ONCE);
}

Test(lanes, of_those_that_wait_the_name_that_has_least_goes_first,
     .init = set_up, .fini = tear_down)
{
	struct turn in[AT_ONCE], s[STRANGE - 1], again, late;
	char name[8];

	for (int i = 0; i < AT_ONCE; i++)
		cr_assert_eq(enter("greedy", &in[i]), 0);
	for (int i = 0; i < STRANGE - 1; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		cr_assert_eq(enter(name, &s[i]), 0);
	}
	cr_expect_eq(enter("greedy", &again), 1);
	cr_expect_eq(enter("late", &late), 1);
	lanes_leave(lanes, &s[0].turn, false, now);
	cr_expect_eq(late.begun, 1);
	cr_expect_eq(again.begun, 0);
	leave_all(s + 1, STRANGE - 2);
	cr_expect_eq(again.begun, 0);
	lanes_leave(lanes, &in[0].turn, false, now);
	cr_expect_eq(again.begun, 1);
	leave(&late);
	leave(&again);
	leave_all(in + 1, AT_ONCE - 1);
}

Test(lanes, names_are_forgotten, .init = set_up, .fini = tear_down)
{
	char name[16];

	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		answers(name, 1);
	}
	/* The newest is known still. */
	struct turn s[STRANGE], t;

	strangers_enter(s);
	cr_expect_eq(enter("n1999", &t), 0);
	leave(&t);
	cr_expect_eq(enter("n0", &t), 1);
	leave(&t);
	leave_all(s, STRANGE);
}
