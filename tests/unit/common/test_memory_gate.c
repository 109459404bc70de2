// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/memory_gate.h"
#include "tests/unit/pause.h"

#define LONG_NS INT64_C(100000000000) /* reached only if the gate hangs */

TestSuite(memory_gate, .timeout = 60);

static struct memory_gate gate;
static struct error err;
static atomic_int n_has;

static void *take_six_bytes(void *arg)
{
	cr_expect_eq(memory_claim_take(arg, 6, LONG_NS, NULL), 0);
	(void)atomic_fetch_add(&n_has, 1);
	return NULL;
}

static struct memory_claim claim_of(const char *name)
{
	return (struct memory_claim){ .gate = &gate, .name = name };
}

Test(memory_gate, gives_no_more_than_there_is)
{
	struct memory_claim a = claim_of("a"), b = claim_of("b"),
			    c = claim_of("c");

	memory_gate_init(&gate, 10, 10);
	cr_assert_eq(memory_claim_take(&a, 6, 0, &err), 0);
	cr_expect_eq(memory_claim_take(&b, 5, 0, &err), -EBUSY);
	cr_expect_eq(memory_claim_take(&b, 4, 0, &err), 0);
	cr_expect_eq(memory_claim_take(&c, 1, 1, &err), -EBUSY);
	memory_claim_give(&a);
	memory_claim_give(&a);
	memory_claim_give(&b);
	cr_expect_eq(memory_claim_take(&c, 10, 0, &err), 0);
	memory_claim_give(&c);
	cr_expect_eq(gate.used, 0);
	memory_gate_fini(&gate);
}

Test(memory_gate, who_waits_has_it_when_it_is_given_back)
{
	struct memory_claim claims[] = { claim_of("a"), claim_of("b") };
	pthread_t threads[2];

	memory_gate_init(&gate, 10, 10);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, take_six_bytes,
					    &claims[i]),
			     0);
	while (atomic_load(&n_has) < 1)
		unit_pause();
	/* At no moment do both threads have the memory. */
	cr_expect_eq(atomic_load(&n_has), 1);
	memory_claim_give(&claims[claims[0].bytes ? 0 : 1]);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(pthread_join(threads[i], NULL), 0);
	cr_expect_eq(atomic_load(&n_has), 2);
	cr_expect_eq(gate.used, 6);
	memory_gate_fini(&gate);
}

Test(memory_gate, one_name_leaves_some_for_others)
{
	struct memory_claim a = claim_of("a"), a2 = claim_of("a"),
			    b = claim_of("b");

	memory_gate_init(&gate, 10, 5);
	cr_assert_eq(memory_claim_take(&a, 3, 0, &err), 0);
	cr_expect_eq(memory_claim_take(&a2, 3, 0, &err), -EBUSY);
	cr_expect_eq(memory_claim_take(&a2, 2, 0, &err), 0);
	cr_expect_eq(memory_claim_take(&b, 5, 0, &err), 0);
	memory_gate_fini(&gate);
}

struct stopping {
	struct pace pace;
	int asked;
};

static enum pace_level stop_later(struct pace *p)
{
	struct stopping *s = container_of(p, struct stopping, pace);

	return ++s->asked < 3 ? PACE_GO : PACE_STOP;
}

Test(memory_gate, nobody_waits_for_what_is_not_wanted_any_more)
{
	struct stopping s = { .pace = { .level = stop_later } };
	struct memory_claim a = claim_of("a"), b = claim_of("b");

	b.pace = &s.pace;
	memory_gate_init(&gate, 10, 10);
	cr_assert_eq(memory_claim_take(&a, 10, 0, &err), 0);
	cr_expect_eq(memory_claim_take(&b, 1, LONG_NS, &err), -ECANCELED);
	cr_expect_eq(s.asked, 3);
	memory_claim_give(&a);
	cr_expect_eq(gate.first, NULL);
	memory_gate_fini(&gate);
}

/* Report `n` bytes in one second. */
static int report_second(struct memory_claim *c, uint64_t n)
{
	return memory_claim_came(c, n, NS_PER_S, &err);
}

Test(memory_gate, a_slow_one_gives_way_when_others_wait)
{
	struct memory_claim slow = claim_of("a"), quick = claim_of("b"),
			    waits = claim_of("c");
	pthread_t thread;
	int rc = 0;

	memory_gate_init(&gate, 10, 10);
	cr_expect_eq(report_second(&slow, 0), 0);
	cr_assert_eq(memory_claim_take(&slow, 6, 0, &err), 0);
	cr_assert_eq(memory_claim_take(&quick, 2, 0, &err), 0);
	/* A slow claim is fine while no other thread waits. */
	for (int i = 0; i < 30; i++)
		cr_expect_eq(report_second(&slow, 1000), 0);
	cr_assert_eq(pthread_create(&thread, NULL, take_six_bytes, &waits), 0);
	while (rc == 0) {
		cr_expect_eq(report_second(&quick, MEMORY_LEAST_RATE), 0);
		/* The thread has to start waiting first. */
		if (report_second(&slow, 1000) == -EBUSY)
			rc = -EBUSY;
		unit_pause();
	}
	cr_expect(strstr(err.msg, "others wait for its"), "%s", err.msg);
	memory_claim_give(&slow);
	cr_expect_eq(pthread_join(thread, NULL), 0);
	memory_gate_fini(&gate);
}
