// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "containerd-plugin/store.h"

TestSuite(store, .timeout = 120);

static char dir[] = "/tmp/bootseer-store.XXXXXX";
static char path[64];

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/db", dir);
}

static void tear_down(void)
{
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}

static struct store *open_store(void)
{
	struct error err = ERROR_INIT;
	struct store *s = NULL;

	cr_assert_eq(store_open(path, &s, &err), 0, "%s", err.msg);
	return s;
}

static int insert(struct store *s, const char *name, const char *parent,
		  enum snapshot_kind kind)
{
	struct snapshot snap = { .id = store_next_id(s),
				 .name = (char *)(uintptr_t)name,
				 .parent = (char *)(uintptr_t)parent,
				 .kind = kind,
				 .size = -1,
				 .inodes = -1 };
	int rc;

	cr_assert_eq(labels_set(&snap.labels, "name", name, NULL), 0);
	rc = store_insert(s, &snap, NULL);
	labels_fini(&snap.labels);
	return rc;
}

static int commit(struct store *s, const char *key, const char *name,
		  const char *parent)
{
	struct labels none = LABELS_INIT;

	return store_commit(s, key, name, parent, &none, NULL);
}

Test(store, prepare_and_commit_make_a_chain, .init = set_up, .fini = tear_down)
{
	struct store *s = open_store();
	struct snapshot *chain;
	size_t n;

	cr_expect(store_is_new(s));
	cr_assert_eq(insert(s, "a", "", SNAPSHOT_KIND_ACTIVE), 0);
	cr_expect_eq(insert(s, "a", "", SNAPSHOT_KIND_ACTIVE), -EEXIST);
	cr_expect_eq(insert(s, "b", "a", SNAPSHOT_KIND_ACTIVE), -EINVAL);
	cr_expect_eq(insert(s, "b", "none", SNAPSHOT_KIND_ACTIVE), -ENOENT);
	cr_assert_eq(commit(s, "a", "A", NULL), 0);
	cr_expect_eq(commit(s, "A", "B", NULL), -EBUSY);
	cr_expect_eq(commit(s, "a", "B", NULL), -ENOENT);
	cr_assert_eq(insert(s, "b", "A", SNAPSHOT_KIND_ACTIVE), 0);
	cr_expect_eq(commit(s, "b", "A", NULL), -EEXIST);
	cr_assert_eq(commit(s, "b", "B", NULL), 0);
	cr_assert_eq(insert(s, "v", "B", SNAPSHOT_KIND_VIEW), 0);
	cr_assert_eq(store_chain(s, "v", &chain, &n, NULL), 0);
	cr_assert_eq(n, 3);
	cr_expect_str_eq(chain[0].parent, "B");
	cr_expect_str_eq(chain[1].name, "B");
	cr_expect_str_eq(chain[2].name, "A");
	cr_expect_str_eq(chain[2].parent, "");
	cr_expect_eq(chain[1].labels.n, 0); /* replaced by Commit */
	snapshots_free(chain, n);
	store_close(s);
}

/* The layer was then unpacked without those below it: whiteouts are lost. */
Test(store, a_commit_that_brings_the_parent_is_refused, .init = set_up,
     .fini = tear_down)
{
	struct labels none = LABELS_INIT;
	struct error err = ERROR_INIT;
	struct store *s = open_store();
	struct snapshot snap;

	cr_assert_eq(insert(s, "a", "", SNAPSHOT_KIND_ACTIVE), 0);
	cr_assert_eq(insert(s, "x", "", SNAPSHOT_KIND_ACTIVE), 0);
	cr_assert_eq(commit(s, "x", "X", ""), 0);
	cr_expect_eq(store_commit(s, "a", "A", "X", &none, &err), -EBUSY);
	cr_expect_neq(strstr(err.msg, "\"rebase\""), NULL, "%s", err.msg);
	cr_expect_eq(store_get(s, "A", &snap, NULL), -ENOENT);
	cr_assert_eq(insert(s, "b", "X", SNAPSHOT_KIND_ACTIVE), 0);
	cr_expect_eq(commit(s, "b", "B", "A"), -EINVAL);
	cr_assert_eq(commit(s, "b", "B", "X"), 0);
	cr_assert_eq(store_get(s, "B", &snap, NULL), 0);
	cr_expect_str_eq(snap.parent, "X");
	snapshot_fini(&snap);
	store_close(s);
}

