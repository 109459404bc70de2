// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>

#include "snapshotter/node/images/keyed_lock.h"

TestSuite(keyed_lock, .timeout = 120);

#define LONG_NS INT64_C(20000000000)

static struct keyed_lock *gate;
static const struct digest one = { .b = { 1 } }, two = { .b = { 2 } };
static int inside, rounds;

static void *enter_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++) {
		if (keyed_lock_enter(gate, &one, LONG_NS, NULL) < 0)
			return NULL;
		if (++inside != 1)
			rounds = -1000000;
		rounds++;
		inside--;
		keyed_lock_leave(gate, &one);
	}
	return NULL;
}

Test(keyed_lock, lets_one_in_for_each_image)
{
	pthread_t t[4];

	gate = keyed_lock_new();
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, enter_often, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	cr_expect_eq(rounds, 4000);
	keyed_lock_free(gate);
}

Test(keyed_lock, does_not_hold_up_other_images)
{
	gate = keyed_lock_new();
	cr_assert_eq(keyed_lock_enter(gate, &one, 0, NULL), 0);
	cr_expect_eq(keyed_lock_enter(gate, &two, 0, NULL), 0);
	keyed_lock_leave(gate, &one);
	keyed_lock_leave(gate, &two);
	keyed_lock_free(gate);
}

Test(keyed_lock, gives_up_when_the_work_does_not_end)
{
	struct error err = ERROR_INIT;

	gate = keyed_lock_new();
	cr_assert_eq(keyed_lock_enter(gate, &one, 0, NULL), 0);
	cr_expect_eq(keyed_lock_enter(gate, &one, 1000000, &err), -ETIMEDOUT);
	keyed_lock_leave(gate, &one);
	cr_expect_eq(keyed_lock_enter(gate, &one, 0, NULL), 0);
	keyed_lock_leave(gate, &one);
	keyed_lock_free(gate);
}
