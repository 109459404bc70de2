// SPDX-License-Identifier: Apache-2.0
/* Tests the limit of folder lists at a time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "ckpt-fuse/mount/folder_lister.h"

#define MANY (2 * LISTS_AT_ONCE)

static struct listed *told;
static struct folder_lister lister;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static unsigned int n_begun;
static unsigned int n_waits; /* threads that wait for a turn */
static bool is_held;         /* running lists do not end */
static bool is_failing;

/* Linked with --wrap: counts the threads that wait for a turn. */
int __real_sem_wait(sem_t *s);
int __wrap_sem_wait(sem_t *s);

int __wrap_sem_wait(sem_t *s)
{
	if (sem_trywait(s) == 0)
		return 0;
	(void)pthread_mutex_lock(&lock);
	n_waits++;
	(void)pthread_cond_broadcast(&came);
	(void)pthread_mutex_unlock(&lock);
	return __real_sem_wait(s);
}

/* Linked with --wrap: counts threads that wait, for which the mount starts others. */
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

/* Linked with --wrap: each folder of the test's store has a file, a folder of the same name, and
 * another folder. */
int __wrap_ckpt_list(struct object_store *s, const char *folder,
		     ckpt_list_fn *fn, void *arg, struct error *err);

int __wrap_ckpt_list(struct object_store *s, const char *folder,
		     ckpt_list_fn *fn, void *arg, struct error *err)
{
	const struct ckpt_entry entries[] = {
		{ .name = "a", .asked_ns = clock_now_ns() },
		{ .name = "a", .is_folder = true },
		{ .name = "b", .is_folder = true },
	};
	int rc = 0;

	(void)pthread_mutex_lock(&lock);
	n_begun++;
	(void)pthread_cond_broadcast(&came);
	while (is_held)
		(void)pthread_cond_wait(&came, &lock);
	(void)pthread_mutex_unlock(&lock);
	for (unsigned int i = 0; i < 3 && rc == 0; i++)
		rc = fn(arg, &entries[i], err);
	return is_failing ? error_set(err, EIO, "no '%s'", folder) : rc;
}

static void setup(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(listed_new(&told, &err), 0, "%s", err.msg);
	folder_lister_init(&lister, NULL, told);
}

static void teardown(void)
{
	folder_lister_fini(&lister);
	listed_free(told);
}

TestSuite(folder_lister, .init = setup, .fini = teardown, .timeout = 60);

Test(folder_lister, gives_what_is_in_a_folder_and_notes_it)
{
	struct folder_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	struct listed_name name;

	cr_assert_eq(folder_lister_list(&lister, "d", &l, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(l.n, 2, "a file hides a folder of its name");
	cr_expect_str_eq(folder_list_name(&l, 0), "a");
	cr_expect_not(folder_list_is_folder(&l, 0));
	cr_expect_str_eq(folder_list_name(&l, 1), "b");
	cr_expect(folder_list_is_folder(&l, 1));
	cr_expect(listed_find(told, "d", "a", clock_now_ns(), &name));
	folder_list_fini(&l);
}

Test(folder_lister, notes_nothing_of_a_list_that_failed)
{
	struct folder_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	struct listed_name name;

	is_failing = true;
	cr_expect_eq(folder_lister_list(&lister, "d", &l, &err), -EIO);
	cr_expect_not(listed_find(told, "d", "a", clock_now_ns(), &name));
	cr_expect_eq(n_away, 0);
	folder_list_fini(&l);
}

static void *list_one(void *arg)
{
	struct folder_list l = { .n = 0 };

	cr_expect_eq(folder_lister_list(&lister, "d", &l, NULL), 0);
	folder_list_fini(&l);
	return arg;
}

/* The number of lists at a time is limited, since each holds all names of its folder. */
Test(folder_lister, makes_only_so_many_lists_at_a_time)
{
	pthread_t threads[MANY];

	is_held = true;
	for (unsigned int i = 0; i < MANY; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, list_one, NULL),
			     0);
	(void)pthread_mutex_lock(&lock);
	while (n_begun + n_waits < MANY)
		(void)pthread_cond_wait(&came, &lock);
	cr_expect_eq(n_begun, LISTS_AT_ONCE);
	/* The mount was told to start other threads. */
	cr_expect_eq(n_away, MANY);
	is_held = false;
	(void)pthread_cond_broadcast(&came);
	(void)pthread_mutex_unlock(&lock);
	for (unsigned int i = 0; i < MANY; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_expect_eq(n_begun, MANY);
	cr_expect_eq(n_away, 0);
}
