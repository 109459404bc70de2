// SPDX-License-Identifier: Apache-2.0
/* Shared packs: which snapshots may refer to them, and when they are deleted. */
#include "envcache/shared.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/temp_file.h"
#include "env_fixture.h"
#include "envcache/bases.h"
#include "envcache/catalog.h"
#include "envcache/gc_packs.h"
#include "envcache/restore.h"

#define BIG 400000u
#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* Called just before an index is written, for events at the last moment of a capture or copy.
 * ahead_s, below, is how far CLOCK_BOOTTIME is ahead from then on. */
static void (*before_commit)(void);
/* Number of commits whose replies are lost; with is_lost_before, the requests are lost too. */
static unsigned int n_lost, n_commits;
static bool is_lost_before;
static int sweep_code; /* error of each sweep; 0: none */
/* Called when all blobs are stored, before the capture's last checks. */
static void (*after_store)(void);
static time_t ahead_s;

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

TestSuite(env_shared, .init = setup, .fini = teardown, .timeout = 60);

/* Write incompressible bytes, different for each seed. */
static void write_big(const char *name, unsigned int seed)
{
	AUTO_FREE char *path = env_path(name);
	FILE *f = fopen(path, "w");
	uint64_t x = seed;

	cr_assert_not_null(f);
	for (unsigned int i = 0; i < BIG; i++) {
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
		(void)fputc((int)(x >> 56), f);
	}
	cr_assert_eq(fclose(f), 0);
}

/* Capture the target's present state, with nothing in it before. */
static int try_capture(const char *value, bool is_alone,
		       struct env_snapshot *ret)
{
	char word[] = "pip";
	char *command[] = { word, NULL };
	char *values[] = { NULL, NULL };
	const struct env_spec spec = { .command = command, .values = values };
	const struct env_capture_options opts = { .program = "pip",
						  .is_alone = is_alone };
	struct env_targets none = { .n = 0 };
	AUTO(env_scan) before = NULL;
	struct env_key key;
	int rc;

	values[0] = strdup(value);
	cr_assert_eq(env_scan_new(&none, &before, &err), 0, "%s", err.msg);
	cr_assert_eq(env_key_make(&spec, &env_dir_targets, before, &key, &err),
		     0, "%s", err.msg);
	rc = env_capture(catalog, &key, &env_dir_targets, before, &opts, ret,
			 &err);
	env_key_fini(&key);
	free(values[0]);
	return rc;
}

static struct env_snapshot capture_snapshot(const char *value, bool is_alone)
{
	struct env_snapshot snap;

	cr_assert_eq(try_capture(value, is_alone, &snap), 0, "%s", err.msg);
	return snap;
}

static int64_t now_ms(void)
{
	return (int64_t)time(NULL) * 1000;
}

static struct env_gc collect_at(int64_t ms)
{
	struct env_gc gc = { .now_ms = ms,
			     .older_ms = -1,
			     .keep_bytes = UINT64_MAX };

	cr_assert_eq(env_gc(store, &gc, &err), 0, "%s", err.msg);
	return gc;
}

/* Collect garbage at `times` grace periods from now. */
static struct env_gc collect_after(int64_t times)
{
	return collect_at(now_ms() + times * ENV_GRACE_MS + 60000);
}

static int count_one(void *arg, const struct object_entry *e, struct error *er)
{
	(*(unsigned int *)arg)++;
	return 0;
}

static unsigned int n_in(const char *folder)
{
	unsigned int n = 0;

	cr_assert_eq(object_list(store, folder, true, count_one, &n, &err), 0);
	return n;
}

static void expect_whole(const struct env_snapshot *s)
{
	cr_expect_eq(env_snapshot_verify(store, s, &err), 0, "%s", err.msg);
}

