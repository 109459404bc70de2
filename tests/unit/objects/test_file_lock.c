// SPDX-License-Identifier: Apache-2.0
/* The locks by which a directory compares versions: no other store's are known to us. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "objects/file/file_store_priv.h"
#include "objects/store.h"

#define DIR_TEMPLATE "/var/tmp/bootseer-lock.XXXXXX"

static char dir[] = DIR_TEMPLATE;
static struct object_store *store, *hasty;
static struct error err;

static struct object_store *open_store(int retry_ms)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct object_store *s = NULL;
	char url[64];

	(void)snprintf(url, sizeof(url), "file://%s", dir);
	if (retry_ms)
		cfg.retry_ms = retry_ms;
	cr_assert_eq(object_store_open(url, &cfg, &s, &err), 0, "%s", err.msg);
	return s;
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(dir));
	store = open_store(0);
	hasty = open_store(20);
}

static void teardown(void)
{
	object_store_free(hasty);
	object_store_free(store);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

TestSuite(file_share, .timeout = 120);
TestSuite(file_lock, .init = setup, .fini = teardown, .timeout = 120);

static int put(struct object_store *s, const char *name, const char *text)
{
	return object_put(s, name, text, strlen(text), NULL, NULL, &err);
}

static mode_t mode_of(const char *name)
{
	AUTO_FREE char *path = fs_join(dir, name);
	struct stat st;

	cr_assert_not_null(path);
	cr_assert_eq(stat(path, &st), 0, "%s", name);
	return st.st_mode & 07777;
}

/* The first writer's umask shuts nobody out who may write to the directory. */
Test(file_share, gives_folders_and_locks_to_those_who_may_write)
{
	static const struct {
		mode_t root, folder, lock, file, shared_file;
	} rows[] = {
		{ 0700, 0700, 0600, 0600, 0600 },
		{ 0755, 0700, 0600, 0600, 0600 },
		{ 0775, 0770, 0660, 0600, 0640 },
		{ 0777, 0777, 0666, 0600, 0644 },
		{ 01777, 01777, 0666, 0600, 0644 },
	};

	(void)umask(077);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
		struct object_store *s;
		char url[64];

		cr_assert_not_null(mkdtemp(strcpy(dir, DIR_TEMPLATE)));
		cr_assert_eq(chmod(dir, rows[i].root), 0);
		(void)snprintf(url, sizeof(url), "file://%s", dir);
		cfg.shares_files = true;
		cr_assert_eq(object_store_open(url, &cfg, &s, &err), 0, "%s",
			     err.msg);
		cr_assert_eq(put(s, "a/b/shared", "x"), 0, "%s", err.msg);
		object_store_keep_private(s);
		cr_assert_eq(put(s, "a/b/own", "x"), 0, "%s", err.msg);
		cr_expect_eq(mode_of("a"), rows[i].folder, "%zu", i);
		cr_expect_eq(mode_of("a/b"), rows[i].folder, "%zu", i);
		cr_expect_eq(mode_of(".bootseer/lock"), rows[i].folder, "%zu",
			     i);
		cr_expect_eq(mode_of("a/b/shared"), rows[i].shared_file, "%zu",
			     i);
		cr_expect_eq(mode_of("a/b/own"), rows[i].file, "%zu", i);
		object_store_free(s);
		cr_assert_eq(fs_remove_tree(dir, NULL), 0);
	}
}

/* Else a version that came between the comparison and what follows would be lost. */
Test(file_lock, changes_nothing_while_another_compares_versions)
{
	struct object_stat before, now;
	int fd = -1;

	cr_assert_eq(put(store, "v", "one"), 0, "%s", err.msg);
	cr_assert_eq(put(store, "other", "two"), 0, "%s", err.msg);
	cr_assert_eq(object_stat(store, "v", &before, &err), 0);
	cr_assert_eq(file_lock(file_store_of(store), "v", &fd, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(put(hasty, "v", "two"), -EBUSY);
	cr_expect_eq(object_delete(hasty, "v", NULL, &err), -EBUSY);
	cr_expect_eq(object_rename(hasty, "other", "v", OBJECT_ANY, &err),
		     -EBUSY);
	cr_expect_eq(object_rename(hasty, "v", "new", OBJECT_ANY, &err),
		     -EBUSY);
	cr_assert_eq(object_stat(store, "v", &now, &err), 0);
	cr_expect_str_eq(now.tag, before.tag);
	(void)close(fd);
	cr_expect_eq(put(hasty, "v", "two"), 0, "%s", err.msg);
}

/* The store has no memory to measure the directory with, which takes 32 MiB. */
Test(file_lock, conditions_are_tried_without_measuring_the_directory)
{
	struct object_store_config cfg = { .memory = 1 << 20, .retry_ms = 20 };
	AUTO(object_store) s = NULL;
	AUTO_FREE char *url = NULL;

	cr_assert_gt(asprintf(&url, "file://%s", dir), 0);
	cr_assert_eq(object_store_open(url, &cfg, &s, &err), 0, "%s", err.msg);
	cr_expect_eq(object_store_probe(s, &err), -EBUSY);
	cr_expect_eq(object_store_probe_conditions(s, &err), 0, "%s", err.msg);
	cr_expect(object_store_caps(s).has_match);
	cr_expect(!object_store_caps(s).is_probed);
}

static char *lock_path(const char *folder, const char *name)
{
	char *path = NULL;

	cr_assert_gt(asprintf(&path, "%s/.bootseer/lock%s/%s", dir, folder,
			      name),
		     0);
	return path;
}

static void put_lock(const char *folder, const char *name, time_t age_s)
{
	struct timespec old[2] = { { .tv_sec = time(NULL) - age_s },
				   { .tv_sec = time(NULL) - age_s } };
	AUTO_FREE char *parent = lock_path(folder, "");
	AUTO_FREE char *path = lock_path(folder, name);
	AUTO_CLOSE int fd = -1;

	cr_assert_eq(fs_mkdir_p(parent, 0755, &err), 0, "%s", err.msg);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "x", 1), 1);
	cr_assert_eq(futimens(fd, old), 0);
}

static bool has_lock(const char *folder, const char *name)
{
	AUTO_FREE char *path = lock_path(folder, name);

	return access(path, F_OK) == 0;
}

/* As of stores that compare under objects; a directory's own locks are files for ever. */
Test(file_lock, what_a_killed_holder_left_is_swept_up)
{
	size_t n = 0;

	put_lock("/0123456789abcdef", "gone", 49 * 3600);
	put_lock("/0123456789abcdef", "held", 0);
	/* Somebody's whose clock is a day behind. */
	put_lock("/0123456789abcdef", "held2", 25 * 3600);
	put_lock("", "7f", 49 * 3600);
	cr_assert_eq(object_store_sweep(store, 0, &n, &err), 0);
	cr_expect_eq(n, 0);
	cr_assert_eq(object_store_sweep(store, 3600 * 1000, &n, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(n, 1);
	cr_expect(!has_lock("/0123456789abcdef", "gone"));
	cr_expect(has_lock("/0123456789abcdef", "held"));
	cr_expect(has_lock("/0123456789abcdef", "held2"));
	cr_expect(has_lock("", "7f"));
}
