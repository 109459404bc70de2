// SPDX-License-Identifier: Apache-2.0
/* Tests what the next process learns of files closed but not stored yet. */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/writers.h"

#define PATIENCE_S 30

TestSuite(later, .timeout = 120);

/* Two commits of one node end together: the first to settle stays between releasing the node's lock
 * and taking the list's, until the second has settled too. */
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
		abort(); /* threads of the mount cannot fail the test */
}

/* Hook of a test, called with the number of each commit, from 0. */
static void (*at_commit)(unsigned int n);

int __wrap_writing_commit(struct writing *w, struct error *err);
int __wrap_writing_commit(struct writing *w, struct error *err)
{
	at_commit(atomic_fetch_add(&n_commits, 1));
	return 0;
}

static void second_awaits_the_first(unsigned int n)
{
	if (n == 1)
		await(&first_is_between);
}

bool __wrap_writing_is_pending(struct writing *w);
bool __wrap_writing_is_pending(struct writing *w)
{
	return false;
}

/* The last call with the node's lock held. */
static void writer_end(struct ckpt_node *n)
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

	at_commit = second_awaits_the_first;
	cr_assert_geq(journal, 0);
	cr_assert_eq(sem_init(&first_is_between, 0, 0), 0);
	cr_assert_eq(sem_init(&second_has_settled, 0, 0), 0);
	cr_assert_eq(nodes_init(&t, journal, &err), 0, "%s", err.msg);
	cr_assert_eq(later_new(writer_end, &l, &err), 0, "%s", err.msg);
	n = node_make(t.root, "f", false);
	cr_assert(n);
	node_looked_up(n);
	(void)pthread_mutex_lock(&n->lock);
	cr_assert(later_commit(l, n));
	cr_assert(later_commit(l, n));
	(void)pthread_mutex_unlock(&n->lock);
	/* The commits may have ended before this wait. */
	(void)nodes_wait_commits(&t, n, true);
	cr_expect_eq(n_settled, 2);
	cr_expect_not(n->is_staged);
	node_put(n);
	later_free(l);
	nodes_fini(&t);
	/* Read the journal like the next process, for which staged files are lost. */
	cr_assert_eq(nodes_init(&t, journal, &err), 0, "%s", err.msg);
	cr_expect_eq(t.n_lost, 0);
	nodes_fini(&t);
	(void)close(journal);
}

/* Programs close files without end: while the first is committed, the second is closed, which
 * stays on its way until nobody waits any more. */
static sem_t waits, waits_no_more;
static _Thread_local sem_t *tells_of_waiting;
static struct later *steady;
static struct ckpt_node *steady_node;

int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	if (tells_of_waiting)
		(void)sem_post(tells_of_waiting);
	tells_of_waiting = NULL;
	return __real_pthread_cond_wait(c, m);
}

static void closes_another(unsigned int n)
{
	if (n == 1) {
		await(&waits_no_more);
		return;
	}
	await(&waits);
	(void)pthread_mutex_lock(&steady_node->lock);
	if (!later_commit(steady, steady_node))
		abort();
	(void)pthread_mutex_unlock(&steady_node->lock);
}

Test(later, is_waited_for_as_far_as_it_was_closed_before)
{
	struct error err = ERROR_INIT;
	struct nodes t;

	at_commit = closes_another;
	n_settled = 1; /* nobody stays between two locks */
	cr_assert_eq(sem_init(&second_has_settled, 0, 0), 0);
	cr_assert_eq(sem_init(&waits, 0, 0), 0);
	cr_assert_eq(sem_init(&waits_no_more, 0, 0), 0);
	cr_assert_eq(nodes_init(&t, -1, &err), 0, "%s", err.msg);
	cr_assert_eq(later_new(writer_end, &steady, &err), 0, "%s", err.msg);
	steady_node = node_make(t.root, "f", false);
	cr_assert(steady_node);
	node_looked_up(steady_node);
	(void)pthread_mutex_lock(&steady_node->lock);
	cr_assert(later_commit(steady, steady_node));
	(void)pthread_mutex_unlock(&steady_node->lock);
	tells_of_waiting = &waits;
	cr_expect(nodes_wait_commits(&t, NULL, true));
	cr_expect_eq(nodes_count_late(&t, steady_node), 1);
	(void)sem_post(&waits_no_more);
	(void)nodes_wait_commits(&t, NULL, true);
	cr_expect_eq(nodes_count_late(&t, steady_node), 0);
	node_put(steady_node);
	later_free(steady);
	nodes_fini(&t);
}

/* More files than threads that commit. */
#define MANY 16u

static sem_t may_commit;

static void waits_to_commit(unsigned int n)
{
	(void)n;
	await(&may_commit);
}

/* A removal does not wait for the commit: programs remove temporary files. */
Test(later, is_not_waited_for_by_a_removal_before_its_turn)
{
	struct error err = ERROR_INIT;
	struct ckpt_node *n[MANY];
	struct later *l = NULL;
	struct nodes t;
	char name[] = "a";

	at_commit = waits_to_commit;
	n_settled = 1; /* nobody stays between two locks */
	cr_assert_eq(sem_init(&second_has_settled, 0, 0), 0);
	cr_assert_eq(sem_init(&may_commit, 0, 0), 0);
	cr_assert_eq(nodes_init(&t, -1, &err), 0, "%s", err.msg);
	cr_assert_eq(later_new(writer_end, &l, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < MANY; i++, name[0]++) {
		n[i] = node_make(t.root, name, false);
		cr_assert(n[i]);
		(void)pthread_mutex_lock(&n[i]->lock);
		cr_assert(later_commit(l, n[i]));
		(void)pthread_mutex_unlock(&n[i]->lock);
	}
	cr_expect_eq(n[MANY - 1]->n_committing, 0);
	cr_expect_not(nodes_wait_commits(&t, n[MANY - 1], false));
	cr_expect_eq(nodes_count_late(&t, n[MANY - 1]), 1);
	for (size_t i = 0; i < MANY; i++)
		(void)sem_post(&may_commit);
	/* The file may be stored by now. */
	(void)nodes_wait_commits(&t, n[MANY - 1], true);
	cr_expect_eq(nodes_count_late(&t, n[MANY - 1]), 0);
	(void)nodes_wait_commits(&t, NULL, true);
	for (size_t i = 0; i < MANY; i++) {
		cr_expect_eq(n[i]->n_committing, 0);
		node_put(n[i]);
	}
	later_free(l);
	nodes_fini(&t);
}
