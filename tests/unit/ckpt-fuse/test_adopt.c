// SPDX-License-Identifier: Apache-2.0
/* Tests of changing a file's layout, also if the process is killed at any moment. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(adopt, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

#define LARGE (3 * UNIT + 5)
#define KILLED 9

/* Linked with --wrap: all changes of the store call this. The process ends before or after the
 * change at which `left` reaches 0. */
static int left = -1;

static void count_down(void)
{
	if (left >= 0 && left-- == 0)
		_exit(KILLED);
}

int __real_object_put_commit(struct object_put *p, struct object_stat *ret,
			     struct error *err);
int __wrap_object_put_commit(struct object_put *p, struct object_stat *ret,
			     struct error *err);
int __real_object_put(struct object_store *s, const char *name,
		      const void *bytes, size_t len,
		      const struct object_put_options *opts,
		      struct object_stat *ret, struct error *err);
int __wrap_object_put(struct object_store *s, const char *name,
		      const void *bytes, size_t len,
		      const struct object_put_options *opts,
		      struct object_stat *ret, struct error *err);
int __real_object_delete(struct object_store *s, const char *name,
			 const char *tag, struct error *err);
int __wrap_object_delete(struct object_store *s, const char *name,
			 const char *tag, struct error *err);

int __wrap_object_put_commit(struct object_put *p, struct object_stat *ret,
			     struct error *err)
{
	int rc;

	count_down();
	rc = __real_object_put_commit(p, ret, err);
	count_down();
	return rc;
}

int __wrap_object_put(struct object_store *s, const char *name,
		      const void *bytes, size_t len,
		      const struct object_put_options *opts,
		      struct object_stat *ret, struct error *err)
{
	int rc;

	count_down();
	rc = __real_object_put(s, name, bytes, len, opts, ret, err);
	count_down();
	return rc;
}

int __wrap_object_delete(struct object_store *s, const char *name,
			 const char *tag, struct error *err)
{
	int rc;

	count_down();
	rc = __real_object_delete(s, name, tag, err);
	count_down();
	return rc;
}

static struct ckpt_adopt adopt(const char *path, struct ckpt_adopt a)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_adopt(store, path, &a, NULL, &err), 0, "%s", err.msg);
	return a;
}

static struct ckpt_stat stat_of(const char *path)
{
	struct error err = ERROR_INIT;
	struct ckpt_stat st;

	cr_assert_eq(ckpt_stat(store, path, &st, &err), 0, "%s", err.msg);
	return st;
}

Test(adopt, makes_a_plain_object_striped_with_its_time)
{
	const struct ckpt_adopt a = {
		.threshold = UNIT, .columns = 3, .uid = 7, .gid = 8
	};
	struct ckpt_adopt dry = a;
	struct ckpt_stat st;

	put_object("f", data, LARGE);
	make_old("f");
	dry.dry_run = true;
	cr_expect(adopt("f", dry).is_changed);
	cr_expect_not(stat_of("f").is_striped);
	cr_expect(adopt("f", a).is_changed);
	st = stat_of("f");
	cr_expect(st.is_striped);
	cr_expect_eq(st.columns, 3);
	cr_expect_eq(st.attr.mode, 0644);
	cr_expect_eq(st.attr.uid, 7);
	cr_expect_eq(st.attr.gid, 8);
	cr_expect_eq(st.attr.mtime_ns, LONG_AGO * INT64_C(1000000000));
	cr_expect_not(is_object("f"));
	expect_file("f", data, LARGE);
	/* The file has the right layout already. */
	cr_expect_not(adopt("f", a).is_changed);
}

Test(adopt, leaves_what_is_not_longer_than_the_threshold)
{
	struct ckpt_adopt a = { .threshold = 10 };

	put_object("empty", "", 0);
	put_object("short", data, 10);
	put_object("long", data, 11);
	cr_expect_not(adopt("short", a).is_changed);
	cr_expect(adopt("long", a).is_changed);
	cr_expect(stat_of("long").is_striped);
	expect_file("long", data, 11);
	a.threshold = 0;
	cr_expect_not(adopt("empty", a).is_changed);
}

