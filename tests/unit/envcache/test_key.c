// SPDX-License-Identifier: Apache-2.0
#include "envcache/key.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include "common/buf.h"
#include "env_fixture.h"
#include "envcache/key.h"

TestSuite(env_key, .init = env_setup, .fini = env_teardown, .timeout = 60);

static struct digest key_of(const struct env_spec *spec)
{
	struct error err = ERROR_INIT;
	AUTO(env_scan) s = env_look();
	struct env_key k;
	struct digest d;

	cr_assert_eq(env_key_make(spec, &env_dir_targets, s, &k, &err), 0, "%s",
		     err.msg);
	d = k.digest;
	env_key_fini(&k);
	return d;
}

/* Compares the bytes: with another canonical form, no existing snapshot would be found. */
Test(env_key, has_the_form_that_is_documented)
{
	struct env_item items[] = { { .kind = (char *)(uintptr_t) "value",
				      .name = (char *)(uintptr_t) "B" },
				    { .kind = (char *)(uintptr_t) "value",
				      .name = (char *)(uintptr_t) "A" },
				    { .kind = (char *)(uintptr_t) "file",
				      .name = (char *)(uintptr_t) "a\nb" } };
	static const char text[] =
		"file 3 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921"
		"a4881\na\nb\n"
		"value 1 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db0225871792"
		"1a4881\nA\n"
		"value 1 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db0225871792"
		"1a4881\nB\n";
	struct env_key k = { .items = items, .n = 3 };
	struct digest want;

	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(digest_of("x", 1, &items[i].value), 0);
	for (unsigned int form = 0; form <= ENV_KEY_FORM; form++) {
		AUTO_BUF all = BUF_INIT;

		/* form 0 stands for the newest */
		cr_assert_eq(buf_printf(&all, "bootseer-env %u\n%s",
					form ? form : ENV_KEY_FORM, text),
			     0);
		k.form = form;
		cr_assert_eq(env_key_finish(&k, NULL), 0);
		cr_assert_eq(digest_of(all.data, all.len, &want), 0);
		cr_expect(digest_equal(&k.digest, &want));
	}
}

Test(env_key, is_another_for_each_thing_that_differs)
{
	char *a[] = { (char *)(uintptr_t) "pip", (char *)(uintptr_t) "x",
		      NULL };
	char *b[] = { (char *)(uintptr_t) "pip", (char *)(uintptr_t) "y",
		      NULL };
	char *c[] = { (char *)(uintptr_t) "pipx", NULL };
	char *one[] = { (char *)(uintptr_t) "N=1", NULL },
	     *two[] = { (char *)(uintptr_t) "N=2", NULL };
	char image[DIGEST_STR_MAX];
	struct env_spec spec = { .command = a };
	struct digest seen[8];
	size_t n = 0;

	env_write("base", "x");
	seen[n++] = key_of(&spec);
	spec.command = b;
	seen[n++] = key_of(&spec);
	spec.command = c;
	seen[n++] = key_of(&spec);
	spec.values = one;
	seen[n++] = key_of(&spec);
	spec.values = two;
	seen[n++] = key_of(&spec);
	digest_format(&seen[0], image);
	spec.image = image;
	seen[n++] = key_of(&spec);
	env_write("base", "longer");
	seen[n++] = key_of(&spec);
	env_write("more", "");
	seen[n++] = key_of(&spec);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			cr_expect(!digest_equal(&seen[i], &seen[k]),
				  "%zu and %zu", i, k);
}

Test(env_key, depends_on_contents_of_files_not_on_times_of_folders)
{
	char *command[] = { (char *)(uintptr_t) "pip", NULL };
	AUTO_FREE char *folder = env_path("in");
	struct utimbuf when = { 1000, 1000 };
	char file[] = "/var/tmp/bootseer-key.XXXXXX";
	char *files[] = { file, NULL };
	const struct env_spec spec = { .command = command, .files = files };
	struct digest first, second;
	int fd = mkstemp(file);

	env_mkdir("in");
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "abc", 3), 3);
	first = key_of(&spec);
	cr_assert_eq(utime(folder, &when), 0);
	cr_assert_eq(utime(file, &when), 0);
	second = key_of(&spec);
	cr_expect(digest_equal(&first, &second));
	cr_assert_eq(pwrite(fd, "x", 1, 0), 1);
	second = key_of(&spec);
	cr_expect(!digest_equal(&first, &second));
	(void)close(fd);
	(void)unlink(file);
}

