// SPDX-License-Identifier: Apache-2.0
#include "envcache/diff.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "env_fixture.h"
#include "envcache/catalog.h"

static char store_dir[64];
static struct object_store *store;
static struct env_catalog *catalog;

static void setup(void)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;
	char url[80];

	env_setup();
	(void)snprintf(store_dir, sizeof(store_dir),
		       "/var/tmp/bootseer-t.XXXXXX");
	cr_assert_not_null(mkdtemp(store_dir));
	(void)snprintf(url, sizeof(url), "file://%s", store_dir);
	cfg.memory = 64u << 20;
	cr_assert_eq(object_store_open(url, &cfg, &store, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(env_catalog_of_store(store, &catalog, &err), 0, "%s",
		     err.msg);
}

static void teardown(void)
{
	env_catalog_free(catalog);
	object_store_free(store);
	cr_expect_eq(fs_remove_tree(store_dir, NULL), 0);
	env_teardown();
}

TestSuite(env_diff, .init = setup, .fini = teardown, .timeout = 60);

/* Capture the target's present state as a snapshot, with `before` as its base. */
static struct env_snapshot capture_target(const struct env_scan *before,
					  const char *value)
{
	char word[] = "pip";
	char *command[] = { word, NULL };
	char *values[] = { NULL, NULL };
	const struct env_spec spec = { .command = command, .values = values };
	struct error err = ERROR_INIT;
	struct env_snapshot snap;
	struct env_key key;

	values[0] = strdup(value);
	cr_assert_eq(env_key_make(&spec, &env_dir_targets, before, &key, &err),
		     0, "%s", err.msg);
	cr_assert_eq(env_capture(catalog, &key, &env_dir_targets, before,
				 &(struct env_capture_options){ .program =
									"pip" },
				 &snap, &err),
		     0, "%s", err.msg);
	env_key_fini(&key);
	free(values[0]);
	return snap;
}

struct told {
	struct env_diff diff;
	char text[4096]; /* a line for each reported difference */
};

static int note_difference_line(void *arg, const struct env_difference *d,
				struct error *err)
{
	struct told *t = arg;
	size_t n = strlen(t->text);

	n += (size_t)snprintf(t->text + n, sizeof(t->text) - n, "%c%s %u",
			      d->a && d->b ? '~'
			      : d->a       ? '-'
					   : '+',
			      d->path + strlen(env_dir), d->in);
	for (const char *const *x = d->xattrs; *x; x++)
		n += (size_t)snprintf(t->text + n, sizeof(t->text) - n, " %s",
				      *x);
	(void)snprintf(t->text + n, sizeof(t->text) - n, "\n");
	return 0;
}

static struct told *diff(const struct env_snapshot *a,
			 const struct env_snapshot *b, bool no_times)
{
	struct told *t = calloc(1, sizeof(*t));
	struct error err = ERROR_INIT;

	cr_assert_not_null(t);
	t->diff = (struct env_diff){ .no_times = no_times,
				     .fn = note_difference_line,
				     .arg = t };
	cr_assert_eq(env_diff(store, a, b, &t->diff, &err), 0, "%s", err.msg);
	return t;
}

static void set_time(const char *path, time_t s)
{
	const struct timespec t[2] = { { .tv_sec = s }, { .tv_sec = s } };
	AUTO_FREE char *p = env_path(path);

	cr_assert_eq(utimensat(-1, p, t, AT_SYMLINK_NOFOLLOW), 0);
}

/* Write `n` bytes of pseudo-random data, which have no repetitions. */
static void write_big(const char *path, size_t n, unsigned int seed)
{
	AUTO_FREE char *p = env_path(path);
	FILE *f = fopen(p, "w");
	uint64_t x = seed + 1;

	cr_assert_not_null(f);
	for (size_t i = 0; i < n; i += sizeof(x)) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		cr_assert_eq(fwrite(&x, sizeof(x), 1, f), 1);
	}
	cr_assert_eq(fclose(f), 0);
}

