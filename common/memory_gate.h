// SPDX-License-Identifier: Apache-2.0
/*
 * A bound on memory that several threads ask for in large pieces, with a share of it
 * for each name: whoever uses one name has no more, so that others have the rest.
 */
#ifndef BOOTSEER_COMMON_MEMORY_GATE_H
#define BOOTSEER_COMMON_MEMORY_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pace.h"

/* While others wait for the memory of a claim, what it is used for has to come this
 * fast, in bytes a second; it is judged each time it was waited for this long. */
#define MEMORY_LEAST_RATE (UINT64_C(1) << 20)
#define MEMORY_JUDGE_NS INT64_C(10000000000)

struct memory_claim;

struct memory_gate {
	/* Instead of bounds: waits until this claim may have any bytes, as no other has some
	 * then.  NULL: what follows counts.  An error is that of memory_claim_take(). */
	int (*turn)(struct memory_claim *c, struct error *err);
	uint64_t most;        /* bytes, of all names */
	uint64_t most_each;   /* of one, as many as anybody takes at once */
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t given;
	struct memory_claim *first; /* who have some or wait: a short list */
	uint64_t used;
};

/* A thread's claim on the gate. The user sets the first three members, and the
 * rest to 0. */
struct memory_claim {
	struct memory_gate *gate;
	const char *name;  /* borrowed */
	struct pace *pace; /* whether it is still wanted; NULL: it is */

	uint64_t bytes; /* that it has; the gate's, as the rest */
	uint64_t wants;
	uint64_t came;     /* since it was judged, and how long that was */
	int64_t waited_ns; /* waited for */
	struct memory_claim *next;
};

void memory_gate_init(struct memory_gate *g, uint64_t most, uint64_t most_each);
void memory_gate_fini(struct memory_gate *g); /* with no claim that has some */

/*
 * Wait until `bytes` more are within the bound and the name's share.  The claim may
 * have none: two that have some would wait for each other.  Any thread.
 *   -EBUSY      others had them for all of `timeout_ns`
 *   -ECANCELED  soon after the pace said stop
 */
int memory_claim_take(struct memory_claim *c, uint64_t bytes,
		      int64_t timeout_ns, struct error *err) MUST_CHECK;
void memory_claim_give(struct memory_claim *c); /* all that it has, if any */

/*
 * `n` bytes of what the memory is for came, after `waited_ns` in which they were all
 * that was waited for.
 *   -EBUSY  they come slower than MEMORY_LEAST_RATE, and others wait for the memory
 */
int memory_claim_came(struct memory_claim *c, uint64_t n, int64_t waited_ns,
		      struct error *err) MUST_CHECK;

#endif