Test(env_shared, a_second_capture_puts_what_changed)
{
	struct env_snapshot a, b;

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	cr_expect(a.is_shared);
	cr_expect_gt(a.stored, BIG * 9 / 10);
	write_big("two", 2);
	b = capture_snapshot("V=2", false);
	cr_expect_lt(b.stored, BIG * 11 / 10);
	cr_expect_eq(n_in(ENV_PACKS_FOLDER), 2);
	expect_whole(&a);
	expect_whole(&b);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

Test(env_shared, a_capture_that_is_to_be_alone_shares_nothing)
{
	struct env_snapshot a;

	write_big("one", 1);
	a = capture_snapshot("V=1", true);
	cr_expect(!a.is_shared);
	cr_expect_eq(n_in(ENV_PACKS_FOLDER), 0);
	expect_whole(&a);
	cr_assert_eq(env_snapshot_remove(store, &a.key.digest, &err), 0);
	cr_expect_eq(n_in("env"), 0);
	env_snapshot_fini(&a);
}

Test(env_shared, a_pack_goes_two_days_after_it_was_doomed)
{
	struct env_snapshot a;
	struct env_gc gc;

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	gc = collect_after(3);
	cr_expect_eq(gc.n_doomed, 0);
	cr_expect_gt(gc.kept_bytes, BIG * 9 / 10);
	cr_assert_eq(env_snapshot_remove(store, &a.key.digest, &err), 0);
	/* The pack is recent, so it may belong to a capture under way. */
	gc = collect_after(0);
	cr_expect_eq(gc.n_doomed, 0);
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 0);
	gc = collect_after(1);
	cr_expect_eq(gc.n_doomed, 1);
	cr_expect_gt(gc.doomed_bytes, BIG * 9 / 10);
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 1);
	gc = collect_after(0);
	cr_expect_eq(gc.n_doomed, 1);
	cr_expect_eq(n_in(ENV_PACKS_FOLDER), 1);
	gc = collect_after(1);
	cr_expect_eq(gc.n_doomed, 0);
	cr_expect_eq(gc.n_leftovers, 1);
	cr_expect_eq(gc.kept_bytes, 0);
	cr_expect_eq(n_in(ENV_PACKS_FOLDER), 0);
	/* The mark is kept for two more days, as the deletion may be carried out late. */
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 1);
	(void)collect_after(0);
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 1);
	(void)collect_after(1);
	cr_expect_eq(n_in("env"), 0);
	env_snapshot_fini(&a);
}

Test(env_shared, a_doomed_pack_that_something_refers_to_is_reprieved)
{
	struct env_snapshot a;
	AUTO_FREE char *text = NULL;
	char name[ENV_NAME_ROOM];
	struct object_stat st;

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	env_object_name(ENV_INDEX_FOLDER, &a.key.digest, name);
	cr_assert_eq(env_index_text(store, name, &text, &st, &err), 0);
	cr_assert_eq(object_delete(store, name, NULL, &err), 0);
	{
		/* The capture is still under way: its blobs are not old. */
		struct gc_packs packs = { .n = 0 };
		struct env_gc gc = { .now_ms =
					     now_ms() + ENV_GRACE_MS + 60000 };

		cr_assert_eq(gc_packs_list(store, &packs, &err), 0);
		cr_assert_eq(gc_packs_collect(&packs, store, &gc, &err), 0);
		gc_packs_fini(&packs);
	}
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 1);
	cr_assert_eq(object_put(store, name, text, (size_t)st.size, NULL, NULL,
				&err),
		     0);
	(void)collect_after(5);
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 0);
	cr_expect_eq(n_in(ENV_PACKS_FOLDER), 1);
	expect_whole(&a);
	env_snapshot_fini(&a);
}

Test(env_shared, of_a_snapshot_that_cannot_be_read_all_packs_stay)
{
	struct env_snapshot a, b;
	char folder[ENV_NAME_ROOM];
	struct env_gc gc;

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	write_big("one", 2);
	b = capture_snapshot("V=2", false);
	cr_assert_eq(env_snapshot_remove(store, &b.key.digest, &err), 0);
	env_blob_folder(&a.key.digest, a.folder, folder);
	cr_assert_eq(env_blobs_remove(store, &a.key.digest, a.folder, &err), 0);
	gc = collect_after(1);
	cr_expect_eq(gc.unknown.code, ENOENT);
	cr_expect_not_null(strstr(gc.unknown.msg, "snapshot "));
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 0);
	cr_assert_eq(env_snapshot_remove(store, &a.key.digest, &err), 0);
	gc = collect_after(1);
	cr_expect_eq(gc.unknown.code, 0);
	cr_expect_eq(n_in(ENV_DOOMED_FOLDER), 2);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

/* ------------------------------------------------------------ at the last moment --- */

