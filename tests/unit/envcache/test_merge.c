// SPDX-License-Identifier: Apache-2.0
/* Caches that several nodes add to; one folder stands for each node in turn. */
#include "envcache/merge.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "env_fixture.h"
#include "envcache/catalog.h"
#include "envcache/restore.h"
#include "image/tree.h"

static char store_dir[64];
static struct object_store *store;
static struct env_catalog *catalog;
static struct error err;

static void setup(void)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	char url[96];

	env_setup();
	(void)snprintf(store_dir, sizeof(store_dir),
		       "/var/tmp/bootseer-store.XXXXXX");
	cr_assert_not_null(mkdtemp(store_dir));
	(void)snprintf(url, sizeof(url), "file://%s", store_dir);
	cr_assert_eq(object_store_open(url, &cfg, &store, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(env_catalog_of_store(store, &catalog, &err), 0);
}

static void teardown(void)
{
	env_catalog_free(catalog);
	object_store_free(store);
	cr_expect_eq(fs_remove_tree(store_dir, NULL), 0);
	env_teardown();
}

TestSuite(env_merge, .init = setup, .fini = teardown, .timeout = 60);

static struct env_key cache_key(const char *word)
{
	char *command[] = { strdup(word), NULL };
	const struct env_spec spec = { .command = command, .merges = true };
	struct env_key key;

	cr_assert_eq(env_key_make(&spec, &env_dir_targets, NULL, &key, &err), 0,
		     "%s", err.msg);
	free(command[0]);
	return key;
}

/* Publish the targets in place of `replaces`, if that is still in the store. */
static int publish_targets(const struct env_snapshot *replaces)
{
	const struct env_capture_options opts = { .program = "python3",
						  .replaces = replaces };
	struct env_key key = cache_key("python3");
	struct env_snapshot snap;
	int rc = env_capture(catalog, &key, &env_dir_targets, NULL, &opts,
			     &snap, &err);

	env_key_fini(&key);
	if (rc == 0)
		env_snapshot_fini(&snap);
	return rc;
}

static struct env_snapshot find_snapshot(void)
{
	struct env_key key = cache_key("python3");
	struct env_snapshot snap;

	cr_assert_eq(env_catalog_get(catalog, &key.digest, &snap, &err), 0,
		     "%s", err.msg);
	env_key_fini(&key);
	return snap;
}

static bool has_more(const struct env_snapshot *snap)
{
	bool ret = false;

	cr_assert_eq(env_merge_has_more(store, snap, &env_dir_targets, &ret,
					&err),
		     0, "%s", err.msg);
	return ret;
}

static struct env_restore_request request_of(const struct env_snapshot *snap)
{
	return (struct env_restore_request){ .store = store,
					     .snap = snap,
					     .targets = &env_dir_targets,
					     .threads = 1 };
}

static void restore_snapshot(const struct env_snapshot *snap)
{
	const struct env_restore_request q = request_of(snap);

	cr_assert_eq(env_restore(&q, NULL, &err), 0, "%s", err.msg);
}

/* Continue as another node, with empty targets. */
static void next_node(void)
{
	cr_assert_eq(fs_remove_tree(env_dir, &err), 0, "%s", err.msg);
	cr_assert_eq(mkdir(env_dir, 0755), 0);
}

static void expect_text(const char *path, const char *text)
{
	AUTO_FREE char *is = env_read(path);

	cr_expect_str_eq(is ? is : "(nothing)", text, "%s", path);
}

Test(env_merge, key_is_of_no_command)
{
	struct env_key a = cache_key("train.py"), b = cache_key("warm-up.py");

	cr_expect(digest_equal(&a.digest, &b.digest));
	cr_expect(env_key_merges(&a));
	env_key_fini(&a);
	a = env_some_key();
	cr_expect_not(env_key_merges(&a));
	env_key_fini(&a);
	env_key_fini(&b);
}

Test(env_merge, union_has_the_files_of_both)
{
	struct env_snapshot first, both;

	cr_expect_not(has_more(NULL));
	env_mkdir("k");
	cr_expect_not(has_more(NULL), "a folder alone is nothing to keep");
	env_write("k/one", "1");
	cr_expect(has_more(NULL));
	cr_assert_eq(publish_targets(NULL), 0, "%s", err.msg);
	first = find_snapshot();
	cr_expect_not(has_more(&first));

	next_node();
	env_mkdir("k");
	env_write("k/two", "2");
	env_mkdir("other");
	env_write("other/three", "3");
	restore_snapshot(&first);
	expect_text("k/one", "1");
	expect_text("k/two", "2");
	cr_expect(has_more(&first));
	cr_assert_eq(publish_targets(&first), 0, "%s", err.msg);

	next_node();
	both = find_snapshot();
	restore_snapshot(&both);
	expect_text("k/one", "1");
	expect_text("k/two", "2");
	expect_text("other/three", "3");
	cr_expect_not(has_more(&both));
	restore_snapshot(&both);
	env_snapshot_fini(&first);
	env_snapshot_fini(&both);
}

Test(env_merge, snapshot_that_was_replaced_is_not_replaced_again)
{
	struct env_snapshot first;

	env_write("one", "1");
	cr_assert_eq(publish_targets(NULL), 0, "%s", err.msg);
	cr_expect_eq(publish_targets(NULL), -EEXIST);
	first = find_snapshot();
	env_write("two", "2");
	cr_assert_eq(publish_targets(&first), 0, "%s", err.msg);
	env_write("three", "3");
	cr_expect_eq(publish_targets(&first), -EEXIST, "%s", err.msg);
	env_snapshot_fini(&first);
}

/* Write a file with a time in the future, as with a wrong clock. */
static void write_late(const char *path, const char *text)
{
	const struct timespec times[2] = { { .tv_sec = 9999999999 },
					   { .tv_sec = 9999999999 } };
	AUTO_FREE char *at = env_path(path);

	env_write(path, text);
	cr_assert_eq(utimensat(AT_FDCWD, at, times, 0), 0);
}

/* If a path has two contents: of equal size, either may stay; otherwise the smaller one was cut
 * off. */
Test(env_merge, of_two_sizes_the_larger_file_stays)
{
	struct env_snapshot snap;

	env_write("same", "AAA");
	env_write("longer-here", "A");
	env_write("longer-there", "AAAAA");
	env_write("cut-here", "AAAAA");
	write_late("cut-there", "");
	cr_assert_eq(publish_targets(NULL), 0, "%s", err.msg);
	snap = find_snapshot();

	next_node();
	env_write("same", "BBB");
	env_write("longer-there", "B");
	write_late("cut-here", "");
	cr_expect_not(has_more(&snap));
	env_write("longer-here", "BBBBB");
	cr_expect(has_more(&snap));
	env_write("longer-here", "A");
	env_write("cut-there", "BBB");
	cr_expect(has_more(&snap));
	env_write("longer-here", "BBBBB");
	restore_snapshot(&snap);
	expect_text("same", "BBB");
	expect_text("longer-here", "BBBBB");
	expect_text("longer-there", "AAAAA");
	expect_text("cut-here", "AAAAA");
	expect_text("cut-there", "BBB");
	env_snapshot_fini(&snap);
}

/* Programs may write to the targets while a snapshot is fetched. */
Test(env_merge, file_that_came_during_a_restore_stays_by_the_same_rule)
{
	struct env_restore_request q;
	struct env_restoring *r = NULL;
	struct env_snapshot snap;

	env_write("longer", "AAA");
	env_write("shorter", "AAA");
	env_write("missing", "AAA");
	cr_assert_eq(publish_targets(NULL), 0, "%s", err.msg);
	snap = find_snapshot();

	next_node();
	q = request_of(&snap);
	cr_assert_eq(env_restore_begin(&q, &r, &err), 0, "%s", err.msg);
	env_write("longer", "BBBBB");
	env_write("shorter", "B");
	cr_assert_eq(env_restore_end(r, NULL, &err), 0, "%s", err.msg);
	expect_text("longer", "BBBBB");
	expect_text("shorter", "AAA");
	expect_text("missing", "AAA");
	env_snapshot_fini(&snap);
}

/* Where one side has a link or folder and the other a file, each node keeps its own. */
Test(env_merge, thing_of_another_kind_stays)
{
	AUTO_FREE char *link = env_path("link");
	struct env_snapshot snap;

	env_write("link", "file");
	env_mkdir("folder");
	env_write("folder/in", "1");
	env_write("file", "1");
	cr_assert_eq(publish_targets(NULL), 0, "%s", err.msg);
	snap = find_snapshot();
	next_node();
	cr_assert_eq(symlink("nowhere", link), 0);
	env_write("folder", "a file");
	env_mkdir("file");
	cr_expect_not(has_more(&snap));
	restore_snapshot(&snap);
	cr_expect_eq(access(link, F_OK), -1);
	expect_text("folder", "a file");
	env_snapshot_fini(&snap);
}
