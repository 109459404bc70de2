// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "common/periodic.h"

TestSuite(periodic, .timeout = 60);

struct calls {
	sem_t called;
	atomic_int n;
	int64_t pause_ns;
	bool takes_signals;
};

static int64_t count(void *arg)
{
	struct calls *c = arg;
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	c->takes_signals = !sigismember(&mask, SIGTERM);
	atomic_fetch_add(&c->n, 1);
	sem_post(&c->called);
	return clock_now_ns() + c->pause_ns;
}

Test(periodic, is_called_at_once_and_again_when_it_said)
{
	struct calls c = { .pause_ns = 1000 };
	struct periodic *p = NULL;

	sem_init(&c.called, 0, 0);
	cr_assert_eq(periodic_start(count, &c, 0, &p, NULL), 0);
	for (int i = 0; i < 3; i++)
		sem_wait(&c.called);
	periodic_stop(p);
	cr_expect_geq(atomic_load(&c.n), 3);
	cr_expect_not(c.takes_signals);
}

Test(periodic, is_called_when_it_is_woken_and_not_before)
{
	struct calls c = { .pause_ns = 3600 * NS_PER_S };
	struct periodic *p = NULL;

	sem_init(&c.called, 0, 0);
	cr_assert_eq(periodic_start(count, &c, 0, &p, NULL), 0);
	sem_wait(&c.called);
	periodic_wake(p);
	sem_wait(&c.called);
	periodic_stop(p);
	cr_expect_eq(atomic_load(&c.n), 2);
	periodic_wake(NULL);
	periodic_stop(NULL);
}

Test(periodic, is_first_called_after_the_time_it_was_given_or_when_it_is_woken)
{
	struct calls c = { .pause_ns = 3600 * NS_PER_S };
	int64_t begun_ns = clock_now_ns();
	struct periodic *p = NULL;

	sem_init(&c.called, 0, 0);
	cr_assert_eq(periodic_start(count, &c, 1000000, &p, NULL), 0);
	sem_wait(&c.called);
	periodic_stop(p);
	cr_expect_geq(clock_now_ns() - begun_ns, 1000000);
	cr_assert_eq(periodic_start(count, &c, 3600 * NS_PER_S, &p, NULL), 0);
	periodic_wake(p);
	sem_wait(&c.called);
	periodic_stop(p);
	cr_assert_eq(periodic_start(count, &c, 3600 * NS_PER_S, &p, NULL), 0);
	periodic_stop(p);
	cr_expect_eq(atomic_load(&c.n), 2);
}