Test(adopt, makes_a_striped_file_plain_unless_that_loses_something)
{
	struct ckpt_adopt a = { .to_plain = true, .uid = 7, .gid = 8 };
	const struct xattr_change x = { .name = "user.a",
					.value = "b",
					.len = 1 };
	struct ckpt_attr attr = { .mode = 0640, .uid = 7, .gid = 8 };
	struct error err = ERROR_INIT;

	put("f", data, LARGE, 2);
	cr_assert_eq(ckpt_set_attr(store, "f", &attr, &err), 0);
	cr_expect_eq(ckpt_adopt(store, "f", &a, NULL, &err), -ENOTSUP);
	cr_expect_not_null(strstr(err.msg, "permissions 0640 and owner 7:8"),
			   "%s", err.msg);
	attr.mode = 0644;
	cr_assert_eq(ckpt_set_attr(store, "f", &attr, &err), 0);
	cr_assert_eq(ckpt_change_xattr(store, "f", false, &x, &err), 0);
	a.dry_run = true;
	cr_expect_eq(ckpt_adopt(store, "f", &a, NULL, &err), -ENOTSUP);
	cr_expect_not_null(strstr(err.msg, "extended attributes"), "%s",
			   err.msg);
	a.dry_run = false;
	cr_expect(stat_of("f").is_striped);
	a.may_lose = true;
	cr_expect(adopt("f", a).is_changed);
	cr_expect_not(stat_of("f").is_striped);
	cr_expect_not(is_object("f.bsm"));
	expect_file("f", data, LARGE);
	cr_expect_not(adopt("f", a).is_changed);
}

static void write_plain(void *arg, uint64_t done, uint64_t total)
{
	put_object("f", data + 1, 77);
}

static void write_striped(void *arg, uint64_t done, uint64_t total)
{
	put("f", data + 2, UNIT + 1, 1);
}

Test(adopt, leaves_what_is_written_meanwhile_to_whoever_writes_it)
{
	static const struct {
		ckpt_progress_fn *fn;
		size_t off, size;
	} others[] = { { write_plain, 1, 77 }, { write_striped, 2, UNIT + 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		for (int to_plain = 0; to_plain < 2; to_plain++) {
			struct ckpt_progress p = { .fn = others[i].fn };
			struct ckpt_adopt a = { .to_plain = to_plain,
						.may_lose = true };
			struct error err = ERROR_INIT;

			/* A plain object below a manifest is not a file. */
			if (to_plain && others[i].fn == write_plain)
				continue;
			if (to_plain)
				put("f", data, UNIT, 1);
			else
				put_object("f", data, UNIT);
			if (to_plain)
				adopt("f",
				      (struct ckpt_adopt){ .threshold = 0 });
			cr_expect_eq(ckpt_adopt(store, "f", &a, &p, &err),
				     -ESTALE, "%s", err.msg);
			expect_file("f", data + others[i].off, others[i].size);
			cr_expect_eq(ckpt_remove(store, "f", &err), 0, "%s",
				     err.msg);
		}
}

/* Run in a child process with a store of its own; true: it was not killed. */
static bool is_done_before(int killed_at, bool to_plain)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct ckpt_adopt a = { .to_plain = to_plain,
				.columns = 2,
				.may_lose = true };
	AUTO_FREE char *url = strdup(object_store_url(store));
	struct object_store *own;
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		cfg.memory = CKPT_TEST_MEMORY;
		if (object_store_open(url, &cfg, &own, NULL) < 0)
			_exit(1);
		left = killed_at;
		_exit(ckpt_adopt(own, "f", &a, NULL, NULL) < 0 ||
		      !a.is_changed);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_assert(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED,
		  "killed at %d: %d", killed_at, WEXITSTATUS(status));
	return WEXITSTATUS(status) == 0;
}

static void kill_at_each(bool to_plain)
{
	struct ckpt_gc gc = { .older_ms = 0 };
	struct error err = ERROR_INIT;
	bool is_done = false;
	int n = 0;

	for (; !is_done; n++) {
		if (to_plain)
			put("f", data, UNIT + 9, 2);
		else
			put_object("f", data, UNIT + 9);
		is_done = is_done_before(n, to_plain);
		expect_file("f", data, UNIT + 9);
		cr_assert_eq(ckpt_gc(store, &gc, &err), 0, "%s", err.msg);
		expect_file("f", data, UNIT + 9);
		cr_expect_eq(n_columns(), is_object("f.bsm") ? 2 : 0);
		cr_assert_neq(is_object("f"), is_object("f.bsm"));
		cr_assert_eq(ckpt_remove(store, "f", &err), 0);
		cr_assert_eq(ckpt_gc(store, &gc, &err), 0);
	}
	/* At least before and after: the columns, the manifest, the removal of the plain object. */
	cr_expect_geq(n, 5);
}

Test(adopt, leaves_the_old_or_the_new_file_wherever_it_is_killed)
{
	kill_at_each(false);
	kill_at_each(true);
}
