// SPDX-License-Identifier: Apache-2.0
/* Jobs wait on a gate that the test opens, so what runs beside what is the test's to say. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "net/pool.h"
#include "tests/unit/failures.h"

#define JOBS 64

/* What jobs did, in order. */
struct ledger {
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	bool is_open; /* jobs may end */
	unsigned int n_running, most, n_done;
	unsigned int order[JOBS];
};

struct job {
	struct work base;
	struct ledger *ledger;
	unsigned int number;
};

static struct ledger ledger = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};
static struct job jobs[JOBS];
static struct pool *pool;
static struct error err;

static void run(struct work *base)
{
	struct job *j = (struct job *)base;
	struct ledger *l = j->ledger;

	(void)pthread_mutex_lock(&l->lock);
	if (++l->n_running > l->most)
		l->most = l->n_running;
	(void)pthread_cond_broadcast(&l->changed);
	while (!l->is_open)
		(void)pthread_cond_wait(&l->changed, &l->lock);
	l->n_running--;
	l->order[l->n_done++] = j->number;
	(void)pthread_cond_broadcast(&l->changed);
	(void)pthread_mutex_unlock(&l->lock);
}

static void begin(unsigned int max)
{
	for (unsigned int i = 0; i < JOBS; i++)
		jobs[i] = (struct job){ { .run = run }, &ledger, i };
	ledger.is_open = false;
	ledger.n_running = ledger.most = ledger.n_done = 0;
	cr_assert_eq(pool_new_lazy(max, &pool, &err), 0);
}

static void submit(unsigned int i, bool first)
{
	cr_assert_eq(first ? pool_submit_first(pool, &jobs[i].base)
			   : pool_submit(pool, &jobs[i].base),
		     0);
}

static void wait_running(unsigned int n)
{
	(void)pthread_mutex_lock(&ledger.lock);
	while (ledger.n_running < n)
		(void)pthread_cond_wait(&ledger.changed, &ledger.lock);
	(void)pthread_mutex_unlock(&ledger.lock);
}

static void open_gate(void)
{
	(void)pthread_mutex_lock(&ledger.lock);
	ledger.is_open = true;
	(void)pthread_cond_broadcast(&ledger.changed);
	(void)pthread_mutex_unlock(&ledger.lock);
}

TestSuite(pool_lazy, .timeout = 60);

Test(pool_lazy, runs_as_many_beside_one_another_as_may_be_and_no_more)
{
	begin(3);
	for (unsigned int i = 0; i < JOBS; i++)
		submit(i, false);
	wait_running(3);
	open_gate();
	pool_free(pool);
	cr_assert_eq(ledger.n_done, JOBS);
	cr_assert_eq(ledger.most, 3);
}

Test(pool_lazy, runs_in_order_and_first_what_is_to_be_first)
{
	begin(1);
	submit(0, false);
	wait_running(1);
	submit(1, false);
	submit(2, false);
	submit(3, true);
	submit(4, false);
	open_gate();
	pool_free(pool);
	cr_assert_eq(ledger.n_done, 5);
	cr_assert_eq(ledger.order[0], 0);
	cr_assert_eq(ledger.order[1], 3);
	cr_assert_eq(ledger.order[2], 1);
	cr_assert_eq(ledger.order[3], 2);
	cr_assert_eq(ledger.order[4], 4);
}

Test(pool_lazy, a_job_that_is_first_of_none_is_the_last_too)
{
	begin(1);
	submit(0, false);
	wait_running(1);
	submit(1, true);
	submit(2, false);
	open_gate();
	pool_free(pool);
	cr_assert_eq(ledger.n_done, 3);
	cr_assert_eq(ledger.order[1], 1);
	cr_assert_eq(ledger.order[2], 2);
}

/* Each job needs a thread of its own, so the n-th that cannot be started leaves n - 1:
 * with none the job is refused, and else one of these runs it. */
Test(pool_lazy, goes_on_with_the_threads_that_there_are)
{
	struct failures f = { .kind = FAIL_THREAD };
	unsigned int rounds = 0;

	while (failures_next(&f)) {
		unsigned int n_taken = 0;

		begin(4);
		for (unsigned int i = 0; i < 4; i++) {
			int rc = pool_submit(pool, &jobs[i].base);

			cr_assert(rc == 0 || rc == -EAGAIN);
			n_taken += rc == 0;
			if (rc == 0)
				wait_running(1);
		}
		if (failures_hit(&f))
			cr_assert_eq(n_taken, f.n == 1 ? 3 : 4);
		else
			cr_assert_eq(n_taken, 4);
		open_gate();
		pool_free(pool);
		cr_assert_eq(ledger.n_done, n_taken);
		rounds++;
	}
	cr_assert_eq(rounds, 5);
}

Test(pool_lazy, says_that_memory_is_short)
{
	struct failures f = { .kind = FAIL_MEMORY };

	while (failures_next(&f)) {
		int rc = pool_new_lazy(4, &pool, &err);

		if (failures_hit(&f))
			cr_assert_eq(rc, -ENOMEM);
		else
			cr_assert_eq(rc, 0);
		if (rc == 0)
			pool_free(pool);
	}
}

static void *submit_half(void *arg)
{
	unsigned int from = *(unsigned int *)arg;

	for (unsigned int i = from; i < JOBS; i += 2)
		if ((i % 3 ? pool_submit(pool, &jobs[i].base)
			   : pool_submit_first(pool, &jobs[i].base)) < 0)
			return arg;
	return NULL;
}

Test(pool_lazy, takes_jobs_of_several_threads)
{
	unsigned int from[2] = { 0, 1 };
	pthread_t threads[2];
	void *failed;

	begin(4);
	open_gate();
	for (unsigned int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, submit_half,
					    &from[i]),
			     0);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(pthread_join(threads[i], &failed), 0);
		cr_assert_null(failed);
	}
	pool_free(pool);
	cr_assert_eq(ledger.n_done, JOBS);
}