Test(env_key, refuses_what_is_no_value_no_file_and_what_is_said_twice)
{
	char *command[] = { (char *)(uintptr_t) "pip", NULL };
	char *none[] = { (char *)(uintptr_t) "NAME", NULL };
	char *twice[] = { (char *)(uintptr_t) "A=1", (char *)(uintptr_t) "A=2",
			  NULL };
	char *missing[] = { (char *)(uintptr_t) "/nonexistent/file", NULL };
	char *folder[] = { (char *)(uintptr_t) "/", NULL };
	struct env_spec spec = { .command = command, .values = none };
	AUTO(env_scan) s = env_look();
	struct env_key k;

	cr_expect_eq(env_key_make(&spec, &env_dir_targets, s, &k, NULL),
		     -EINVAL);
	spec.values = twice;
	cr_expect_eq(env_key_make(&spec, &env_dir_targets, s, &k, NULL),
		     -EINVAL);
	spec.values = NULL;
	spec.files = missing;
	cr_expect_eq(env_key_make(&spec, &env_dir_targets, s, &k, NULL),
		     -ENOENT);
	spec.files = folder;
	cr_expect_eq(env_key_make(&spec, &env_dir_targets, s, &k, NULL),
		     -EINVAL);
	spec.files = NULL;
	spec.image = "latest";
	cr_expect_eq(env_key_make(&spec, &env_dir_targets, s, &k, NULL),
		     -EINVAL);
}

/* A killed restore leaves an empty folder for a target that was missing, so both have one key. */
Test(env_key, is_one_for_a_target_that_is_absent_and_one_that_is_empty)
{
	char *command[] = { (char *)(uintptr_t) "pip", NULL };
	const struct env_spec spec = { .command = command };
	struct digest empty = key_of(&spec), absent, full;

	cr_assert_eq(rmdir(env_dir), 0);
	absent = key_of(&spec);
	cr_assert_eq(mkdir(env_dir, 0700), 0);
	env_mkdir("in");
	full = key_of(&spec);
	cr_expect(digest_equal(&empty, &absent));
	cr_expect(!digest_equal(&empty, &full));
}

Test(env_key, shows_no_login)
{
	char *command[] = { (char *)(uintptr_t) "pip",
			    (char *)(uintptr_t) "--index-url=https://u:one@h/s",
			    (char *)(uintptr_t) "--password",
			    (char *)(uintptr_t) "two", NULL };
	char *other[] = { command[0],
			  (char *)(uintptr_t) "--index-url=https://u:x@h/s",
			  command[2], (char *)(uintptr_t) "y", NULL };
	char *values[] = { (char *)(uintptr_t) "HF_TOKEN=three", NULL };
	struct env_spec spec = { .command = command, .values = values };
	AUTO(env_scan) s = env_look();
	struct digest a = key_of(&spec), b;
	struct env_key k;

	cr_assert_eq(env_key_make(&spec, &env_dir_targets, s, &k, NULL), 0);
	for (size_t i = 0; i < k.n; i++)
		cr_expect(!k.items[i].shown ||
				  (!strstr(k.items[i].shown, "one") &&
				   !strstr(k.items[i].shown, "two") &&
				   !strstr(k.items[i].shown, "three")),
			  "%s", k.items[i].shown);
	env_key_fini(&k);
	/* A token that is renewed daily does not change the environment. */
	spec.command = other;
	b = key_of(&spec);
	cr_expect(digest_equal(&a, &b));
}

Test(env_key, is_near_what_differs_by_what_was_there_alone)
{
	char *a[] = { (char *)(uintptr_t) "pip", (char *)(uintptr_t) "x",
		      NULL };
	char *b[] = { (char *)(uintptr_t) "pip", (char *)(uintptr_t) "y",
		      NULL };
	char *c[] = { (char *)(uintptr_t) "pip", NULL };
	struct env_spec spec = { .command = a };
	struct error err = ERROR_INIT;
	AUTO(env_scan) s = env_look();
	struct env_key key, near[3];

	cr_assert_eq(env_key_make(&spec, &env_dir_targets, s, &key, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(near); i++) {
		spec.command = i == 0 ? a : i == 1 ? b : c;
		cr_assert_eq(env_key_make(&spec, &env_dir_targets, NULL,
					  &near[i], &err),
			     0);
		cr_expect_eq(env_key_is_near(&key, &near[i]), i == 0);
		env_key_fini(&near[i]);
	}
	cr_expect(env_key_is_near(&key, &key));
	env_key_fini(&key);
}
