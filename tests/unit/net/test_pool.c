// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "net/pool.h"

TestSuite(pool, .timeout = 120);

struct job {
	struct work work;
	struct loop *loop;
	atomic_int *n_run;
	int *n_done;
	int stop_at;
	bool ran_here;
};

static void job_run(struct work *w)
{
	struct job *j = container_of(w, struct job, work);

	j->ran_here = loop_is_here(j->loop);
	atomic_fetch_add(j->n_run, 1);
}

static void job_done(struct work *w)
{
	struct job *j = container_of(w, struct job, work);

	loop_assert_here(j->loop);
	if (++*j->n_done == j->stop_at)
		loop_stop(j->loop);
}

#define N_JOBS 5000

Test(pool, every_work_runs_off_the_loop_and_is_done_once_on_it)
{
	static struct job jobs[N_JOBS];
	struct loop *l = NULL;
	struct pool *p = NULL;
	atomic_int n_run = 0;
	int n_done = 0;

	cr_assert_eq(loop_new(&l, NULL), 0);
	cr_assert_eq(pool_new(l, 4, 0, &p, NULL), 0);
	for (int i = 0; i < N_JOBS; i++) {
		jobs[i] = (struct job){ .work = { .run = job_run,
						  .done = job_done },
					.loop = l,
					.n_run = &n_run,
					.n_done = &n_done,
					.stop_at = N_JOBS };
		cr_assert_eq(pool_submit(p, &jobs[i].work), 0);
	}
	cr_assert_eq(loop_run(l, NULL), 0);
	cr_expect_eq(n_run, N_JOBS);
	cr_expect_eq(n_done, N_JOBS);
	for (int i = 0; i < N_JOBS; i++)
		cr_expect_not(jobs[i].ran_here);
	pool_free(p);
	loop_free(l);
}

struct gate {
	struct work work;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool entered, open;
};

static void gate_run(struct work *w)
{
	struct gate *g = container_of(w, struct gate, work);

	pthread_mutex_lock(&g->lock);
	g->entered = true;
	pthread_cond_broadcast(&g->cond);
	while (!g->open)
		pthread_cond_wait(&g->cond, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void gate_wait_entered(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	while (!g->entered)
		pthread_cond_wait(&g->cond, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->cond);
	pthread_mutex_unlock(&g->lock);
}

Test(pool, a_full_queue_refuses_and_free_runs_what_was_accepted)
{
	struct gate g = { .work.run = gate_run,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .cond = PTHREAD_COND_INITIALIZER };
	struct loop *l = NULL;
	struct pool *p = NULL;
	struct job jobs[3];
	atomic_int n_run = 0;
	int n_done = 0;

	cr_assert_eq(loop_new(&l, NULL), 0);
	cr_assert_eq(pool_new(l, 1, 2, &p, NULL), 0);
	cr_assert_eq(pool_submit(p, &g.work), 0);
	gate_wait_entered(&g);
	for (int i = 0; i < 3; i++) {
		jobs[i] = (struct job){ .work = { .run = job_run,
						  .done = job_done },
					.loop = l,
					.n_run = &n_run,
					.n_done = &n_done };
		cr_expect_eq(pool_submit(p, &jobs[i].work),
			     i < 2 ? 0 : -EAGAIN);
	}
	cr_expect_eq(pool_queued(p), 2);
	gate_open(&g);
	pool_free(p);
	cr_expect_eq(n_run, 2);
	cr_expect_eq(n_done, 0);
	loop_free(l);
	cr_expect_eq(n_done, 2);
}
