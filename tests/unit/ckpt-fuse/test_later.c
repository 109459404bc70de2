// SPDX-License-Identifier: Apache-2.0
/* What a successor is told of files that were closed and are on their way. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/ops.h"

#define PATIENCE_S 30

TestSuite(later, .timeout = 120);

/* Of two commits of one node the first to settle stays between its two locks, the node's
 * and the list's, until the second has settled, too. */
static sem_t first_is_between, second_has_settled;
static atomic_uint n_commits, n_settled;
static _Thread_local pthread_mutex_t *stays_after; /* the next unlock of it */

static void await(sem_t *s)
{
	struct timespec until;
	int rc;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	do
		rc = sem_timedwait(s, &until);
	while (rc < 0 && errno == EINTR);
	if (rc < 0)
		abort(); /* threads of the mount have no test to fail */
}

int __wrap_writing_commit(struct writing *w, struct error *err);
int __wrap_writing_commit(struct writing *w, struct error *err)
{
	if (atomic_fetch_add(&n_commits, 1) == 1)
		await(&first_is_between);
	return 0;
}

bool __wrap_writing_is_dirty(struct writing *w);
bool __wrap_writing_is_dirty(struct writing *w)
{
	return false;
}

/* The last that is done with the node's lock. */
void __wrap_ops_end_writing(struct nodes *t, struct ckpt_node *n);
void __wrap_ops_end_writing(struct nodes *t, struct ckpt_node *n)
{
	n->n_writers--;
	if (atomic_fetch_add(&n_settled, 1) == 0)
		stays_after = &n->lock;
	else
		(void)sem_post(&second_has_settled);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	int rc = __real_pthread_mutex_unlock(m);

	if (m == stays_after) {
		stays_after = NULL;
		(void)sem_post(&first_is_between);
		await(&second_has_settled);
	}
	return rc;
}

Test(later, has_no_file_lost_whose_closes_ended_together)
{
	struct error err = ERROR_INIT;
	int journal = memfd_create("test", MFD_CLOEXEC);
	struct later *l = NULL;
	struct ckpt_node *n;
	struct nodes t;

	cr_assert_geq(journal, 0);
	cr_assert_eq(sem_init(&first_is_between, 0, 0), 0);
	cr_assert_eq(sem_init(&second_has_settled, 0, 0), 0);
	cr_assert_eq(nodes_init(&t, journal, &err), 0, "%s", err.msg);
	cr_assert_eq(later_new(&t, &l, &err), 0, "%s", err.msg);
	n = node_make(&t, t.root, "f", false);
	cr_assert(n);
	node_looked_up(&t, n);
	(void)pthread_mutex_lock(&n->lock);
	cr_assert(later_commit(l, n));
	cr_assert(later_commit(l, n));
	(void)pthread_mutex_unlock(&n->lock);
	cr_expect(later_settle(l, n));
	cr_expect_eq(n_settled, 2);
	cr_expect_not(n->is_staged);
	node_put(&t, n);
	later_free(l);
	nodes_fini(&t);
	/* As a successor reads it, for which what was staged is lost. */
	cr_assert_eq(nodes_init(&t, journal, &err), 0, "%s", err.msg);
	cr_expect_eq(t.n_lost, 0);
	nodes_fini(&t);
	(void)close(journal);
}
