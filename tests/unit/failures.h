// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that cannot be started, and memory that is short: the n-th call fails, for
 * each n, until a round needs fewer. For programs that are linked with failures_args,
 * which has their calls come here; those of shared libraries do not, unless a test
 * hands them its functions.
 *
 *	struct failures f = { .kind = FAIL_THREAD };
 *
 *	while (failures_next(&f)) {
 *		int rc = pool_new(...);
 *
 *		if (failures_hit(&f))
 *			cr_expect_eq(rc, -EAGAIN);
 *		else
 *			cr_expect_eq(rc, 0);
 *		pool_free(...);
 *	}
 */
#ifndef BOOTSEER_TESTS_UNIT_FAILURES_H
#define BOOTSEER_TESTS_UNIT_FAILURES_H

#include <stdbool.h>

/* Calls of the thread that calls failures_next() are counted, and no others. */
enum failure_kind {
	FAIL_THREAD,   /* pthread_create(): EAGAIN */
	FAIL_MEMORY,   /* malloc(), calloc(), realloc(), strdup(): NULL */
	FAILURE_KINDS, /* of what everything asks for */
	FAIL_MAP = FAILURE_KINDS, /* mmap(): ENOMEM */
};

struct failures {
	enum failure_kind kind;
	unsigned int n;     /* the call that fails in this round */
	unsigned int n_fds; /* open before the first round */
};

/* Begin a round.  false: in the one before no call failed, so it was the last.  A round
 * that left a descriptor open fails the test. */
bool failures_next(struct failures *f);

/* Descriptors of this process that are open, and one. */
unsigned int failures_count_fds(void);

/* From now on nothing fails; did a call in this round? */
bool failures_hit(struct failures *f);

#endif
