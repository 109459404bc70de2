// SPDX-License-Identifier: Apache-2.0
/* Who walks a tree finds the next folders listed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ckpt-fuse/mount/ahead.h"

#define FOLDERS 30u
#define THREADS 8u
#define NOBODY 1000u
#define EACH 1001u

static struct listed *t;
static struct pool *jobs;
static struct ahead *a;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static unsigned int n_begun, n_ended, n_files;
static unsigned int n_waits;               /* for others to end */
static unsigned int held = NOBODY;         /* whose list does not end */
static unsigned int n_listed[FOLDERS + 1]; /* the last: their parent */

/* Linked with --wrap: time stands still, however slow the machine is. */
static _Atomic int64_t now_ns = 3600 * NS_PER_S;
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	int64_t now = atomic_load(&now_ns);

	*ret = (struct timespec){ .tv_sec = now / NS_PER_S,
				  .tv_nsec = now % NS_PER_S };
	return 0;
}

/* Linked with --wrap: who waits for a list, or a job, is counted. */
int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	if (c != &came) {
		(void)pthread_mutex_lock(&lock);
		n_waits++;
		(void)pthread_cond_broadcast(&came);
		(void)pthread_mutex_unlock(&lock);
	}
	return __real_pthread_cond_wait(c, m);
}

/* Linked with --wrap: threads of the mount that others have to do without. */
static atomic_uint n_away;
void __wrap_session_begin_wait(void);
void __wrap_session_end_wait(void);

void __wrap_session_begin_wait(void)
{
	atomic_fetch_add(&n_away, 1);
}

void __wrap_session_end_wait(void)
{
	atomic_fetch_sub(&n_away, 1);
}

/* Linked with --wrap: the store of this test has FOLDERS folders, in each the same files. */
int __wrap_ckpt_list_short(struct object_store *s, const char *folder,
			   size_t most, ckpt_list_fn *fn, void *arg,
			   struct error *err);

static int tell(ckpt_list_fn *fn, void *arg, char letter, unsigned int n,
		struct error *err)
{
	int rc = 0;

	for (unsigned int i = 0; i < n && rc == 0; i++) {
		char name[16];
		const struct ckpt_entry e = { .name = name,
					      .is_folder = letter == 'd' };

		(void)snprintf(name, sizeof(name), "%c%02u", letter, i);
		rc = fn(arg, &e, err);
	}
	return rc;
}

int __wrap_ckpt_list_short(struct object_store *s, const char *folder,
			   size_t most, ckpt_list_fn *fn, void *arg,
			   struct error *err)
{
	unsigned int i = FOLDERS, n;
	int rc;

	(void)pthread_mutex_lock(&lock);
	n = n_files;
	n_begun++;
	if (*folder)
		i = (unsigned int)strtoul(folder + 1, NULL, 10);
	n_listed[i]++;
	(void)pthread_cond_broadcast(&came);
	while (i == held || held == EACH)
		(void)pthread_cond_wait(&came, &lock);
	(void)pthread_mutex_unlock(&lock);
	rc = *folder ? tell(fn, arg, 'f', n, err)
		     : tell(fn, arg, 'd', FOLDERS, err);
	(void)pthread_mutex_lock(&lock);
	n_ended++;
	(void)pthread_cond_broadcast(&came);
	(void)pthread_mutex_unlock(&lock);
	return rc;
}

static void setup(void)
{
	struct error err = ERROR_INIT;
	struct ahead_config cfg = { .store = NULL };

	cr_assert_eq(listed_new(&t, &err), 0, "%s", err.msg);
	cr_assert_eq(pool_new(NULL, THREADS, 0, &jobs, &err), 0, "%s", err.msg);
	cfg.listed = t;
	cfg.pool = jobs;
	cr_assert_eq(ahead_new(&cfg, &a, &err), 0, "%s", err.msg);
	n_files = 3;
}

static void teardown(void)
{
	pool_free(jobs);
	ahead_free(a);
	listed_free(t);
}

TestSuite(ahead, .init = setup, .fini = teardown, .timeout = 60);

static size_t list(const char *folder)
{
	struct folder_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	size_t n;

	cr_assert_eq(ahead_list(a, folder, &l, &err), 0, "%s", err.msg);
	n = l.n;
	folder_list_fini(&l);
	return n;
}

static void list_nth(unsigned int i)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "d%02u", i);
	cr_expect_eq(list(name), 3, "%s", name);
}

static void wait_begun(unsigned int n)
{
	(void)pthread_mutex_lock(&lock);
	while (n_begun < n)
		(void)pthread_cond_wait(&came, &lock);
	(void)pthread_mutex_unlock(&lock);
}

static void wait_ended(unsigned int n)
{
	(void)pthread_mutex_lock(&lock);
	while (n_ended < n)
		(void)pthread_cond_wait(&came, &lock);
	(void)pthread_mutex_unlock(&lock);
}