Test(store, remove_leaves_garbage_and_not_what_others_need, .init = set_up,
     .fini = tear_down)
{
	struct store *s = open_store();
	struct garbage *g;
	size_t n;

	cr_assert_eq(insert(s, "a", "", SNAPSHOT_KIND_COMMITTED), 0);
	cr_assert_eq(insert(s, "b", "a", SNAPSHOT_KIND_ACTIVE), 0);
	cr_expect_eq(store_remove(s, "a", NULL), -EBUSY);
	cr_expect_eq(store_remove(s, "none", NULL), -ENOENT);
	cr_expect_eq(store_remove(s, "b", NULL), 0);
	cr_expect_eq(store_remove(s, "a", NULL), 0);
	store_close(s);

	s = open_store();
	cr_expect_not(store_is_new(s));
	cr_assert_eq(store_garbage(s, &g, &n, NULL), 0);
	cr_assert_eq(n, 2);
	/* Their folders are still there: no new one may get their ids. */
	cr_expect_gt(store_next_id(s), g[0].id);
	cr_expect_gt(store_next_id(s), g[1].id);
	cr_expect_eq(store_garbage_done(s, g[0].id, NULL), 0);
	free(g);
	cr_assert_eq(store_garbage_add(s, 1000, NULL), 0);
	cr_expect_gt(store_next_id(s), 1000);
	cr_assert_eq(store_garbage(s, &g, &n, NULL), 0);
	cr_expect_eq(n, 2);
	free(g);
	store_close(s);
}

Test(store, an_id_never_comes_again, .init = set_up, .fini = tear_down)
{
	struct store *s = open_store();
	struct snapshot snap;
	uint64_t id;

	cr_assert_eq(insert(s, "a", "", SNAPSHOT_KIND_ACTIVE), 0);
	cr_assert_eq(insert(s, "b", "", SNAPSHOT_KIND_ACTIVE), 0);
	cr_assert_eq(store_get(s, "b", &snap, NULL), 0);
	id = snap.id;
	snapshot_fini(&snap);
	cr_assert_eq(store_remove(s, "b", NULL), 0);
	cr_assert_eq(store_garbage_done(s, id, NULL), 0);
	store_close(s);

	s = open_store();
	cr_expect_gt(store_next_id(s), id);
	store_close(s);
}

Test(store, update_changes_only_what_is_named, .init = set_up,
     .fini = tear_down)
{
	static const char *const one[] = { "labels.l1", "labels.l2" };
	static const char *const bad[] = { "labels.l1", "parent" };
	struct labels l = LABELS_INIT;
	struct store *s = open_store();
	struct snapshot snap;

	cr_assert_eq(insert(s, "a", "", SNAPSHOT_KIND_ACTIVE), 0);
	cr_assert_eq(labels_set(&l, "l1", "1", NULL), 0);
	cr_assert_eq(labels_set(&l, "l2", "2", NULL), 0);
	cr_assert_eq(labels_set(&l, "l3", "3", NULL), 0);
	cr_assert_eq(store_update(s, "a", &l, NULL, 0, &snap, NULL), 0);
	cr_expect_eq(snap.labels.n, 3);
	cr_expect_gt(snap.updated_ns, snap.created_ns);
	snapshot_fini(&snap);
	cr_assert_eq(labels_set(&l, "l1", "one", NULL), 0);
	cr_assert_eq(labels_set(&l, "l2", "", NULL), 0);
	cr_assert_eq(labels_set(&l, "l3", "three", NULL), 0);
	cr_assert_eq(store_update(s, "a", &l, one, 2, &snap, NULL), 0);
	cr_expect_str_eq(labels_get(&snap.labels, "l1"), "one");
	cr_expect_null(labels_get(&snap.labels, "l2"));
	cr_expect_str_eq(labels_get(&snap.labels, "l3"), "3");
	snapshot_fini(&snap);
	cr_assert_eq(labels_set(&l, "l1", "lost", NULL), 0);
	cr_expect_eq(store_update(s, "a", &l, bad, 2, &snap, NULL), -EINVAL);
	cr_assert_eq(store_get(s, "a", &snap, NULL), 0);
	cr_expect_str_eq(labels_get(&snap.labels, "l1"), "one");
	snapshot_fini(&snap);
	labels_fini(&l);
	store_close(s);
}

