// SPDX-License-Identifier: Apache-2.0
/* Tests two writers of the same path: the second to commit gets an error, and the first one's file
 * stays. docs/decisions/0017-two-writers.md lists the cases. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(versions, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

#define LARGE (2 * UNIT + 1)
#define SMALL 100

/* A writer that knows the current version. */
struct seeing_writer {
	struct ckpt_version version;
	struct ckpt_writer *w;
	uint64_t size;
	const char *from;
};

static struct ckpt_version look(const char *path)
{
	struct error err = ERROR_INIT;
	struct ckpt_version v;
	int rc = ckpt_look(store, path, &v, NULL, &err);

	cr_assert(rc == 0 || rc == -ENOENT, "%s", err.msg);
	cr_assert(v.is_known);
	return v;
}

static void open_writer(struct seeing_writer *s)
{
	struct ckpt_write_options o = { .size = s->size,
					.columns = 2,
					.attr = { .mode = 0644 },
					.version = &s->version };
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_write_open(store, "f", &o, &s->w, &err), 0, "%s",
		     err.msg);
	write_units(s->w, s->from, s->size);
}

static void see(struct seeing_writer *s, const char *from, uint64_t size)
{
	*s = (struct seeing_writer){ .size = size, .from = from };
	s->version = look("f");
	open_writer(s);
}

static int end(struct seeing_writer *s, struct error *err)
{
	int rc = ckpt_commit(s->w, NULL, err);

	ckpt_writer_free(s->w);
	return rc;
}

static void expect_told(struct seeing_writer *s)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(end(s, &err), -ESTALE, "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, "'f' was written by another"), "%s",
			   err.msg);
}

static void expect_taken(struct seeing_writer *s)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(end(s, &err), 0, "%s", err.msg);
	expect_file("f", s->from, s->size);
}

/* Two writers begin with the same version: the second gets an error, and nothing of it stays. */
static void expect_first_wins(uint64_t before, uint64_t first, uint64_t second)
{
	struct seeing_writer a, b;
	size_t columns;

	if (before)
		put("f", data + 3, before, 1);
	see(&a, data, first);
	see(&b, data + 7, second);
	expect_taken(&a);
	columns = n_columns();
	expect_told(&b);
	expect_file("f", data, first);
	cr_expect_leq(n_columns(), columns);
}

Test(versions, of_a_file_that_was_not_there_belong_to_whoever_was_first)
{
	expect_first_wins(0, LARGE, LARGE);
	cr_expect_eq(ckpt_remove(store, "f", NULL), 0);
	expect_first_wins(0, SMALL, SMALL);
	cr_expect_eq(ckpt_remove(store, "f", NULL), 0);
	expect_first_wins(0, SMALL, LARGE);
	cr_expect_eq(ckpt_remove(store, "f", NULL), 0);
	expect_first_wins(0, LARGE, SMALL);
}

Test(versions, of_a_large_file_belong_to_whoever_was_first)
{
	expect_first_wins(LARGE, LARGE, LARGE);
	expect_first_wins(LARGE, SMALL, SMALL);
	expect_first_wins(LARGE, SMALL, LARGE);
	expect_first_wins(LARGE, LARGE, SMALL);
}

Test(versions, of_a_small_file_belong_to_whoever_was_first)
{
	expect_first_wins(SMALL, LARGE, LARGE);
	cr_expect_eq(ckpt_remove(store, "f", NULL), 0);
	expect_first_wins(SMALL, SMALL, SMALL);
	expect_first_wins(SMALL, SMALL, LARGE);
	expect_first_wins(SMALL, LARGE, SMALL);
}

/* fsync twice, then close: each commit uses the version left by the one before. */
Test(versions, of_one_writer_follow_one_another)
{
	static const uint64_t sizes[] = { SMALL, LARGE, LARGE,
					  SMALL, SMALL, LARGE };
	struct seeing_writer s;

	see(&s, data, SMALL);
	expect_taken(&s);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		s.size = sizes[i];
		open_writer(&s);
		expect_taken(&s);
	}
}

static void change_attributes(void)
{
	const struct ckpt_attr attr = { .mode = 0600, .uid = 1 };
	const struct xattr_change c = { .name = "user.a",
					.value = "b",
					.len = 1 };
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_set_attr(store, "f", &attr, &err), 0, "%s", err.msg);
	cr_assert_eq(ckpt_change_xattr(store, "f", false, &c, &err), 0, "%s",
		     err.msg);
}

