// SPDX-License-Identifier: Apache-2.0
#include "common/side_by_side.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/thread.h"

struct sides {
	side_fn *fn;
	void *arg;
	pthread_mutex_t lock; /* protects rc and err */
	int rc;
	struct error *err;
	atomic_uint next;
	unsigned int n;
};

static void side_by_side_fail(struct sides *s, int rc, const struct error *err)
{
	(void)pthread_mutex_lock(&s->lock);
	if (s->rc == 0) {
		s->rc = rc;
		if (s->err)
			*s->err = *err;
	}
	(void)pthread_mutex_unlock(&s->lock);
}

static void *side_main(void *arg)
{
	struct sides *s = arg;
	unsigned int i;

	while ((i = atomic_fetch_add(&s->next, 1)) < s->n) {
		struct error err = ERROR_INIT;
		int rc = s->fn(s->arg, i, &err);

		if (rc < 0)
			side_by_side_fail(s, rc, &err);
	}
	return NULL;
}

int side_by_side(unsigned int n, side_fn *fn, void *arg, struct error *err)
{
	struct sides s = { .fn = fn, .arg = arg, .err = err, .n = n };
	struct thread threads[SIDES_MAX];
	unsigned int n_threads = 0;

	if (n > SIDES_MAX)
		return error_set(err, EINVAL, "%u threads are too many", n);
	(void)pthread_mutex_init(&s.lock, NULL);
	while (n_threads + 1 < n &&
	       thread_start(&threads[n_threads], side_main, &s, NULL) == 0)
		n_threads++;
	(void)side_main(&s); /* the calling thread works too */
	while (n_threads)
		thread_join(&threads[--n_threads]);
	(void)pthread_mutex_destroy(&s.lock);
	return s.rc;
}
