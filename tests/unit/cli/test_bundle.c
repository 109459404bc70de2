// SPDX-License-Identifier: Apache-2.0
#include "cli/bundle.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(bundle, .timeout = 120);

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
			     "\n"
			     "broken:x\n"
			     "far:x:4294967295:1::/far:/bin/sh\n"
			     "ann:x:1000:1001:Ann:/home/ann:/bin/sh";
static const char group[] = "root:x:0:\nann:x:1001:\nmore:x:44:bob,ann\n"
			    "not:x:45:annie\nalso:x:46:ann";

static int find_bundle_user(const char *who, struct bundle_user *u)
{
	struct error err = ERROR_INIT;

	return bundle_user_find(who, passwd, group, u, &err);
}

Test(bundle, runs_as_root_when_the_image_says_nothing)
{
	struct bundle_user u;

	cr_assert_eq(find_bundle_user("", &u), 0);
	cr_expect(u.uid == 0 && u.gid == 0 && u.n_groups == 0);
	cr_expect_str_eq(u.home, "/root");
}

Test(bundle, knows_users_by_name_and_number_with_their_groups)
{
	static const char *const who[] = { "ann", "1000" };

	for (size_t i = 0; i < 2; i++) {
		struct bundle_user u;

		cr_assert_eq(find_bundle_user(who[i], &u), 0);
		cr_expect(u.uid == 1000 && u.gid == 1001);
		cr_assert_eq(u.n_groups, 2);
		cr_expect(u.groups[0] == 44 && u.groups[1] == 46);
		cr_expect_str_eq(u.home, "/home/ann");
	}
}

Test(bundle, takes_a_group_that_is_named)
{
	struct bundle_user u;

	cr_assert_eq(find_bundle_user("ann:more", &u), 0);
	cr_expect(u.uid == 1000 && u.gid == 44 && u.n_groups == 0);
	cr_assert_eq(find_bundle_user("77:88", &u), 0);
	cr_expect(u.uid == 77 && u.gid == 88);
	cr_expect_eq(bundle_user_find("5:6", NULL, NULL, &u, NULL), 0);
	cr_expect(u.uid == 5 && u.gid == 6);
}

Test(bundle, refuses_names_and_numbers_that_are_none)
{
	struct bundle_user u;

	cr_expect_eq(find_bundle_user("eve", &u), -ENOENT);
	cr_expect_eq(find_bundle_user("ann:eve", &u), -ENOENT);
	cr_expect_eq(find_bundle_user("broken", &u), -ENOENT);
	cr_expect_eq(find_bundle_user("far", &u), -ENOENT);
	cr_expect_eq(find_bundle_user("4294967295", &u), -ENOENT);
	cr_expect_eq(find_bundle_user("99999999999999999999", &u), -ENOENT);
	cr_expect_eq(find_bundle_user("-1", &u), -ENOENT);
}

static json_t *make_bundle_text(const char *image, char *const *command,
				char *const *env)
{
	struct error err = ERROR_INIT;
	struct bundle_user user = { .uid = 7, .home = "/h" };
	json_t *config = json_loads(image, 0, NULL), *all = NULL;
	const struct bundle_spec spec = {
		.image = config,
		.command = command,
		.env = env,
		.user = &user,
		.rootfs = "/r",
	};

	cr_assert_not_null(config);
	(void)!bundle_make(&spec, &all, &err);
	json_decref(config);
	return all;
}

static const char *text(const json_t *all, const char *list, size_t i)
{
	return json_string_value(
		json_array_get(json_object_get(json_object_get(all, "process"),
					       list),
			       i));
}

Test(bundle, starts_entry_point_and_command_or_what_is_given_instead)
{
	static const char image[] = "{\"config\":{\"Entrypoint\":[\"/e\"],"
				    "\"Cmd\":[\"c\"],\"Env\":null}}";
	char *command[] = { (char[]){ "/other" }, NULL };
	json_t *all = make_bundle_text(image, NULL, NULL);

	cr_assert_not_null(all);
	cr_expect_str_eq(text(all, "args", 0), "/e");
	cr_expect_str_eq(text(all, "args", 1), "c");
	cr_expect_null(text(all, "args", 2));
	json_decref(all);
	all = make_bundle_text(image, command, NULL);
	cr_assert_not_null(all);
	cr_expect_str_eq(text(all, "args", 0), "/other");
	cr_expect_null(text(all, "args", 1));
	json_decref(all);
}

Test(bundle, has_one_value_for_each_variable)
{
	char *env[] = { (char[]){ "A=3" }, (char[]){ "HOME=/mine" }, NULL };
	char *command[] = { (char[]){ "x" }, NULL };
	json_t *all = make_bundle_text(
		"{\"config\":{\"Env\":[\"A=1\",\"AB=2\",\"A=2\"]}}", command,
		env);

	cr_assert_not_null(all);
	cr_expect_eq(strncmp(text(all, "env", 0), "PATH=", 5), 0);
	cr_expect_str_eq(text(all, "env", 1), "HOME=/mine");
	cr_expect_str_eq(text(all, "env", 2), "A=3");
	cr_expect_str_eq(text(all, "env", 3), "AB=2");
	cr_expect_null(text(all, "env", 4));
	json_decref(all);
}

Test(bundle, refuses_what_cannot_be_started)
{
	char *bad[] = { (char[]){ "\xff" }, NULL };

	cr_expect_null(make_bundle_text("{\"config\":{}}", NULL, NULL));
	cr_expect_null(make_bundle_text("{}", NULL, NULL));
	cr_expect_null(make_bundle_text("{}", bad, NULL));
}