/* So many lists have begun, or wait until they may. */
static void wait_settled(unsigned int n)
{
	(void)pthread_mutex_lock(&lock);
	while (n_begun + n_waits < n)
		(void)pthread_cond_wait(&came, &lock);
	(void)pthread_mutex_unlock(&lock);
}

/* Lists that were begun ahead may be made meanwhile, and read the number. */
static void set_files(unsigned int n)
{
	(void)pthread_mutex_lock(&lock);
	n_files = n;
	(void)pthread_mutex_unlock(&lock);
}

static void let_go(void)
{
	(void)pthread_mutex_lock(&lock);
	held = NOBODY;
	(void)pthread_cond_broadcast(&came);
	(void)pthread_mutex_unlock(&lock);
}

static unsigned int listed_times(unsigned int i)
{
	unsigned int n;

	(void)pthread_mutex_lock(&lock);
	n = n_listed[i];
	(void)pthread_mutex_unlock(&lock);
	return n;
}

Test(ahead, a_walk_has_the_next_folders_listed_once_each)
{
	(void)list("");
	for (unsigned int i = 0; i < FOLDERS; i++)
		list_nth(i);
	wait_ended(1 + FOLDERS);
	cr_expect_eq(n_begun, 1 + FOLDERS);
	for (unsigned int i = 0; i < FOLDERS; i++)
		cr_expect_eq(listed_times(i), 1, "d%02u", i);
}

Test(ahead, the_second_folder_in_a_row_begins_one_more)
{
	(void)list("");
	list_nth(0);
	cr_expect_eq(n_begun, 2, "the first alone is no walk");
	list_nth(1);
	wait_begun(4);
	cr_expect_eq(listed_times(2), 1, "it was asked for before anybody did");
}

static void *list_second(void *arg)
{
	list_nth(2);
	return arg;
}

Test(ahead, one_that_is_under_way_is_waited_for)
{
	pthread_t thread;

	(void)list("");
	list_nth(0);
	held = 2;
	list_nth(1);
	wait_begun(4);
	cr_assert_eq(pthread_create(&thread, NULL, list_second, NULL), 0);
	/* It begins the lists of d03 and d04 before it waits. */
	wait_begun(6);
	let_go();
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(listed_times(2), 1);
	cr_expect_eq(n_away, 0);
}

Test(ahead, what_this_mount_changed_since_is_not_told)
{
	(void)list("");
	list_nth(0);
	list_nth(1);
	wait_ended(4);
	listed_change(t, "d02/new");
	set_files(4);
	cr_expect_eq(list("d02"), 4);
}

Test(ahead, what_is_older_than_a_second_is_not_told)
{
	(void)list("");
	list_nth(0);
	list_nth(1);
	wait_ended(4);
	atomic_fetch_add(&now_ns, LISTED_VALID_NS);
	set_files(4);
	cr_expect_eq(list("d02"), 4);
	cr_expect_eq(n_begun, 5, "and such a walk has none ahead");
}

Test(ahead, it_is_told_once)
{
	(void)list("");
	list_nth(0);
	list_nth(1);
	wait_ended(4);
	list_nth(2);
	set_files(4);
	cr_expect_eq(list("d02"), 4, "who lists it again sees what is there");
}

Test(ahead, whoever_lists_folders_in_no_order_has_none_ahead)
{
	(void)list("");
	list_nth(20);
	list_nth(10);
	list_nth(5);
	list_nth(1);
	cr_expect_eq(n_begun, 5);
}

Test(ahead, a_folder_that_was_too_long_lately_is_not_tried)
{
	struct listed_list *l = listed_begin(t, "d02");

	listed_end(t, l, -E2BIG, clock_now_ns());
	(void)list("");
	list_nth(0);
	list_nth(1);
	wait_begun(4);
	cr_expect_eq(listed_times(2), 0);
	cr_expect_eq(listed_times(3), 1);
}

static void *list_one(void *arg)
{
	list_nth(*(const unsigned int *)arg);
	return arg;
}

/* A list has all names of its folder in memory. */
Test(ahead, only_so_many_lists_are_made_at_a_time)
{
	pthread_t threads[2 * LISTS_AT_ONCE];
	unsigned int which[2 * LISTS_AT_ONCE];

	/* The pool has nothing to do here, and would wait for that. */
	pool_free(jobs);
	jobs = NULL;
	n_waits = 0;
	held = EACH;
	for (unsigned int i = 0; i < 2 * LISTS_AT_ONCE; i++) {
		which[i] = i;
		cr_assert_eq(pthread_create(&threads[i], NULL, list_one,
					    &which[i]),
			     0);
	}
	wait_settled(2 * LISTS_AT_ONCE);
	cr_expect_eq(n_begun, LISTS_AT_ONCE);
	/* The mount has threads in their place. */
	cr_expect_eq(n_away, 2 * LISTS_AT_ONCE);
	let_go();
	for (unsigned int i = 0; i < 2 * LISTS_AT_ONCE; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_expect_eq(n_begun, 2 * LISTS_AT_ONCE);
	cr_expect_eq(n_away, 0);
}