/* Remove the packs, so that fetching any block fails. */
static void remove_packs(const char *dir)
{
	DIR *d = opendir(dir);

	cr_assert_not_null(d);
	for (const struct dirent *e; (e = readdir(d));) {
		AUTO_FREE char *path = fs_join(dir, e->d_name);
		struct stat st;

		if (*e->d_name == '.' || lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			remove_packs(path);
		else if (st.st_size > 1 << 20)
			cr_assert_eq(unlink(path), 0);
	}
	(void)closedir(d);
}

Test(env_diff, is_nothing_of_a_snapshot_with_itself)
{
	AUTO(env_scan) before = env_look();
	AUTO_FREE struct told *t = NULL;
	struct env_snapshot a;

	env_write("a", "1");
	env_mkdir("d");
	a = capture_target(before, "V=1");
	t = diff(&a, &a, false);
	cr_expect_str_eq(t->text, "");
	cr_expect_eq(t->diff.n_added + t->diff.n_removed + t->diff.n_changed,
		     0);
	cr_expect_eq(t->diff.fetched, 0);
	env_snapshot_fini(&a);
}

Test(env_diff, tells_what_was_added_removed_and_changed)
{
	AUTO_FREE char *gone = env_path("gone");
	AUTO_FREE char *kind = env_path("kind");
	AUTO_FREE char *link_path = env_path("link");
	AUTO_FREE char *attr = env_path("attr");
	AUTO_FREE char *mode = env_path("mode");
	AUTO_FREE char *one = env_path("one");
	AUTO_FREE char *two = env_path("two");
	AUTO(env_scan) before = NULL;
	AUTO_FREE struct told *t = NULL;
	struct env_snapshot a, b;

	before = env_look();
	env_mkdir("gone");
	env_write("gone/below", "12345");
	env_write("kind", "file");
	env_write("attr", "1");
	env_write("mode", "1");
	env_write("text", "old");
	env_write("one", "1");
	cr_assert_eq(link(one, two), 0);
	cr_assert_eq(symlink("here", link_path), 0);
	cr_assert_eq(setxattr(attr, "user.x", "1", 1, 0), 0);
	cr_assert_eq(setxattr(attr, "user.y", "1", 1, 0), 0);
	set_time("link", 1000);
	set_time("text", 1000);
	a = capture_target(before, "V=1");

	cr_assert_eq(fs_remove_tree(gone, NULL), 0);
	cr_assert_eq(unlink(kind), 0);
	env_mkdir("kind");
	env_write("kind/new", "123");
	env_write("text", "new");
	set_time("text", 1000);
	cr_assert_eq(unlink(link_path), 0);
	cr_assert_eq(symlink("else", link_path), 0);
	set_time("link", 1000);
	cr_assert_eq(setxattr(attr, "user.x", "2", 1, 0), 0);
	cr_assert_eq(setxattr(attr, "user.z", "1", 1, 0), 0);
	cr_assert_eq(chmod(mode, 0600), 0);
	cr_assert_eq(chown(mode, 12, 34), 0);
	cr_assert_eq(unlink(two), 0);
	env_write("two", "1");
	b = capture_target(before, "V=2");
	t = diff(&a, &b, true);
	cr_expect_str_eq(t->text, "~/attr 64 user.x user.z\n"
				  "-/gone 0\n"
				  "-/gone/below 0\n"
				  "~/kind 1\n"
				  "+/kind/new 0\n"
				  "~/link 32\n"
				  "~/mode 12\n"
				  "~/text 2\n"
				  "~/two 256\n");
	cr_expect_eq(t->diff.n_added, 1);
	cr_expect_eq(t->diff.added_bytes, 3);
	cr_expect_eq(t->diff.n_removed, 2);
	cr_expect_eq(t->diff.removed_bytes, 5);
	cr_expect_eq(t->diff.n_changed, 6);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

Test(env_diff, counts_times_unless_told_not_to)
{
	AUTO(env_scan) before = env_look();
	AUTO_FREE struct told *t = NULL;
	AUTO_FREE struct told *without = NULL;
	struct env_snapshot a, b;

	env_write("a", "1");
	set_time("a", 1000);
	a = capture_target(before, "V=1");
	set_time("a", 1001);
	b = capture_target(before, "V=2");
	t = diff(&a, &b, false);
	cr_expect_str_eq(t->text, "~/a 16\n");
	without = diff(&a, &b, true);
	cr_expect_str_eq(without->text, "");
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

Test(env_diff, tells_a_deletion_from_nothing)
{
	AUTO_FREE char *old = env_path("old");
	AUTO(env_scan) before = NULL;
	AUTO_FREE struct told *t = NULL;
	AUTO_FREE struct told *same = NULL;
	struct env_snapshot a, b;

	env_write("old", "1");
	before = env_look();
	env_write("new", "1");
	a = capture_target(before, "V=1");
	cr_assert_eq(unlink(old), 0);
	b = capture_target(before, "V=2");
	t = diff(&a, &b, true);
	cr_expect_str_eq(t->text, "+/old 0\n");
	same = diff(&b, &b, true);
	cr_expect_str_eq(same->text, "");
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

Test(env_diff, fetches_nothing_of_what_digests_answer)
{
	AUTO(env_scan) before = env_look();
	AUTO_FREE struct told *t = NULL;
	struct env_snapshot a, b;

	write_big("kept", 5u << 20, 1);
	write_big("other", 150000, 2); /* is a block */
	a = capture_target(before, "V=1");
	write_big("other", 150000, 3); /* is a block */
	b = capture_target(before, "V=2");
	remove_packs(store_dir);
	t = diff(&a, &b, true);
	cr_expect_str_eq(t->text, "~/other 2\n");
	cr_expect_eq(t->diff.fetched, 0);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

/* Small files share a block, whose digest does not tell which of them differs. */
Test(env_diff, fetches_blocks_of_several_files_and_tells_which_differs)
{
	AUTO(env_scan) before = env_look();
	AUTO_FREE struct told *t = NULL;
	struct error err = ERROR_INIT;
	struct env_snapshot a, b;

	for (unsigned int i = 0; i < 8; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "f%u", i);
		write_big(name, 9000, i);
	}
	a = capture_target(before, "V=1");
	write_big("f5", 9000, 77);
	b = capture_target(before, "V=2");
	t = diff(&a, &b, true);
	cr_expect_str_eq(t->text, "~/f5 2\n");
	cr_expect_gt(t->diff.fetched, 0);
	cr_expect_leq(t->diff.fetched, 8u * 2 * 12288,
		      "each block is fetched once");
	cr_assert_eq(env_snapshot_remove(store, &b.key.digest, &err), 0);
	cr_expect_eq(env_diff(store, &a, &b, &t->diff, &err), -ENOENT);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

/* A hole equals zeros that a program wrote. */
Test(env_diff, reads_holes_as_zeros)
{
	AUTO_FREE char *path = env_path("sparse");
	AUTO(env_scan) before = env_look();
	AUTO_FREE struct told *t = NULL;
	AUTO_FREE struct told *other = NULL;
	AUTO_FREE char *zeros = calloc(1, 1 << 20);
	struct env_snapshot a, b, c;
	FILE *f;

	env_write("sparse", "");
	cr_assert_eq(truncate(path, 1 << 20), 0);
	a = capture_target(before, "V=1");
	f = fopen(path, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(zeros, 1 << 20, 1, f), 1);
	cr_assert_eq(fclose(f), 0);
	b = capture_target(before, "V=2");
	t = diff(&a, &b, true);
	cr_expect_str_eq(t->text, "");
	f = fopen(path, "r+");
	cr_assert_not_null(f);
	cr_assert_eq(fseek(f, 777777, SEEK_SET), 0);
	cr_assert_eq(fputc('x', f), 'x');
	cr_assert_eq(fclose(f), 0);
	c = capture_target(before, "V=3");
	other = diff(&a, &c, true);
	cr_expect_str_eq(other->text, "~/sparse 2\n");
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
	env_snapshot_fini(&c);
}
