// SPDX-License-Identifier: Apache-2.0
#include "envcache/base.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <time.h>

#include "common/clock.h"
#include "env_fixture.h"
#include "tests/unit/pause.h"

TestSuite(env_base, .init = env_setup, .fini = env_teardown, .timeout = 60);

/* how far the wrapped clock is ahead, in seconds */
static int64_t ahead_s;

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	int rc = __real_clock_gettime(id, ret);

	ret->tv_sec += __atomic_load_n(&ahead_s, __ATOMIC_SEQ_CST);
	return rc;
}

/* Make a snapshot of the folder's present state. */
static void make_snapshot(struct env_snapshot *ret)
{
	char *command[] = { (char *)(uintptr_t) "true", NULL };
	const struct env_spec spec = { .command = command };
	AUTO(env_scan) s = env_look();
	struct error err = ERROR_INIT;

	*ret = (struct env_snapshot){ .has_after = false };
	cr_assert_eq(env_key_make(&spec, &env_dir_targets, s, &ret->key, &err),
		     0, "%s", err.msg);
}

/* Begin a check, and wait for its end. */
static struct base_look *check_base_now(const struct env_snapshot *snap)
{
	static struct base_look l;

	l.snap = snap;
	l.targets = &env_dir_targets;
	atomic_store(&l.ended_ns, 0);
	base_look_begin(&l);
	cr_assert(l.thread.is_started);
	while (!atomic_load(&l.ended_ns))
		unit_pause();
	return &l;
}

Test(env_base, a_look_is_believed_for_a_second_and_no_longer)
{
	struct env_snapshot snap;
	struct error err = ERROR_INIT;
	struct base_look *l;

	env_write("file", "1");
	make_snapshot(&snap);
	l = check_base_now(&snap);
	env_write("file", "another");
	cr_expect_eq(base_look_end(l, &err), 0, "%s", err.msg);
	env_write("file", "1");
	env_key_fini(&snap.key);
	make_snapshot(&snap);
	l = check_base_now(&snap);
	env_write("file", "another");
	__atomic_store_n(&ahead_s, 2, __ATOMIC_SEQ_CST);
	cr_expect_eq(base_look_end(l, &err), -ESTALE);
	env_key_fini(&snap.key);
}

Test(env_base, what_a_look_saw_is_said_and_one_that_was_not_begun_is_taken)
{
	struct env_snapshot snap;
	struct base_look not_begun = { .snap = &snap,
				       .targets = &env_dir_targets };
	struct error err = ERROR_INIT;

	env_write("file", "1");
	make_snapshot(&snap);
	cr_expect_eq(base_look_end(&not_begun, &err), 0, "%s", err.msg);
	env_write("file", "another");
	cr_expect_eq(base_look_end(check_base_now(&snap), &err), -ESTALE);
	cr_expect(err.msg[0]);
	cr_expect_eq(base_look_end(&not_begun, NULL), -ESTALE);
	base_look_drop(check_base_now(&snap));
	env_key_fini(&snap.key);
}