Test(store, a_list_goes_on_after_a_name, .init = set_up, .fini = tear_down)
{
	struct store *s = open_store();
	struct snapshot *v;
	char name[16];
	size_t n;

	for (int i = 0; i < 25; i++) {
		snprintf(name, sizeof(name), "s%02d", i);
		cr_assert_eq(insert(s, name, "", SNAPSHOT_KIND_ACTIVE), 0);
	}
	cr_assert_eq(store_list(s, "", 10, &v, &n, NULL), 0);
	cr_assert_eq(n, 10);
	cr_expect_str_eq(v[9].name, "s09");
	snapshots_free(v, n);
	cr_assert_eq(store_list(s, "s19", 10, &v, &n, NULL), 0);
	cr_assert_eq(n, 5);
	cr_expect_str_eq(v[0].name, "s20");
	snapshots_free(v, n);
	store_close(s);
}

Test(store, a_lazy_layer_keeps_where_it_came_from, .init = set_up,
     .fini = tear_down)
{
	char name[] = "n", parent[] = "", image[] = "host/repo:tag";
	struct store *s = open_store();
	struct snapshot snap = { .id = store_next_id(s),
				 .name = name,
				 .parent = parent,
				 .kind = SNAPSHOT_KIND_COMMITTED,
				 .remote = true,
				 .has_tree = true,
				 .image = image,
				 .layer = 7,
				 .tree.b = { 1, 2 },
				 .manifest.b = { 3, 4 } };
	struct snapshot got;
	struct garbage *g;
	size_t n;

	cr_assert_eq(store_insert(s, &snap, NULL), 0);
	store_close(s);
	s = open_store();
	cr_assert_eq(store_get(s, "n", &got, NULL), 0);
	cr_expect(got.remote && got.has_tree && !got.unpacked);
	cr_expect_str_eq(got.image, "host/repo:tag");
	cr_expect_eq(got.layer, 7);
	cr_expect(digest_equal(&got.tree, &snap.tree));
	cr_expect(digest_equal(&got.manifest, &snap.manifest));
	snapshot_fini(&got);
	cr_assert_eq(store_set_tree(s, snap.id, NULL, NULL), 0);
	cr_assert_eq(store_set_unpacked(s, snap.id, NULL), 0);
	cr_assert_eq(store_get(s, "n", &got, NULL), 0);
	cr_expect(got.unpacked && !got.has_tree);
	snapshot_fini(&got);
	cr_assert_eq(store_set_tree(s, snap.id, &snap.tree, NULL), 0);
	cr_assert_eq(store_remove(s, "n", NULL), 0);
	cr_assert_eq(store_garbage(s, &g, &n, NULL), 0);
	cr_assert_eq(n, 1);
	cr_expect(g[0].has_tree && digest_equal(&g[0].tree, &snap.tree));
	free(g);
	store_close(s);
}

/* What was answered is there after the process was killed at any moment. */
/* Two calls at once want to: the tree stays that of the one which mounts it. */
Test(store, a_layer_becomes_a_top_once, .init = set_up, .fini = tear_down)
{
	char name[] = "n", parent[] = "", image[] = "host/repo:tag";
	struct store *s = open_store();
	struct snapshot snap = { .id = store_next_id(s),
				 .name = name,
				 .parent = parent,
				 .kind = SNAPSHOT_KIND_COMMITTED,
				 .remote = true,
				 .image = image };
	struct snapshot top = { .image = image, .tree.b = { 1 } }, got;

	cr_assert_eq(store_insert(s, &snap, NULL), 0);
	cr_expect_eq(store_set_top(s, snap.id, &top, NULL), 0);
	top.tree.b[0] = 2;
	cr_expect_eq(store_set_top(s, snap.id, &top, NULL), -EBUSY);
	cr_assert_eq(store_get(s, "n", &got, NULL), 0);
	cr_expect(got.has_tree);
	cr_expect_eq(got.tree.b[0], 1);
	snapshot_fini(&got);
	cr_expect_eq(store_set_tree(s, snap.id, NULL, NULL), 0);
	cr_expect_eq(store_set_top(s, snap.id, &top, NULL), 0);
	store_close(s);
}

