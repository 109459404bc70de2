// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of prefetching; private to prefetcher.c and prefetch.c.
 *
 *   prefetcher.c  threads, whose turn it is, what makes bulk wait
 *   prefetch.c    the prefetch of one image: what it fetches, and how far it is
 *   proof.c       how far a predicted hot set is believed
 *
 * One lock, prefetcher.lock, guards all of it.  It is a leaf: not held over
 * calls of the device, the configuration's functions or `done`.
 */
#ifndef BOOTSEER_PREFETCHER_PREFETCH_H
#define BOOTSEER_PREFETCHER_PREFETCH_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/thread.h"
#include "prefetcher/limit.h"
#include "prefetcher/order.h"

/* Images at once, each for a turn while others wait: a slow registry does not keep
 * the images of others waiting. */
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
	pthread_mutex_t lock; /* all below */
	pthread_cond_t work;  /* somebody is queued, may go on, or `stop` */
	bool stop;
	struct limit limits[TASKS];
	struct prefetch_queue queue[TASKS];
	int64_t start_ns; /* when a start last asked for the rest */
	struct thread turns;
	unsigned int n_workers;
	struct worker {
		struct prefetcher *p;
		enum task task;
		struct thread thread;
		struct prefetch *now; /* what it does; NULL: nothing */
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
	volatile bool cancel;     /* atomic: the fetcher looks at it */

	/* With the lock: */
	TAILQ_ENTRY(prefetch) queue;
	pthread_cond_t changed; /* more is there, or another state */
	struct order *hot;      /* NULL: there is no trace */
	bool rest;              /* is wanted too */
	bool settle;            /* the rest waits for idle readers ... */
	int64_t held_ns;        /* ... since then; 0: it does not */
	enum task task;         /* what is, or would be, under way */
	/* IDLE, DONE, PAUSED, RETRYING, FAILED, STOPPED; HOT stands for both
	 * tasks. */
	enum prefetch_phase state;
	bool queued, running;
	bool again;           /* a start came: begin anew when this run ends */
	bool yields;          /* `cancel` is for the end of its turn only */
	unsigned int n_turns; /* that ended so since the last start */
	int64_t hot_begun_ns; /* of the first such turn's hot set; 0: not yet */
	int64_t hot_moved_ns; /* when a block of it came last */
	bool requeue;         /* how the run ended: `task` is to follow */
	unsigned int n_stopping; /* who wait for its end */
	bool starved;            /* pressure makes it wait */
	bool needs_room;         /* what it fetches has no place yet */
	int64_t short_ns;      /* since when it has none and memory is short */
	int64_t due_ns;        /* not before */
	int64_t begun_ns;      /* prefetch_start() */
	unsigned int failures; /* in a row, no block between them */
	bool is_retrying; /* the last was one that may pass; no block came since */
	uint64_t blocks_before; /* fetched when it failed last */
	struct error error;

	/* State of a predicted hot set: proof.c. */
	bool is_predicted;
	bool gave_up;            /* for want of proof */
	uint64_t guessed_before; /* fetched_bytes[TASK_HOT] when it began */
	uint64_t
		ahead_bytes; /* of these, by prefetch_ahead(): part of the next one */
	uint64_t proved_bytes; /* of its fetched ones, read when last looked */
	int64_t proved_ns;     /* when that grew last; 0: it has not waited */
	int64_t looked_ns;
	void (*mark_read)(void *arg, uint8_t *bits);

	/* Bits by index of the map; fetched_hot: in the hot set's phase. */
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

/* prefetcher.c; without the lock.  device_list.pause of a prefetch. */
int64_t prefetcher_pause(void *prefetch, uint64_t next_bytes);
/* For how long another image's hot set goes before the rest; 0: none does.  With the
 * lock, as the next. */
int64_t prefetcher_hot_wait(const struct prefetcher *all, int64_t now);
/* For how long the rest of `p` waits for a start that may be under way. */
int64_t prefetcher_settle_wait(const struct prefetcher *all, struct prefetch *p,
			       int64_t idle_ns, int64_t now);
/* Since when no reader wanted anything. */
int64_t prefetcher_idle_ns(const struct prefetcher *all);

/* proof.c; without the lock: nanoseconds that a predicted hot set waits before so many
 * bytes more.  It may give up meanwhile. */
int64_t prefetch_proof_wait(struct prefetch *p, uint64_t next_bytes,
			    int64_t now);

/* prefetch.c; with the lock: what a prefetch begins with. */
enum task prefetch_first_task(const struct prefetch *p);
/* Without the lock: do the task that is its turn. */
int prefetch_run(struct prefetch *p, enum task task, struct error *err);
/* With the lock: it ended so.  True when all that was asked for is there. */
bool prefetch_conclude(struct prefetch *p, enum task task, int rc,
		       const struct error *err);

#endif
