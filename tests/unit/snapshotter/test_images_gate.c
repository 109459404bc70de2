// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>

#include "snapshotter/node/gate.h"

TestSuite(images_gate, .timeout = 20);

#define LONG_NS INT64_C(20000000000)

static struct gate *gate;
static const struct digest one = { .b = { 1 } }, two = { .b = { 2 } };
static int inside, rounds;

static void *enter_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++) {
		if (gate_enter(gate, &one, LONG_NS, NULL) < 0)
			return NULL;
		if (++inside != 1)
			rounds = -1000000;
		rounds++;
		inside--;
		gate_leave(gate, &one);
	}
	return NULL;
}

Test(images_gate, lets_one_in_for_each_image)
{
	pthread_t t[4];

	gate = gate_new();
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, enter_often, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	cr_expect_eq(rounds, 4000);
	gate_free(gate);
}

Test(images_gate, does_not_hold_up_other_images)
{
	gate = gate_new();
	cr_assert_eq(gate_enter(gate, &one, 0, NULL), 0);
	cr_expect_eq(gate_enter(gate, &two, 0, NULL), 0);
	gate_leave(gate, &one);
	gate_leave(gate, &two);
	gate_free(gate);
}

Test(images_gate, gives_up_when_the_work_does_not_end)
{
	struct error err = ERROR_INIT;

	gate = gate_new();
	cr_assert_eq(gate_enter(gate, &one, 0, NULL), 0);
	cr_expect_eq(gate_enter(gate, &one, 1000000, &err), -ETIMEDOUT);
	gate_leave(gate, &one);
	cr_expect_eq(gate_enter(gate, &one, 0, NULL), 0);
	gate_leave(gate, &one);
	gate_free(gate);
}
