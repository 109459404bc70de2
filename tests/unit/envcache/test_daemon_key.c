// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>

#include "envcache/key.h"

TestSuite(env_daemon_key, .timeout = 60);

static char *paths[] = { (char[]){ "/run/d/x.dump" } };
static const struct env_targets target = { .paths = paths, .n = 1 };

static struct env_key key_of(const struct env_daemon_spec *spec,
			     const struct env_targets *t)
{
	struct error err = ERROR_INIT;
	struct env_key k;

	cr_assert_eq(env_daemon_key_make(spec, t, &k, &err), 0, "%s", err.msg);
	return k;
}

static const struct env_item *find(const struct env_key *k, const char *kind)
{
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->items[i].kind, kind) == 0)
			return &k->items[i];
	return NULL;
}

Test(env_daemon_key, is_of_the_daemon_its_environment_and_what_restores_it)
{
	static const char *const kinds[] = { "criu",        "daemon",
					     "environment", "kernel",
					     "processor",   "snapshot",
					     "target" };
	struct digest e = { .b = { 1 } }, s = { .b = { 2 } };
	const struct env_daemon_spec spec = { &e, &s, "x", "run --token T",
					      "4.2.1" };
	struct env_key k = key_of(&spec, &target);
	struct utsname u;

	cr_assert_eq(k.n, ARRAY_SIZE(kinds));
	for (size_t i = 0; i < k.n; i++)
		cr_assert_str_eq(k.items[i].kind, kinds[i]);
	cr_assert_eq(uname(&u), 0);
	cr_assert_str_eq(find(&k, "kernel")->shown, u.release);
	cr_assert_str_eq(find(&k, "criu")->shown, "4.2.1");
	/* A command may contain a secret, so stores only get its digest. */
	cr_assert(!env_kind_is_public("daemon"));
	cr_assert(env_kind_is_public("kernel"));
	env_key_fini(&k);
}

Test(env_daemon_key, is_another_for_each_thing_that_differs)
{
	char *other[] = { (char[]){ "/run/e/x.dump" } };
	const struct env_targets elsewhere = { .paths = other, .n = 1 };
	struct digest e = { .b = { 1 } }, s = { .b = { 2 } };
	const struct env_daemon_spec spec[] = {
		{ &e, &s, "x", "run", "4.2.1" },
		{ &e, &s, "x", "run", "4.2.1" },
		{ &s, &s, "x", "run", "4.2.1" },
		{ &e, &e, "x", "run", "4.2.1" },
		{ &e, &s, "y", "run", "4.2.1" },
		{ &e, &s, "x", "ran", "4.2.1" },
		{ &e, &s, "x", "run", "4.2" },
	};
	struct env_key first = key_of(&spec[0], &target), k;

	for (size_t i = 1; i < ARRAY_SIZE(spec); i++) {
		k = key_of(&spec[i], &target);
		cr_assert_eq(digest_equal(&k.digest, &first.digest), i == 1);
		env_key_fini(&k);
	}
	k = key_of(&spec[0], &elsewhere);
	cr_assert(!digest_equal(&k.digest, &first.digest));
	env_key_fini(&k);
	env_key_fini(&first);
}
