// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "net/loop.h"

TestSuite(loop, .timeout = 120);

static struct loop *new_loop(void)
{
	struct loop *l = NULL;

	cr_assert_eq(loop_new(&l, NULL), 0);
	return l;
}

static void run(struct loop *l)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(loop_run(l, &err), 0, "%s", err.msg);
}

struct counted {
	struct loop_call call;
	struct loop *loop;
	int *n;
	int stop_at;
	int seen_as;
};

static void count_call(struct loop_call *c)
{
	struct counted *k = container_of(c, struct counted, call);

	loop_assert_here(k->loop);
	k->seen_as = ++*k->n;
	if (*k->n == k->stop_at)
		loop_stop(k->loop);
}

Test(loop, posted_calls_run_once_each_in_order)
{
	AUTO(loop) l = new_loop();
	struct counted calls[100];
	int n = 0;

	for (int i = 0; i < 100; i++) {
		calls[i] = (struct counted){ .call.fn = count_call,
					     .loop = l,
					     .n = &n,
					     .stop_at = 100 };
		loop_post(l, &calls[i].call);
	}
	run(l);
	for (int i = 0; i < 100; i++)
		cr_expect_eq(calls[i].seen_as, i + 1);
}

#define N_POSTERS 4
#define N_EACH 2000

struct poster {
	pthread_t thread;
	struct counted calls[N_EACH];
};

static void *post_all(void *arg)
{
	struct poster *p = arg;

	for (int i = 0; i < N_EACH; i++)
		loop_post(p->calls[i].loop, &p->calls[i].call);
	return NULL;
}

Test(loop, no_call_is_lost_when_several_threads_post)
{
	static struct poster posters[N_POSTERS];
	AUTO(loop) l = new_loop();
	int n = 0;

	for (int i = 0; i < N_POSTERS; i++) {
		for (int k = 0; k < N_EACH; k++)
			posters[i].calls[k] =
				(struct counted){ .call.fn = count_call,
						  .loop = l,
						  .n = &n,
						  .stop_at =
							  N_POSTERS * N_EACH };
		cr_assert_eq(pthread_create(&posters[i].thread, NULL, post_all,
					    &posters[i]),
			     0);
	}
	run(l);
	for (int i = 0; i < N_POSTERS; i++)
		pthread_join(posters[i].thread, NULL);
	cr_expect_eq(n, N_POSTERS * N_EACH);
}

struct repost {
	struct loop_call call;
	struct loop *loop;
	int left;
};

static void post_again(struct loop_call *c)
{
	struct repost *r = container_of(c, struct repost, call);

	if (--r->left > 0)
		loop_post(r->loop, c);
	else
		loop_stop(r->loop);
}

Test(loop, a_call_may_post_itself_again)
{
	AUTO(loop) l = new_loop();
	struct repost r = { .call.fn = post_again, .loop = l, .left = 5 };

	loop_post(l, &r.call);
	run(l);
	cr_expect_eq(r.left, 0);
}

Test(loop, free_runs_what_is_still_posted)
{
	struct loop *l = new_loop();
	int n = 0;
	struct counted c = { .call.fn = count_call, .loop = l, .n = &n };

	loop_post(l, &c.call);
	loop_free(l);
	cr_expect_eq(n, 1);
}

Test(loop, stop_before_run_makes_it_return_at_once)
{
	AUTO(loop) l = new_loop();

	loop_stop(l);
	run(l);
}

struct reader {
	struct loop_watch watch;
	int n_read, n_write;
};

static void on_ready(struct loop_watch *w, unsigned int ready)
{
	struct reader *r = container_of(w, struct reader, watch);
	char byte;

	if (ready & LOOP_READ) {
		cr_expect_eq(read(w->fd, &byte, 1), 1);
		if (++r->n_read == 3)
			cr_expect_eq(loop_watch_set(w, LOOP_WRITE), 0);
	}
	if (ready & LOOP_WRITE) {
		struct loop *l = w->loop;

		r->n_write++;
		loop_watch_stop(w);
		loop_stop(l);
	}
}

Test(loop, a_watch_sees_only_the_events_it_asked_for)
{
	AUTO(loop) l = new_loop();
	struct reader r = { .watch.fn = on_ready };
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	cr_assert_eq(loop_watch_start(l, &r.watch, fds[0], LOOP_READ, NULL), 0);
	cr_assert_eq(write(fds[1], "abc", 3), 3);
	run(l);
	cr_expect_eq(r.n_read, 3);
	cr_expect_eq(r.n_write, 1);
	loop_watch_stop(&r.watch);
	close(fds[0]);
	close(fds[1]);
}

struct ticker {
	struct loop_timer timer;
	struct loop *loop;
	int64_t at;
	int n;
};

static void on_tick(struct loop_timer *t)
{
	struct ticker *k = container_of(t, struct ticker, timer);

	k->n++;
	k->at = clock_now_ns();
	if (k->n < 2)
		cr_expect_eq(loop_timer_start(k->loop, t, 1000000, NULL), 0);
	else
		loop_stop(k->loop);
}

Test(loop, a_timer_fires_once_and_not_before_its_time)
{
	AUTO(loop) l = new_loop();
	struct ticker t = { .timer.fn = on_tick, .loop = l };
	struct ticker never = { .timer.fn = on_tick, .loop = l };
	int64_t start = clock_now_ns();

	cr_assert_eq(loop_timer_start(l, &never.timer, 500000, NULL), 0);
	loop_timer_stop(&never.timer);
	cr_assert_eq(loop_timer_start(l, &t.timer, 2000000, NULL), 0);
	run(l);
	cr_expect_eq(t.n, 2);
	cr_expect_eq(never.n, 0);
	cr_expect_geq(t.at - start, 3000000);
	loop_timer_stop(&t.timer);
}

struct signalled {
	struct loop_signal signal;
	struct loop *loop;
	int signo;
};

static void on_signal(struct loop_signal *s, int signo)
{
	struct signalled *k = container_of(s, struct signalled, signal);

	k->signo = signo;
	loop_stop(k->loop);
}

Test(loop, a_signal_arrives_on_the_loop)
{
	AUTO(loop) l = new_loop();
	struct signalled s = { .signal.fn = on_signal, .loop = l };

	cr_assert_eq(loop_signal_start(l, &s.signal, SIGTERM, NULL), 0);
	cr_assert_eq(kill(getpid(), SIGTERM), 0);
	run(l);
	cr_expect_eq(s.signo, SIGTERM);
	loop_signal_stop(&s.signal);
}