/* Names of the linker for wrapped functions. */
int __real_env_snapshot_commit(struct object_store *s,
			       const struct env_snapshot *snap,
			       const struct object_put_options *opts,
			       struct error *er);
int __wrap_env_snapshot_commit(struct object_store *s,
			       const struct env_snapshot *snap,
			       const struct object_put_options *opts,
			       struct error *er);
int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int __wrap_env_snapshot_commit(struct object_store *s,
			       const struct env_snapshot *snap,
			       const struct object_put_options *opts,
			       struct error *er)
{
	void (*fn)(void) = before_commit;

	before_commit = NULL;
	int rc;

	if (fn)
		fn();
	n_commits++;
	rc = n_lost && is_lost_before
		     ? 0
		     : __real_env_snapshot_commit(s, snap, opts, er);
	if (!n_lost)
		return rc;
	n_lost--;
	return error_set(er, EIO, "no answer");
}

/* The wrapped clock for the time limit of captures: each call returns a time `late_s` later. */
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	static time_t late_s;
	int rc = __real_clock_gettime(id, ret);

	if (rc == 0 && id == CLOCK_BOOTTIME) {
		ret->tv_sec += late_s;
		late_s += ahead_s;
	}
	return rc;
}

bool __real_env_scan_is_same(const struct env_scan *a,
			     const struct env_scan *b);
bool __wrap_env_scan_is_same(const struct env_scan *a,
			     const struct env_scan *b);

bool __wrap_env_scan_is_same(const struct env_scan *a, const struct env_scan *b)
{
	if (after_store)
		after_store();
	return __real_env_scan_is_same(a, b);
}

Test(env_shared, a_capture_whose_last_answer_is_lost_is_there)
{
	struct env_snapshot a, is;

	write_big("one", 1);
	n_lost = 1;
	a = capture_snapshot("V=1", false);
	cr_expect_eq(n_commits, 1);
	cr_assert_eq(env_snapshot_get(store, &a.key.digest, &is, &err), 0);
	cr_expect_str_eq(is.folder, a.folder);
	expect_whole(&is);
	env_snapshot_fini(&a);
	env_snapshot_fini(&is);
}

/* If the commit's reply was lost, the commit may still be carried out later. */
Test(env_shared, a_capture_that_nobody_knows_of_keeps_its_blobs)
{
	struct env_snapshot a;

	write_big("one", 1);
	n_lost = 1;
	is_lost_before = true;
	cr_expect_eq(try_capture("V=1", false, &a), -EIO);
	cr_expect_eq(n_commits, 1);
	cr_expect_eq(n_in(ENV_INDEX_FOLDER), 0);
	cr_expect_gt(n_in(ENV_DATA_FOLDER), 0);
	(void)collect_after(1);
	cr_expect_eq(n_in(ENV_DATA_FOLDER), 0);
}

static struct env_snapshot winner; /* snapshot of the same key by another
                                    * node */

static void capture_first(void)
{
	winner = capture_snapshot("V=1", false);
}

Test(env_shared, a_capture_that_was_late_takes_nothing_but_its_own)
{
	struct env_snapshot a;
	char folder[ENV_NAME_ROOM];

	write_big("one", 1);
	before_commit = capture_first;
	cr_expect_eq(try_capture("V=1", false, &a), -EEXIST);
	expect_whole(&winner);
	env_blob_folder(&winner.key.digest, winner.folder, folder);
	cr_expect_eq(n_in(ENV_DATA_FOLDER), n_in(folder));
	env_snapshot_fini(&winner);
}

Test(env_shared, a_restore_of_a_snapshot_without_its_blobs_says_it_is_damaged)
{
	struct env_snapshot a;
	const struct env_restore_request q = { .store = store,
					       .snap = &a,
					       .targets = &env_dir_targets,
					       .threads = 1,
					       .others_ns = INT64_MAX };

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	cr_assert_eq(env_blobs_remove(store, &a.key.digest, a.folder, &err), 0);
	cr_expect_eq(env_restore(&q, NULL, &err), -EBADMSG);
	cr_expect_eq(err.code, EBADMSG);
	cr_assert_eq(env_snapshot_remove(store, &a.key.digest, &err), 0);
	cr_expect_eq(env_restore(&q, NULL, &err), -ENOENT);
	env_snapshot_fini(&a);
}