Test(store, a_killed_process_loses_nothing_that_it_answered, .init = set_up,
     .fini = tear_down)
{
	for (int round = 0; round < 5; round++) {
		struct snapshot snap;
		int fds[2], last = -1, n;
		struct store *s;
		char name[32];
		pid_t pid;

		cr_assert_eq(pipe(fds), 0);
		pid = fork();
		if (pid == 0) {
			s = open_store();
			for (int i = 0;; i++) {
				snprintf(name, sizeof(name), "r%d-%d", round,
					 i);
				if (insert(s, name, "", SNAPSHOT_KIND_ACTIVE) ||
				    write(fds[1], &i, sizeof(i)) != sizeof(i))
					_exit(1);
			}
		}
		close(fds[1]);
		while (last < 20 * (round + 1) &&
		       read(fds[0], &n, sizeof(n)) == sizeof(n))
			last = n;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		while (read(fds[0], &n, sizeof(n)) == sizeof(n))
			last = n;
		close(fds[0]);
		s = open_store();
		for (int i = 0; i <= last; i++) {
			snprintf(name, sizeof(name), "r%d-%d", round, i);
			cr_assert_eq(store_get(s, name, &snap, NULL), 0);
			snapshot_fini(&snap);
		}
		store_close(s);
	}
}

static void copy_file(const char *suffix, const char *to_dir, size_t max)
{
	AUTO_BUF from = BUF_INIT;
	AUTO_BUF to = BUF_INIT;
	AUTO_BUF data = BUF_INIT;

	cr_assert_eq(buf_printf(&from, "%s%s", path, suffix), 0);
	cr_assert_eq(buf_printf(&to, "%s/db%s", to_dir, suffix), 0);
	cr_assert_eq(fs_read_file(from.data, 1 << 24, &data, NULL), 0);
	cr_assert_eq(fs_replace_file(to.data, data.data,
				     data.len < max ? data.len : max, 0600,
				     NULL),
		     0);
}

/* How many of s00, s01, ... are there; none may be missing in between. */
static int count_prefix(struct store *s, int n_total)
{
	struct snapshot snap;
	char name[16];
	int n = 0;

	for (int i = 0; i < n_total; i++) {
		snprintf(name, sizeof(name), "s%02d", i);
		if (store_get(s, name, &snap, NULL) < 0)
			continue;
		cr_assert_eq(n, i, "%s is there without the one before", name);
		snapshot_fini(&snap);
		n++;
	}
	return n;
}

/* A log that ends anywhere, as an unsynced write leaves it, is a shorter past. */
Test(store, a_torn_log_holds_what_was_before, .init = set_up, .fini = tear_down)
{
	char torn[] = "/tmp/bootseer-torn.XXXXXX", name[16];
	struct store *s = open_store(), *t;
	int last = 0, n;

	cr_assert_not_null(mkdtemp(torn));
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "s%02d", i);
		cr_assert_eq(insert(s, name, "", SNAPSHOT_KIND_ACTIVE), 0);
	}
	for (size_t cut = 60000; cut < 700000; cut += 7919) {
		struct error err = ERROR_INIT;
		AUTO_BUF to = BUF_INIT;

		copy_file("", torn, SIZE_MAX);
		copy_file("-wal", torn, cut);
		cr_assert_eq(buf_printf(&to, "%s/db", torn), 0);
		cr_assert_eq(store_open(to.data, &t, &err), 0, "%s", err.msg);
		n = count_prefix(t, 20);
		cr_expect_geq(n, last);
		last = n;
		store_close(t);
		cr_assert_eq(fs_remove_tree(torn, NULL), 0);
		cr_assert_eq(mkdir(torn, 0700), 0);
	}
	cr_expect_eq(last, 20);
	store_close(s);
	cr_expect_eq(fs_remove_tree(torn, NULL), 0);
}

Test(store, a_damaged_or_newer_file_is_refused, .init = set_up,
     .fini = tear_down)
{
	struct error err = ERROR_INIT;
	struct store *s;

	cr_assert_eq(fs_replace_file(path,
				     "this is no database at all, but it "
				     "is long enough to be read as one ......."
				     "......................................",
				     110, 0600, &err),
		     0);
	cr_expect_lt(store_open(path, &s, &err), 0);
	cr_expect(strstr(err.msg, path));
}
