// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "registry/turns.h"

TestSuite(turns, .timeout = 120);

#define THREADS 4
#define MANY 40

struct job {
	struct owner_turn turn;
	sem_t *gate; /* NULL: the job does not wait */
	char who;
};

static struct loop *loop;
static struct pool *pool;
static struct turns *turns;
static sem_t gate;
static atomic_int n_begun;
/* owners of the jobs, in the order in which they ended */
static char order[2 * MANY + 1];
static size_t n_done, n_dropped;

static void run(struct owner_turn *t)
{
	struct job *j = container_of(t, struct job, turn);

	atomic_fetch_add(&n_begun, 1);
	while (j->gate && sem_wait(j->gate) < 0)
		;
}

static void done(struct owner_turn *t)
{
	order[n_done++] = container_of(t, struct job, turn)->who;
	loop_stop(loop);
}

static void drop(struct owner_turn *t)
{
	n_dropped++;
}

static void begin(size_t threads, size_t waiting_max)
{
	cr_assert_eq(loop_new(&loop, NULL), 0);
	cr_assert_eq(pool_new(loop, threads, 0, &pool, NULL), 0);
	cr_assert_eq(turns_new(pool, threads, waiting_max, &turns, NULL), 0);
	cr_assert_eq(sem_init(&gate, 0, 0), 0);
}

static void end(void)
{
	pool_free(pool);
	loop_free(loop);
	turns_free(turns);
	sem_destroy(&gate);
}

static int submit(struct job *j, char who, sem_t *at)
{
	const char name[2] = { who, '\0' };

	*j = (struct job){ .turn = { .run = run, .done = done, .drop = drop },
			   .gate = at,
			   .who = who };
	return turns_submit(turns, &j->turn, name);
}

static void wait_done(size_t n)
{
	while (n_done < n)
		cr_assert_eq(loop_run(loop, NULL), 0);
}

Test(turns, who_calls_what_takes_long_leaves_threads_to_others)
{
	struct job slow[MANY], other[MANY];

	begin(THREADS, 1000);
	for (size_t k = 0; k < MANY; k++)
		cr_assert_eq(submit(&slow[k], 'a', &gate), 0);
	/* All of them are done while none of the first ones ends. */
	for (size_t k = 0; k < MANY; k++)
		cr_assert_eq(submit(&other[k], 'b', NULL), 0);
	wait_done(MANY);
	cr_expect_eq(strspn(order, "b"), MANY);
	cr_expect_leq(atomic_load(&n_begun), MANY + THREADS - 1);
	for (size_t k = 0; k < MANY; k++)
		sem_post(&gate);
	wait_done(2 * MANY);
	cr_expect_eq(turns_waiting(turns), 0);
	end();
}

Test(turns, owners_take_turns)
{
	struct job first, many[MANY], one;

	begin(1, 1000);
	cr_assert_eq(submit(&first, 'x', &gate), 0);
	for (size_t k = 0; k < MANY; k++)
		cr_assert_eq(submit(&many[k], 'a', NULL), 0);
	cr_assert_eq(submit(&one, 'b', NULL), 0);
	cr_expect_eq(turns_waiting(turns), MANY + 1);
	sem_post(&gate);
	wait_done(MANY + 2);
	cr_expect_eq(strncmp(order, "xaba", 4), 0, "%s", order);
	end();
}

Test(turns, so_many_wait_and_no_more_and_are_dropped_at_the_end)
{
	struct job j[4];

	begin(1, 2);
	cr_assert_eq(submit(&j[0], 'a', &gate), 0);
	cr_assert_eq(submit(&j[1], 'a', NULL), 0);
	cr_assert_eq(submit(&j[2], 'b', NULL), 0);
	cr_expect_eq(submit(&j[3], 'b', NULL), -EAGAIN);
	turns_stop(turns);
	cr_expect_eq(n_dropped, 2);
	cr_expect_eq(submit(&j[3], 'b', NULL), -EAGAIN);
	sem_post(&gate);
	wait_done(1);
	cr_expect_eq(n_done, 1);
	end();
}