static int remove_big(void *arg, const struct object_entry *e, struct error *er)
{
	return e->stat.size > BIG / 2 ? object_delete(store, e->name, NULL, er)
				      : 0;
}

static void remove_packs(void)
{
	cr_assert_eq(object_list(store, ENV_DATA_FOLDER, true, remove_big, NULL,
				 &err),
		     0, "%s", err.msg);
}

Test(env_shared, a_capture_whose_own_packs_were_removed_does_not_appear)
{
	struct env_snapshot a;

	write_big("one", 1);
	after_store = remove_packs;
	cr_expect_eq(try_capture("V=1", true, &a), -EAGAIN);
	cr_expect_eq(n_in("env"), 0);
}

Test(env_shared, a_capture_of_more_than_12_hours_does_not_appear)
{
	struct env_snapshot a, b;

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	ahead_s = 12 * 3600 - 60;
	b = capture_snapshot("V=2", false);
	cr_expect(b.is_shared);
	cr_expect_lt(b.stored, BIG / 10);
	env_snapshot_fini(&b);
	ahead_s = 12 * 3600 + 60;
	cr_expect_eq(try_capture("V=3", false, &b), -EAGAIN);
	cr_expect_eq(try_capture("V=4", true, &b), -EAGAIN);
	cr_expect_eq(n_in(ENV_INDEX_FOLDER), 2);
	env_snapshot_fini(&a);
}

/* Collect twice with a clock that is a day ahead. */
static void collect_ahead(void)
{
	for (int i = 0; i < 2; i++) {
		struct env_gc gc = collect_at(now_ms() + DAY_MS + 60000);

		cr_expect_eq(gc.n_leftovers, 0);
		cr_expect_eq(gc.n_doomed, 0);
	}
}

