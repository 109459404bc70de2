// SPDX-License-Identifier: Apache-2.0
/*
 * The event loop, on libevent. Posted calls are in a list under a mutex, and an eventfd wakes
 * the loop: libevent's own calls between threads would need locks for every event.
 */
#include "net/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "common/clock.h"

struct loop {
	struct event_base *base;
	struct event *wake_ev;
	int wake_fd;
	_Atomic(pthread_t) thread;
	atomic_bool stopping;

	pthread_mutex_t lock; /* protects the list of posted calls */
	struct loop_call *first;
	struct loop_call **last;
};

static void loop_wake(struct loop *l)
{
	const uint64_t one = 1;

	/* EAGAIN: the counter is full, so the loop will wake anyway. */
	if (write(l->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void run_posted(struct loop *l)
{
	struct loop_call *c, *next;

	pthread_mutex_lock(&l->lock);
	c = l->first;
	l->first = NULL;
	l->last = &l->first;
	pthread_mutex_unlock(&l->lock);

	for (; c; c = next) {
		next = c->next;
		c->fn(c);
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;
	uint64_t n;

	if (read(l->wake_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	run_posted(l);
	if (atomic_load(&l->stopping))
		event_base_loopbreak(l->base);
}

static struct event_base *base_new(void)
{
	struct event_config *cfg = event_config_new();
	struct event_base *base;

	if (!cfg)
		return NULL;
	/* A single thread uses the base, so it needs no lock; timers need finer
	 * grain than a tick. */
	event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK |
					   EVENT_BASE_FLAG_PRECISE_TIMER);
	base = event_base_new_with_config(cfg);
	event_config_free(cfg);
	return base;
}

int loop_new(struct loop **ret, struct error *err)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return error_nomem(err);
	pthread_mutex_init(&l->lock, NULL);
	l->last = &l->first;
	atomic_store(&l->thread, pthread_self());
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0) {
		int rc = error_errno(err, errno, "eventfd");

		loop_free(l);
		return rc;
	}
	l->base = base_new();
	if (l->base)
		l->wake_ev = event_new(l->base, l->wake_fd,
				       EV_READ | EV_PERSIST, on_wake, l);
	if (!l->wake_ev || event_add(l->wake_ev, NULL) != 0) {
		loop_free(l);
		return error_set(err, ENOMEM, "cannot create the event loop");
	}
	*ret = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	while (l->first)
		run_posted(l);
	if (l->wake_ev)
		event_free(l->wake_ev);
	if (l->base) {
		/* A closed connection with a deferred call is freed by that call, so run it:
		 * event_base_free() would drop it. */
		(void)event_base_loop(l->base, EVLOOP_NONBLOCK);
		event_base_free(l->base);
	}
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

int loop_run(struct loop *l, struct error *err)
{
	atomic_store(&l->thread, pthread_self());
	if (!atomic_load(&l->stopping) &&
	    event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY) < 0)
		return error_set(err, EIO, "the event loop failed");
	atomic_store(&l->stopping, false);
	return 0;
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stopping, true);
	loop_wake(l);
}

bool loop_is_here(const struct loop *l)
{
	return pthread_equal(atomic_load(&l->thread), pthread_self());
}

void loop_assert_here(const struct loop *l)
{
	if (!loop_is_here(l))
		abort();
}

struct event_base *loop_event_base(struct loop *l)
{
	return l->base;
}

void loop_post(struct loop *l, struct loop_call *c)
{
	bool was_empty;

	c->next = NULL;
	/* Write the eventfd with the lock held, so that the loop cannot run this call, and
	 * its owner free the loop, before the write. */
	pthread_mutex_lock(&l->lock);
	was_empty = !l->first;
	*l->last = c;
	l->last = &c->next;
	if (was_empty)
		loop_wake(l);
	pthread_mutex_unlock(&l->lock);
}

static short to_event(unsigned int events)
{
	return (short)((events & LOOP_READ ? EV_READ : 0) |
		       (events & LOOP_WRITE ? EV_WRITE : 0) |
		       (events & LOOP_CLOSED ? EV_CLOSED : 0) | EV_PERSIST);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct loop_watch *w = arg;

	w->fn(w, (what & EV_READ ? LOOP_READ : 0) |
			 (what & EV_WRITE ? LOOP_WRITE : 0) |
			 (what & EV_CLOSED ? LOOP_CLOSED : 0));
}

int loop_watch_start(struct loop *l, struct loop_watch *w, int fd,
		     unsigned int events, struct error *err)
{
	loop_assert_here(l);
	w->ev = event_new(l->base, fd, to_event(events), on_ready, w);
	if (!w->ev)
		return error_nomem(err);
	w->loop = l;
	w->fd = fd;
	w->events = events;
	if (events && event_add(w->ev, NULL) != 0) {
		int rc = error_set(err, EIO, "cannot watch descriptor %d", fd);

		loop_watch_stop(w);
		return rc;
	}
	return 0;
}

int loop_watch_set(struct loop_watch *w, unsigned int events)
{
	loop_assert_here(w->loop);
	if (events == w->events)
		return 0;
	event_del(w->ev);
	w->events = events;
	if (event_assign(w->ev, w->loop->base, w->fd, to_event(events),
			 on_ready, w) != 0)
		return -EIO;
	if (events && event_add(w->ev, NULL) != 0)
		return -EIO;
	return 0;
}

void loop_watch_stop(struct loop_watch *w)
{
	if (!w->ev)
		return;
	loop_assert_here(w->loop);
	event_free(w->ev);
	w->ev = NULL;
	w->loop = NULL;
	w->events = 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *t = arg;

	t->fn(t);
}

int loop_timer_start(struct loop *l, struct loop_timer *t, int64_t delay_ns,
		     struct error *err)
{
	struct timeval tv;

	loop_assert_here(l);
	if (delay_ns < 0)
		delay_ns = 0;
	tv.tv_sec = delay_ns / NS_PER_S;
	tv.tv_usec = (delay_ns % NS_PER_S) / 1000;
	if (!t->ev)
		t->ev = event_new(l->base, -1, EV_TIMEOUT, on_timer, t);
	if (!t->ev || event_add(t->ev, &tv) != 0)
		return error_set(err, ENOMEM, "cannot start a timer");
	return 0;
}

void loop_timer_stop(struct loop_timer *t)
{
	if (!t->ev)
		return;
	event_free(t->ev);
	t->ev = NULL;
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct loop_signal *s = arg;

	s->fn(s, (int)signo);
}

int loop_signal_start(struct loop *l, struct loop_signal *s, int signo,
		      struct error *err)
{
	loop_assert_here(l);
	s->ev = event_new(l->base, signo, EV_SIGNAL | EV_PERSIST, on_signal, s);
	if (!s->ev)
		return error_nomem(err);
	if (event_add(s->ev, NULL) != 0) {
		loop_signal_stop(s);
		return error_set(err, EIO, "cannot handle signal %d", signo);
	}
	return 0;
}

void loop_signal_stop(struct loop_signal *s)
{
	if (!s->ev)
		return;
	event_free(s->ev);
	s->ev = NULL;
}