Test(versions, with_other_attributes_are_the_same_file)
{
	struct seeing_writer s;
	struct ckpt_stat st;

	put("f", data + 3, LARGE, 2);
	see(&s, data, LARGE);
	change_attributes();
	expect_taken(&s);
	/* The generation is one more than after the last change. */
	cr_assert_eq(ckpt_stat(store, "f", &st, NULL), 0);
	cr_expect_eq(st.generation, 4);
	see(&s, data + 1, SMALL);
	change_attributes();
	expect_taken(&s);
}

Test(versions, that_are_gone_are_nobodys)
{
	struct seeing_writer s;
	struct error err = ERROR_INIT;

	put("f", data + 3, LARGE, 2);
	see(&s, data, LARGE);
	cr_expect_eq(ckpt_rename(store, "f", "g", &err), 0, "%s", err.msg);
	expect_taken(&s);
	expect_file("g", data + 3, LARGE);
	see(&s, data + 1, SMALL);
	cr_expect_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	expect_taken(&s);
	see(&s, data + 2, LARGE);
	cr_expect_eq(ckpt_remove(store, "f", &err), 0, "%s", err.msg);
	expect_taken(&s);
}

/* The version that a plain object replaces is gone: it is written again. */
Test(versions, of_a_small_file_that_is_gone_are_written_again)
{
	struct seeing_writer s;
	struct error err = ERROR_INIT;

	put("f", data + 3, SMALL, 0);
	see(&s, data, SMALL);
	cr_expect_eq(ckpt_rename(store, "f", "g", &err), 0, "%s", err.msg);
	cr_expect_eq(end(&s, &err), -EAGAIN, "%s", err.msg);
	open_writer(&s);
	expect_taken(&s);
}

/* A killed writer left a plain object below a manifest; gc removes it. */
Test(versions, that_a_manifest_hides_are_no_file)
{
	struct ckpt_gc gc = { .older_ms = 0 };
	struct seeing_writer s;
	struct error err = ERROR_INIT;

	put("f", data + 3, LARGE, 2);
	put_object("f", data, SMALL);
	see(&s, data + 1, SMALL);
	expect_taken(&s);
	put("f", data + 3, LARGE, 2);
	put_object("f", data, SMALL);
	see(&s, data, LARGE);
	cr_expect_eq(ckpt_gc(store, &gc, &err), 0, "%s", err.msg);
	cr_expect_not(is_object("f"));
	expect_taken(&s);
	/* The plain object becomes the file if the manifest is removed. */
	put_object("f", data, SMALL);
	see(&s, data + 1, LARGE);
	cr_expect_eq(object_delete(store, "f.bsm", NULL, &err), 0);
	expect_told(&s);
	expect_file("f", data, SMALL);
}

Test(versions, of_other_programs_are_somebody_elses_too)
{
	struct seeing_writer s;

	see(&s, data, LARGE);
	put_object("f", data + 1, 9);
	expect_told(&s);
	expect_file("f", data + 1, 9);
	see(&s, data, SMALL);
	put_object("f", data + 2, 9);
	expect_told(&s);
	expect_file("f", data + 2, 9);
}

Test(versions, that_are_damaged_can_be_replaced)
{
	struct error err = ERROR_INIT;
	struct seeing_writer s = { .size = LARGE, .from = data };

	put_object("f.bsm", "damaged", 7);
	cr_expect_eq(ckpt_look(store, "f", &s.version, NULL, &err), -EBADMSG);
	open_writer(&s);
	expect_taken(&s);
	s.size = SMALL;
	put_object("f.bsm", "damaged", 7);
	cr_expect_eq(ckpt_look(store, "f", &s.version, NULL, &err), -EBADMSG);
	open_writer(&s);
	expect_taken(&s);
}

/* Generations grow also if nothing is compared or the manifest's end is damaged. */
Test(versions, have_numbers_that_grow)
{
	struct ckpt_stat st = put("f", data, LARGE, 2);
	struct manifest *m;
	AUTO_BUF bytes = BUF_INIT;
	struct error err = ERROR_INIT;

	cr_expect_eq(st.generation, 1);
	st = put("f", data, LARGE, 2);
	cr_expect_eq(st.generation, 2);
	m = manifest_of("f");
	cr_assert_eq(manifest_encode(m, &bytes, &err), 0);
	manifest_free(m);
	put_object("f.bsm", bytes.data, bytes.len - 1);
	st = put("f", data, LARGE, 2);
	cr_expect_eq(st.generation, 3);
	put_object("f.bsm", "short", 5);
	st = put("f", data, LARGE, 2);
	cr_expect_eq(st.generation, 1);
}