Test(env_shared, a_collector_a_day_ahead_takes_nothing_from_a_capture)
{
	struct env_snapshot a, b;

	write_big("one", 1);
	before_commit = collect_ahead;
	a = capture_snapshot("V=1", false);
	expect_whole(&a);
	/* For a collection with the right clock, the objects are dated tomorrow. */
	write_big("two", 2);
	b = capture_snapshot("V=2", false);
	(void)collect_at(now_ms() - DAY_MS);
	(void)collect_at(now_ms() - DAY_MS);
	expect_whole(&a);
	expect_whole(&b);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

/* A collection makes its list; another runs completely; then the first uses its old list. */
Test(env_shared, of_two_collectors_at_once_the_late_one_takes_nothing)
{
	struct gc_packs late = { .n = 0 };
	struct env_gc gc = { .now_ms = now_ms() + 2 * ENV_GRACE_MS };
	struct env_snapshot a, b;

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	cr_assert_eq(env_snapshot_remove(store, &a.key.digest, &err), 0);
	(void)collect_after(1);
	cr_assert_eq(n_in(ENV_DOOMED_FOLDER), 1);
	cr_assert_eq(gc_packs_list(store, &late, &err), 0);
	(void)collect_after(2);
	cr_assert_eq(n_in(ENV_PACKS_FOLDER), 0);
	(void)collect_after(4);
	cr_assert_eq(n_in("env"), 0);
	/* A new snapshot has the same bytes, and stores the pack again. */
	b = capture_snapshot("V=2", false);
	cr_assert_eq(n_in(ENV_PACKS_FOLDER), 1);
	cr_assert_eq(gc_packs_collect(&late, store, &gc, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(gc.n_leftovers, 0);
	expect_whole(&b);
	gc_packs_fini(&late);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

/* --------------------------------------------------------------------------- copies --- */

static struct object_store *other;
static struct digest copied;

static void copy_once(void)
{
	cr_assert_eq(env_snapshot_copy(store, other, &copied, &err), 0, "%s",
		     err.msg);
}

static void open_other(void)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	AUTO_FREE char *url = NULL;

	cr_assert_gt(asprintf(&url, "file://%s/other", store_dir), 0);
	cr_assert_eq(fs_mkdir_p(url + strlen("file://"), 0755, &err), 0);
	cr_assert_eq(object_store_open(url, &cfg, &other, &err), 0, "%s",
		     err.msg);
}

static void expect_copied(void)
{
	struct env_snapshot b;

	cr_assert_eq(env_snapshot_get(other, &copied, &b, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(env_snapshot_verify(other, &b, &err), 0, "%s", err.msg);
	env_snapshot_fini(&b);
}

static unsigned int n_copied(const char *folder)
{
	unsigned int n = 0;

	cr_assert_eq(object_list(other, folder, true, count_one, &n, &err), 0);
	return n;
}

Test(env_shared, a_copy_that_fails_takes_nothing_but_its_own)
{
	struct env_snapshot a;

	open_other();
	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	copied = a.key.digest;
	before_commit = copy_once;
	cr_expect_eq(env_snapshot_copy(store, other, &copied, &err), -EEXIST);
	expect_copied();
	cr_expect_eq(n_copied(ENV_DATA_FOLDER), n_in(ENV_DATA_FOLDER));
	cr_assert_eq(env_snapshot_remove(other, &copied, &err), 0);
	/* Remove the pack; the store `other` is a folder of `store`, so it is listed there. */
	cr_assert_eq(object_list(store, "other/" ENV_PACKS_FOLDER, true,
				 remove_big, NULL, &err),
		     0);
	cr_assert_eq(object_list(store, ENV_PACKS_FOLDER, true, remove_big,
				 NULL, &err),
		     0);
	cr_expect_lt(env_snapshot_copy(store, other, &copied, &err), 0);
	cr_expect_eq(n_copied(ENV_DATA_FOLDER), 0);
	object_store_free(other);
	env_snapshot_fini(&a);
}

/* --------------------------------------------------------- beside a collection --- */

static void copy_beside(void *arg, const struct env_gc_told *t)
{
	(void)arg;
	cr_expect_eq(t->fate, ENV_GC_UNUSED);
	copy_once();
}

Test(env_shared, a_copy_beside_a_collection_loses_nothing)
{
	struct env_gc gc = { .now_ms = now_ms() + ENV_GRACE_MS + 60000,
			     .keep_bytes = UINT64_MAX,
			     .told = copy_beside };
	struct env_snapshot a, b;
	char name[ENV_NAME_ROOM];

	open_other();
	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	write_big("one", 2);
	b = capture_snapshot("V=2", false);
	cr_assert_eq(env_snapshot_copy(store, other, &b.key.digest, &err), 0);
	/* The blobs of a copy that was interrupted. */
	copied = a.key.digest;
	copy_once();
	env_object_name(ENV_INDEX_FOLDER, &copied, name);
	cr_assert_eq(object_delete(other, name, NULL, &err), 0);
	cr_assert_eq(env_gc(other, &gc, &err), 0, "%s", err.msg);
	cr_expect_eq(gc.n_snapshots, 1);
	expect_copied();
	object_store_free(other);
	env_snapshot_fini(&a);
	env_snapshot_fini(&b);
}

static struct env_snapshot pair[2];
static void (*beside)(struct env_snapshot *other_one);

static enum env_gc_fate fates[2];
static size_t n_fates;

static void note_collected(void *arg, const struct env_gc_told *t)
{
	(void)arg;
	cr_assert_lt(n_fates, 2);
	fates[n_fates++] = t->fate;
	if (beside)
		beside(&pair[digest_equal(t->key, &pair[0].key.digest)]);
	beside = NULL;
}

static void pin_snapshot(struct env_snapshot *s)
{
	cr_assert_eq(env_snapshot_pin(store, &s->key.digest, true, &err), 0);
}

static void touch_snapshot(struct env_snapshot *s)
{
	env_snapshot_touch(store, &s->key.digest, now_ms());
}

static void capture_again(struct env_snapshot *s)
{
	bool is_first = s == &pair[0];

	cr_assert_eq(env_snapshot_remove(store, &s->key.digest, &err), 0);
	env_snapshot_fini(s);
	*s = capture_snapshot(is_first ? "V=1" : "V=2", true);
}

/* Collect two expired snapshots; before the second is removed, `fn` changes it. */
static void collect_beside(void (*fn)(struct env_snapshot *s))
{
	struct env_gc gc = { .now_ms = now_ms() + DAY_MS,
			     .older_ms = 1000,
			     .keep_bytes = UINT64_MAX,
			     .told = note_collected };

	write_big("one", 1);
	pair[0] = capture_snapshot("V=1", true);
	pair[1] = capture_snapshot("V=2", true);
	beside = fn;
	cr_assert_eq(env_gc(store, &gc, &err), 0, "%s", err.msg);
	cr_expect_eq(gc.n_snapshots, 1);
	cr_expect_eq(n_fates, 2);
	cr_expect_eq(fates[0], ENV_GC_UNUSED);
	cr_expect_eq(fates[1], ENV_GC_CHANGED);
	cr_assert_eq(n_in(ENV_INDEX_FOLDER), 1);
	for (size_t i = 0; i < 2; i++) {
		struct env_snapshot s;

		if (env_snapshot_get(store, &pair[i].key.digest, &s, &err) ==
		    0) {
			expect_whole(&s);
			env_snapshot_fini(&s);
		}
		env_snapshot_fini(&pair[i]);
	}
}

Test(env_shared, what_is_pinned_beside_a_collection_stays)
{
	collect_beside(pin_snapshot);
}

Test(env_shared, what_is_used_beside_a_collection_stays)
{
	collect_beside(touch_snapshot);
}

Test(env_shared, what_is_made_anew_beside_a_collection_stays)
{
	collect_beside(capture_again);
}

/* ---------------------------------------------------------------------------- sweep --- */

int __real_object_store_sweep_folder(struct object_store *s, const char *folder,
				     int64_t before_ms, size_t *ret_n,
				     struct error *er);
int __wrap_object_store_sweep_folder(struct object_store *s, const char *folder,
				     int64_t before_ms, size_t *ret_n,
				     struct error *er);

int __wrap_object_store_sweep_folder(struct object_store *s, const char *folder,
				     int64_t before_ms, size_t *ret_n,
				     struct error *er)
{
	return sweep_code
		       ? error_set(er, sweep_code, "refused")
		       : __real_object_store_sweep_folder(s, folder, before_ms,
							  ret_n, er);
}

Test(env_shared, a_collection_whose_sweep_is_refused_is_done_and_says_so)
{
	struct env_gc gc = { .now_ms = now_ms(), .older_ms = -1 };

	sweep_code = EACCES;
	cr_expect_eq(env_gc(store, &gc, &err), 0);
	cr_expect_eq(gc.unswept.code, EACCES);
	sweep_code = EIO;
	cr_expect_eq(env_gc(store, &gc, &err), -EIO);
	cr_expect_str_eq(err.msg, "refused");
}

/* ---------------------------------------------------------------------------- notes --- */

static void put_note(const char *folder, const struct digest *key)
{
	char name[ENV_NAME_ROOM];

	env_object_name(folder, key, name);
	cr_assert_eq(object_put(store, name, "x", 1, NULL, NULL, &err), 0);
}

Test(env_shared, leases_and_notes_go_with_their_environment)
{
	static const char *const folders[] = { ENV_LEASE_FOLDER,
					       ENV_FAILED_FOLDER,
					       ENV_BAD_FOLDER,
					       ENV_USED_FOLDER };
	struct env_snapshot a;
	struct digest gone;

	write_big("one", 1);
	a = capture_snapshot("V=1", false);
	cr_assert_eq(digest_of("gone", 4, &gone), 0);
	for (size_t i = 0; i < 4; i++) {
		put_note(folders[i], &a.key.digest);
		put_note(folders[i], &gone);
	}
	/* The lease may still be in use. */
	(void)collect_after(0);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(n_in(folders[i]), 2);
	(void)collect_after(1);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(n_in(folders[i]), 1);
	env_snapshot_fini(&a);
}

/* ------------------------------------------------------------------- the target --- */

static struct digest put_pack_text(struct shared_target *t, const char *text)
{
	AUTO_CLOSE int fd = -1;
	struct digest d;

	cr_assert_eq(digest_of(text, strlen(text), &d), 0);
	cr_assert_eq(temp_file(NULL, &fd, &err), 0, "%s", err.msg);
	cr_assert_eq(fs_pwrite_full(fd, text, strlen(text), 0), 0);
	cr_assert_eq(t->target.store(&t->target, &d, strlen(text), fd, &err), 0,
		     "%s", err.msg);
	return d;
}

static void put_doomed_mark(const struct digest *d)
{
	char name[ENV_NAME_ROOM];

	env_object_name(ENV_DOOMED_FOLDER, d, name);
	cr_assert_eq(object_put(store, name, "doomed\n", 7, NULL, NULL, &err),
		     0);
}

Test(env_shared, a_pack_that_lies_there_with_other_bytes_is_put_again)
{
	struct env_digests doomed = { .n = 0 };
	AUTO(oci_store) own = NULL;
	struct shared_target t;
	char name[ENV_NAME_ROOM];
	struct digest d;

	cr_assert_eq(oci_objects_new(store, "own", NULL, &own, &err), 0);
	shared_target_init(&t, store, own, &doomed);
	d = put_pack_text(&t, "a pack");
	cr_expect_eq(t.added, 6);
	(void)put_pack_text(&t, "a pack");
	cr_expect_eq(t.added, 6);
	env_object_name(ENV_PACKS_FOLDER, &d, name);
	cr_assert_eq(object_put(store, name, "a pick", 6, NULL, NULL, &err), 0);
	cr_expect(!env_pack_is_there(store, &d, 6));
	(void)put_pack_text(&t, "a pack");
	cr_expect_eq(t.added, 12);
	cr_expect(env_pack_is_there(store, &d, 6));
	shared_target_fini(&t);
}

Test(env_shared,
     a_doomed_pack_is_the_snapshots_own_and_one_doomed_later_is_seen)
{
	struct env_digests doomed = { .n = 0 };
	struct oci_descriptor packs[2];
	struct artifact a = { .packs = packs, .n_packs = 1 };
	AUTO(oci_store) own = NULL;
	struct shared_target t;
	char name[ENV_NAME_ROOM];
	bool is_there;

	cr_assert_eq(oci_objects_new(store, "own", NULL, &own, &err), 0);
	memset(packs, 0, sizeof(packs));
	packs[0].size = packs[1].size = 3;
	cr_assert_eq(digest_of("one", 3, &packs[0].digest), 0);
	put_doomed_mark(&packs[0].digest);
	cr_assert_eq(env_doomed_list(store, &doomed, &err), 0);
	shared_target_init(&t, store, own, &doomed);
	(void)put_pack_text(&t, "one");
	cr_expect(!shared_target_shares(&t, &a));
	cr_assert_eq(oci_has_blob(own, &packs[0].digest, &is_there, &err), 0);
	cr_expect(is_there);
	cr_expect(!env_pack_is_there(store, &packs[0].digest, 3));
	packs[1].digest = put_pack_text(&t, "two");
	a.n_packs = 2;
	cr_expect(shared_target_shares(&t, &a));
	cr_expect_eq(shared_target_check(&t, &a, &err), 0, "%s", err.msg);
	put_doomed_mark(&packs[1].digest);
	cr_expect_eq(shared_target_check(&t, &a, &err), -EAGAIN);
	/* The pack was deleted, and later its mark. */
	env_object_name(ENV_DOOMED_FOLDER, &packs[1].digest, name);
	cr_assert_eq(object_delete(store, name, NULL, &err), 0);
	cr_expect_eq(shared_target_check(&t, &a, &err), 0);
	env_object_name(ENV_PACKS_FOLDER, &packs[1].digest, name);
	cr_assert_eq(object_delete(store, name, NULL, &err), 0);
	cr_expect_eq(shared_target_check(&t, &a, &err), -EAGAIN);
	shared_target_fini(&t);
	env_digests_fini(&doomed);
}

/* --------------------------------------------------------------------- the bases --- */

Test(env_shared, bases_are_those_with_most_in_common)
{
	struct env_snapshot s[3];
	struct env_base list[ENV_BASES_MAX];
	struct env_key key = { .n = 0 };
	size_t n = 0;

	write_big("one", 1);
	s[0] = capture_snapshot("V=1", false);
	s[1] = capture_snapshot("W=2",
				true); /* shares no packs, so it is no base */
	s[2] = capture_snapshot("V=3", false);
	cr_assert_eq(env_bases_choose(store, &s[0].key, list, &n, &err), 0);
	cr_assert_eq(n, 2);
	cr_expect(digest_equal(&list[0].key, &s[0].key.digest));
	cr_expect(digest_equal(&list[1].key, &s[2].key.digest));
	n = 0;
	cr_assert_eq(env_bases_choose(store, &key, list, &n, &err), 0);
	cr_expect_eq(n, 2);
	for (size_t i = 0; i < 3; i++)
		env_snapshot_fini(&s[i]);
}
