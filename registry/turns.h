// SPDX-License-Identifier: Apache-2.0
/*
 * Turns of owners on threads. The works of each owner wait in a line of their own, owners
 * take turns, and one alone leaves a quarter of the threads to others: whoever calls all
 * the time, or calls what takes long, holds up his own calls. All functions are the
 * loop's.
 */
#ifndef BOOTSEER_REGISTRY_TURNS_H
#define BOOTSEER_REGISTRY_TURNS_H

#include <sys/queue.h>

#include "net/pool.h"

struct turns;
struct turns_owner;

/* A work; the submitter's, as struct work is. */
struct owner_turn {
	void (*run)(
		struct owner_turn *t); /* on a thread of the pool; may block */
	void (*done)(struct owner_turn *t); /* on the loop, after it */
	void (*drop)(struct owner_turn *t); /* instead of both: turns_stop() */
	/* The rest is for turns.c. */
	struct turns *turns;
	struct turns_owner *owner;
	struct work work;
	STAILQ_ENTRY(owner_turn) next;
};

/* `pool` has `n_threads`, which nothing else uses for long, and is the caller's; at
 * most `waiting_max` works wait for one. */
int turns_new(struct pool *pool, size_t n_threads, size_t waiting_max,
	      struct turns **ret, struct error *err) MUST_CHECK;
/* No work waits or runs. */
void turns_free(struct turns *t);

/* `owner` is copied; "": nobody who is known.  -EAGAIN: too many wait, or it has
 * stopped; -ENOMEM.  The turn was then not taken. */
int turns_submit(struct turns *t, struct owner_turn *w,
		 const char *owner) MUST_CHECK;
/* Drop what waits; nothing more begins.  What runs is done as ever. */
void turns_stop(struct turns *t);
/* Works that wait for a thread. */
size_t turns_waiting(const struct turns *t);

#endif
