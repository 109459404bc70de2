// SPDX-License-Identifier: Apache-2.0
/*
 * The single thread of a daemon that owns all sockets and timers.
 *
 * Watches, timers, signals and calls are structs that their user embeds and does not move while
 * they are started. All functions must be called on the loop's thread (the thread that made the
 * loop, until another one calls loop_run()), except loop_post() and loop_stop().
 */
#ifndef BOOTSEER_NET_LOOP_H
#define BOOTSEER_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct event;
struct event_base;
struct loop;

int loop_new(struct loop **ret, struct error *err) MUST_CHECK;

/* Runs the calls that are still posted, then releases the loop.  Everything
 * else must have been stopped. */
void loop_free(struct loop *l);
DEFINE_AUTO(loop)

/* Dispatch on this thread until loop_stop(). */
int loop_run(struct loop *l, struct error *err) MUST_CHECK;

/* Make loop_run() return after the handlers of this round, or at once when it
 * starts later.  Any thread. */
void loop_stop(struct loop *l);

/* True on the loop's thread. */
bool loop_is_here(const struct loop *l);

/* Abort when called on another thread: that would be an error in this program, never of
 * input. */
void loop_assert_here(const struct loop *l);

/* For libevent's own objects on the base (bufferevents). */
struct event_base *loop_event_base(struct loop *l);

/* ---- calls: from any thread to the loop ---- */

struct loop_call {
	void (*fn)(struct loop_call *c);
	struct loop_call *next; /* used by the loop */
};

/*
 * Have c->fn(c) called once on the loop, in the order of posting.  Never fails
 * and never allocates; `c` may be reused or freed from within fn.  Any thread; on
 * the loop itself the call comes later, never inside loop_post().
 */
void loop_post(struct loop *l, struct loop_call *c);

/* ---- file descriptors ---- */

#define LOOP_READ 1u
#define LOOP_WRITE 2u
/* the other side has ended its sending, even if bytes are unread */
#define LOOP_CLOSED 4u

struct loop_watch {
	void (*fn)(struct loop_watch *w, unsigned int ready);
	/* used by the loop, as the members below; NULL when stopped */
	struct loop *loop;
	struct event *ev;
	unsigned int events;
	int fd;
};

/*
 * Call w->fn (set by the caller) whenever `fd` is ready for one of `events`
 * (level-triggered).  `fd` stays the caller's and open until loop_watch_stop().
 */
int loop_watch_start(struct loop *l, struct loop_watch *w, int fd,
		     unsigned int events, struct error *err) MUST_CHECK;

/* Change the events to wait for; 0 pauses. Cheap when nothing changes. */
int loop_watch_set(struct loop_watch *w, unsigned int events) MUST_CHECK;

/* A stopped watch is not called any more.  Stopping twice is no error; a zeroed
 * struct counts as stopped. */
void loop_watch_stop(struct loop_watch *w);

/* ---- timers ---- */

struct loop_timer {
	void (*fn)(struct loop_timer *t);
	struct event *ev; /* the loop's */
};

/* Call t->fn once after `delay_ns`; restarts a running timer. */
int loop_timer_start(struct loop *l, struct loop_timer *t, int64_t delay_ns,
		     struct error *err) MUST_CHECK;
void loop_timer_stop(struct loop_timer *t);

/* ---- signals ---- */

struct loop_signal {
	void (*fn)(struct loop_signal *s, int signo);
	struct event *ev; /* the loop's */
};

/* Call s->fn on the loop when the process gets `signo`. */
int loop_signal_start(struct loop *l, struct loop_signal *s, int signo,
		      struct error *err) MUST_CHECK;
void loop_signal_stop(struct loop_signal *s);

#endif
