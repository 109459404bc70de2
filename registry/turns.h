// SPDX-License-Identifier: Apache-2.0
/*
 * Fair queue of calls for threads. Calls of each owner wait in a queue of their own, owners are
 * served in turn, and one owner leaves a quarter of the threads to others. An owner with many or
 * slow calls then delays only its own. Use on the loop thread only.
 */
#ifndef BOOTSEER_REGISTRY_TURNS_H
#define BOOTSEER_REGISTRY_TURNS_H

#include <sys/queue.h>

#include "net/pool.h"

struct turns;
struct turns_owner;

/* A queued call; owned by the submitter, like struct work. */
struct owner_turn {
	void (*run)(
		struct owner_turn *t); /* runs on a pool thread; may block */
	void (*done)(struct owner_turn *t); /* runs on the loop, after `run` */
	/* called by turns_stop() instead of `run` and `done` */
	void (*drop)(struct owner_turn *t);
	/* The members below are private to turns.c. */
	struct turns *turns;
	struct turns_owner *owner;
	struct work work;
	STAILQ_ENTRY(owner_turn) next;
};

/* `pool`, owned by the caller, has `n_threads`, which nothing else uses for long. At most
 * `waiting_max` calls wait for a thread. */
int turns_new(struct pool *pool, size_t n_threads, size_t waiting_max,
	      struct turns **ret, struct error *err) MUST_CHECK;
/* Free `t`; no call may wait or run. */
void turns_free(struct turns *t);

/* Queue a call. `owner` is copied; "": an unknown owner. -EAGAIN: too many calls wait, or
 * turns_stop() was called; -ENOMEM. After a failure none of the callbacks is called. */
int turns_submit(struct turns *t, struct owner_turn *w,
		 const char *owner) MUST_CHECK;
/* Drop all waiting calls and start no other. Running calls finish as usual. */
void turns_stop(struct turns *t);
/* Number of calls that wait for a thread. */
size_t turns_waiting(const struct turns *t);

#endif
