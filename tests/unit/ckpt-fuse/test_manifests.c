// SPDX-License-Identifier: Apache-2.0
/* Tests that the manifests of many files are read in parallel and their attributes cached. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ckpt-fuse/mount/manifests.h"

#define FILES 40u
#define THREADS 8u

static struct listed *t;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
/* parallel requests that must have begun before any is answered */
static unsigned int n_wanted;
static unsigned int n_asked;
static bool is_missing;

/* Linked with --wrap: the store of this test.  It answers nobody before so many ask. */
int __wrap_ckpt_stat(struct object_store *s, const char *path,
		     struct ckpt_stat *ret, struct error *err);

int __wrap_ckpt_stat(struct object_store *s, const char *path,
		     struct ckpt_stat *ret, struct error *err)
{
	(void)pthread_mutex_lock(&lock);
	n_asked++;
	(void)pthread_cond_broadcast(&came);
	while (n_asked < n_wanted)
		(void)pthread_cond_wait(&came, &lock);
	(void)pthread_mutex_unlock(&lock);
	if (is_missing)
		return error_set(err, ENOENT, "there is no '%s'", path);
	*ret = (struct ckpt_stat){ .is_striped = true, .size = strlen(path) };
	return 0;
}

static void setup(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(listed_new(&t, &err), 0, "%s", err.msg);
}

static void teardown(void)
{
	listed_free(t);
}

TestSuite(manifests, .init = setup, .fini = teardown, .timeout = 60);

/* Cache a list of names f00, f01, ... as of `asked_ns`. */
static void list_files(const char *folder, int64_t asked_ns)
{
	struct listed_list *l = listed_begin(t, folder);

	cr_assert(l);
	for (unsigned int i = 0; i < FILES; i++) {
		char name[16];
		const struct ckpt_entry e = { .name = name,
					      .is_striped = true,
					      .asked_ns = asked_ns };

		(void)snprintf(name, sizeof(name), "f%02u", i);
		listed_add(l, &e);
	}
	listed_end(t, l, 0, asked_ns);
}

static bool has_stat(const char *folder, const char *name)
{
	struct listed_name e;

	/* The list is young: its time is now or in the future. */
	return listed_find(t, folder, name, clock_now_ns(), &e) && e.has_stat;
}

/* A time in the future, so that a list stays young on slow machines. */
static int64_t later(void)
{
	return clock_now_ns() + 3600 * NS_PER_S;
}

Test(manifests, are_asked_for_side_by_side)
{
	struct listed_name e;

	list_files("d", later());
	/* Sequential requests would never be answered. */
	n_wanted = THREADS;
	manifests_ask(NULL, t, "d", "f10", 20);
	cr_expect_eq(n_asked, 20);
	cr_expect(has_stat("d", "f10"));
	cr_expect(has_stat("d", "f29"));
	cr_expect_not(has_stat("d", "f09"));
	cr_expect_not(has_stat("d", "f30"));
	cr_assert(listed_find(t, "d", "f10", clock_now_ns(), &e));
	cr_expect_eq(e.stat.size, strlen("d/f10"));
}

Test(manifests, that_are_known_are_not_asked_for_again)
{
	list_files("", later());
	manifests_ask(NULL, t, "", "f00", 10);
	manifests_ask(NULL, t, "", "f00", 10);
	cr_expect_eq(n_asked, 20);
	cr_expect(has_stat("", "f19"));
	manifests_ask(NULL, t, "", "g", 10);
	manifests_ask(NULL, t, "other", "", 10);
	cr_expect_eq(n_asked, 20);
}

Test(manifests, that_are_not_there_are_not_told)
{
	list_files("d", later());
	is_missing = true;
	manifests_ask(NULL, t, "d", "", FILES);
	cr_expect_eq(n_asked, FILES);
	cr_expect_not(has_stat("d", "f00"));
}

Test(manifests, of_a_list_before_are_not_believed)
{
	const struct ckpt_stat st = { .is_striped = true };
	struct listed_striped f;
	int64_t asked_ns = later();

	list_files("d", asked_ns);
	cr_assert_eq(listed_striped(t, "d", "f05", asked_ns, &f, 1), 1);
	listed_change(t, "d/f05");
	listed_tell(t, "d", &f, &st, asked_ns);
	list_files("d", asked_ns + 1);
	listed_tell(t, "d", &f, &st, asked_ns);
	cr_expect_not(has_stat("d", "f05"));
	f.asked_ns = asked_ns + 1;
	listed_tell(t, "d", &f, &st, asked_ns + 1);
	cr_expect(has_stat("d", "f05"));
	free(f.name);
}

Test(manifests, are_asked_for_at_most_twice_as_many_as_are_looked_up)
{
	size_t n = 0, most = 0;

	list_files("d", later());
	cr_expect_eq(listed_n_striped(t, "d"), 1);
	for (unsigned int i = 0; i < 20; i++) {
		size_t next = listed_n_striped(t, "d");

		/* At most twice as many are read as were looked up. */
		cr_expect_leq(next, 2 * n + 4);
		n += next;
		most = next;
	}
	cr_expect_eq(most, LISTED_STRIPED_MOST);
	cr_expect_eq(listed_n_striped(t, "unknown"), 1);
}
