// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of prefetching; private to prefetcher.c and prefetch.c.
 *
 *   prefetcher.c  threads, turns, and reasons for bulk to wait
 *
 *   prefetch.c    the prefetch of one image: what it fetches, and its progress
 *
 *   proof.c       how far a predicted hot set is fetched ahead
 *
 * One lock, prefetcher.lock, guards all of it. It is not held during calls of the device, the
 * configuration's functions or `done`.
 */
#ifndef BOOTSEER_PREFETCHER_PREFETCH_H
#define BOOTSEER_PREFETCHER_PREFETCH_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/thread.h"
#include "prefetcher/limit.h"
#include "prefetcher/order.h"

/* Images fetched at the same time. Each has a turn of limited length while others wait, so
 * that a slow registry does not delay the images of others. */
#define HOT_WORKERS 8u
#define COLD_WORKERS 2u

enum task {
	TASK_HOT,
	TASK_COLD,
	TASKS,
};

TAILQ_HEAD(prefetch_queue, prefetch);

struct prefetcher {
	struct prefetcher_config cfg;
	pthread_mutex_t lock; /* protects all members below */
	/* an image was queued, may go on, or `stop` was set */
	pthread_cond_t work;
	bool stop;
	struct limit limits[TASKS];
	struct prefetch_queue queue[TASKS];
	int64_t start_ns; /* when a start last requested the rest */
	struct thread turns;
	unsigned int n_workers;
	struct worker {
		struct prefetcher *p;
		enum task task;
		struct thread thread;
		struct prefetch *now; /* the prefetch it is running, or NULL */
		int64_t since_ns;
	} workers[HOT_WORKERS + COLD_WORKERS];
};

struct prefetch {
	struct prefetcher *all;
	struct device *dev;
	const struct blockmap *map;
	char *label;
	void (*done)(void *arg);
	void (*failed)(void *arg, const struct error *why, int64_t retry_ns);
	void *arg;
	int (*fetch)(void *fetch_arg, const struct device_list *list,
		     struct error *err);
	void *fetch_arg;
	struct order *rest_order; /* all blocks */
	volatile bool cancel;     /* atomic, as the fetcher reads it */

	/* Protected by the lock: */
	TAILQ_ENTRY(prefetch) queue;
	pthread_cond_t changed; /* a block arrived, or the state changed */
	struct order *hot;      /* NULL: there is no trace */
	bool rest;              /* the rest is wanted too */
	bool settle;            /* the rest waits for idle readers */
	/* since when it waits for that; 0: it does not */
	int64_t held_ns;
	enum task task; /* task that is running or would be next */
	/* IDLE, DONE, PAUSED, RETRYING, FAILED or STOPPED; HOT stands for both tasks. */
	enum prefetch_phase state;
	bool queued, running;
	/* prefetch_start() was called: begin again when this run ends */
	bool again;
	bool yields;          /* `cancel` only ends its turn */
	unsigned int n_turns; /* turns that ended so since the last start */
	/* begin of the first such turn of the hot set; 0: none yet */
	int64_t hot_begun_ns;
	int64_t hot_moved_ns;    /* when a block of it last arrived */
	bool requeue;            /* result of the run: continue with `task` */
	unsigned int n_stopping; /* callers that wait for its end */
	bool starved;            /* waits because of pressure on the node */
	/* its blocks need room in the cache (are not pinned) */
	bool needs_room;
	/* since when damaged blocks wait because memory is short */
	int64_t short_ns;
	int64_t due_ns;   /* do not run before this time */
	int64_t begun_ns; /* time of prefetch_start() */
	/* failures in a row without a block in between */
	unsigned int failures;
	/* the last failure was temporary, and no block has arrived since */
	bool is_retrying;
	uint64_t blocks_before; /* blocks fetched at the last failure */
	struct error error;

	/* State of a predicted hot set: proof.c. */
	bool is_predicted;
	/* it stopped, as readers did not confirm the prediction */
	bool gave_up;
	uint64_t guessed_before; /* fetched_bytes[TASK_HOT] when it began */
	uint64_t
		/* bytes fetched by prefetch_ahead(): part of the next hot set */
		ahead_bytes;
	/* fetched bytes of it that were read, at the last check */
	uint64_t proved_bytes;
	/* when proved_bytes last grew; 0: it has not waited yet */
	int64_t proved_ns;
	int64_t looked_ns;
	void (*mark_read)(void *arg, uint8_t *bits);

	/* Bits by index of the map; is_fetched_hot: fetched for the hot set. */
	uint8_t *is_hot, *is_here, *is_fetched, *is_fetched_hot;
	size_t hot_have;
	uint64_t hot_have_bytes;
	int64_t hot_ns, hot_at_ns, all_ns;
	uint64_t fetched_bytes[TASKS], fetched_blocks[TASKS];
	uint64_t n_pauses, n_failures;
};

/* prefetcher.c; with the lock. */
void prefetcher_enqueue(struct prefetcher *all, struct prefetch *p);
void prefetcher_dequeue(struct prefetcher *all, struct prefetch *p);

/* prefetcher.c; without the lock. Implements device_list.pause for a prefetch. */
int64_t prefetcher_pause(void *prefetch, uint64_t next_bytes);
/* How long the rest must wait for another image's hot set; 0: not at all. Called with the
 * lock, as the next two. */
int64_t prefetcher_hot_wait(const struct prefetcher *all, int64_t now);
/* How long the rest of `p` must wait for starts that may be running. */
int64_t prefetcher_settle_wait(const struct prefetcher *all, struct prefetch *p,
			       int64_t idle_ns, int64_t now);
/* Time since a reader last needed a block. */
int64_t prefetcher_idle_ns(const struct prefetcher *all);

/* proof.c; without the lock: nanoseconds that a predicted hot set must wait before so many
 * more bytes. May also give it up. */
int64_t prefetch_proof_wait(struct prefetch *p, uint64_t next_bytes,
			    int64_t now);

/* prefetch.c; with the lock: the task to begin with. */
enum task prefetch_first_task(const struct prefetch *p);
/* Perform the task. Without the lock. */
int prefetch_run(struct prefetch *p, enum task task, struct error *err);
/* Note the result of a task. True when all that was wanted is on the node. With the lock. */
bool prefetch_conclude(struct prefetch *p, enum task task, int rc,
		       const struct error *err);

#endif
