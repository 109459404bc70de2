// SPDX-License-Identifier: Apache-2.0
/* Pools of threads for work that blocks. */
#ifndef BOOTSEER_NET_POOL_H
#define BOOTSEER_NET_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "net/loop.h"

struct pool;

/*
 * A task for the pool. The submitter embeds and owns it, and must keep it until
 * `done` was called; it may be submitted again, or freed, from within `done`.
 */
struct work {
	void (*run)(struct work *w); /* on a thread of the pool; may block */
	void (*done)(
		struct work *w); /* on the loop, exactly once; may be NULL */
	struct pool *pool;       /* used by the pool, as the members below */
	struct work *next;
	int64_t queued_ns;
	struct loop_call call;
};

/*
 * Start `n_threads` threads; `done` of their works is called on `loop`. At most `max_queued`
 * works wait for a thread; 0: no limit, for callers that limit the works themselves. The threads
 * block all signals.
 */
int pool_new(struct loop *loop, size_t n_threads, size_t max_queued,
	     struct pool **ret, struct error *err) MUST_CHECK;

/*
 * As pool_new(), for any number of works without `done`. Threads are started when needed, since
 * most stores of a command get few requests.
 */
int pool_new_lazy(size_t max_threads, struct pool **ret,
		  struct error *err) MUST_CHECK;

/*
 * Wait until every submitted work has run and end the threads.  Their `done` may
 * still be posted: they are called by loop_run(), or at the latest by loop_free(),
 * which must come after this.
 */
void pool_free(struct pool *p);
DEFINE_AUTO(pool)

/*
 * Have w->run called on a thread of the pool, first come first served, and w->done
 * on the loop after it.  Any thread.  -EAGAIN: the queue is full, or a lazy pool has no
 * thread and got none; `w` was not taken.
 */
int pool_submit(struct pool *p, struct work *w) MUST_CHECK;
/* As pool_submit(), but before all waiting works: for work that was delayed once already. */
int pool_submit_first(struct pool *p, struct work *w) MUST_CHECK;

/* Number of works that wait for a thread now. Any thread. */
size_t pool_queued(struct pool *p);
/* Total time that works waited for a thread. Any thread. */
uint64_t pool_waited_ns(struct pool *p);

#endif
