// SPDX-License-Identifier: Apache-2.0
/*
 * A bound on memory that several threads take in large pieces.  Each name has a share of its own,
 * so that the users of one name cannot take all.
 */
#ifndef BOOTSEER_COMMON_MEMORY_GATE_H
#define BOOTSEER_COMMON_MEMORY_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pace.h"

/* While others wait for a claim's memory, the data that it was taken for must arrive at least this
 * fast (bytes a second), measured over each MEMORY_JUDGE_NS of waiting for the data. */
#define MEMORY_LEAST_RATE (UINT64_C(1) << 20)
#define MEMORY_JUDGE_NS INT64_C(10000000000)

struct memory_claim;

struct memory_gate {
	/* If set, replaces the bounds: blocks until no other claim has memory, then this claim may
	 * have any number of bytes.  Its error is returned by memory_claim_take(). */
	int (*turn)(struct memory_claim *c, struct error *err);
	uint64_t most;        /* bound in bytes, of all names together */
	uint64_t most_each;   /* bound in bytes, of each name; no claim
	                       * takes more at once */
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t given;
	struct memory_claim *first; /* claims that have memory, or wait */
	uint64_t used;
};

/* A thread's claim on the gate.  The user sets the first three members and zeroes the rest, which
 * belongs to the gate. */
struct memory_claim {
	struct memory_gate *gate;
	const char *name;  /* borrowed */
	struct pace *pace; /* says whether memory is still wanted, or NULL */

	uint64_t bytes; /* memory that the claim has */
	uint64_t wants;
	uint64_t came;     /* bytes since the rate was last judged */
	int64_t waited_ns; /* time spent waiting for those bytes */
	struct memory_claim *next;
};

void memory_gate_init(struct memory_gate *g, uint64_t most, uint64_t most_each);
void memory_gate_fini(struct memory_gate *g); /* no claim may have memory */

/*
 * Wait until `bytes` fit the bound and the name's share.  The claim must have none yet: two claims
 * that each have some could wait for each other forever.  Any thread.
 *    -EBUSY      the memory was not free within `timeout_ns`
 *    -ECANCELED  soon after the pace said stop
 */
int memory_claim_take(struct memory_claim *c, uint64_t bytes,
		      int64_t timeout_ns, struct error *err) MUST_CHECK;
void memory_claim_give(struct memory_claim *c); /* gives back all of it, if
                                                 * any */

/*
 * Report that `n` bytes of the data arrived after `waited_ns` of waiting for nothing else.
 *    -EBUSY  the data comes slower than MEMORY_LEAST_RATE, and others wait for the memory
 */
int memory_claim_came(struct memory_claim *c, uint64_t n, int64_t waited_ns,
		      struct error *err) MUST_CHECK;

#endif
