// SPDX-License-Identifier: Apache-2.0
/* Tests two writers of a file: the second commits directly after the first has put its object. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>

TestSuite(race, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

static void (*after_put)(void); /* hook that runs once */

static void put_is_done(void)
{
	void (*fn)(void) = after_put;

	after_put = NULL;
	if (fn)
		fn();
}

/* Linked with --wrap: all puts of ckpt-fuse/ call this. */
int __real_object_put(struct object_store *s, const char *name,
		      const void *bytes, size_t len,
		      const struct object_put_options *opts,
		      struct object_stat *ret, struct error *err);
int __wrap_object_put(struct object_store *s, const char *name,
		      const void *bytes, size_t len,
		      const struct object_put_options *opts,
		      struct object_stat *ret, struct error *err);
int __real_object_put_commit(struct object_put *p, struct object_stat *ret,
			     struct error *err);
int __wrap_object_put_commit(struct object_put *p, struct object_stat *ret,
			     struct error *err);

int __wrap_object_put(struct object_store *s, const char *name,
		      const void *bytes, size_t len,
		      const struct object_put_options *opts,
		      struct object_stat *ret, struct error *err)
{
	int rc = __real_object_put(s, name, bytes, len, opts, ret, err);

	put_is_done();
	return rc;
}

int __wrap_object_put_commit(struct object_put *p, struct object_stat *ret,
			     struct error *err)
{
	int rc = __real_object_put_commit(p, ret, err);

	put_is_done();
	return rc;
}

static void commit(struct ckpt_writer *w)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(ckpt_commit(w, NULL, &err), 0, "%s", err.msg);
	ckpt_writer_free(w);
}

static void put_plain(void)
{
	put("f", data + 1, 100, 0);
}

static void put_striped(void)
{
	put("f", data + 2, UNIT + 1, 1);
}

/* Set the hook for the manifest: the puts of columns come before it. */
static void arm_at_manifest(void)
{
	after_put = put_plain;
}

Test(race, a_striped_file_does_not_take_the_plain_one_after_it)
{
	struct ckpt_writer *w = begin("f", UNIT + 1, 1);

	write_units(w, data, UNIT + 1);
	after_put = arm_at_manifest;
	commit(w);
	expect_file("f", data + 1, 100);
}

Test(race, a_plain_file_does_not_take_the_striped_one_after_it)
{
	struct ckpt_writer *w = begin("f", 50, 0);

	write_units(w, data, 50);
	after_put = put_striped;
	commit(w);
	expect_file("f", data + 2, UNIT + 1);
}

/* Remove the plain object like ckpt_gc() on a store without conditional deletes. */
static void remove_plain(void)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(object_delete(store, "f", NULL, &err), 0, "%s", err.msg);
}

Test(race, a_file_that_is_gone_when_it_was_written_is_an_error)
{
	struct error err = ERROR_INIT;
	struct ckpt_writer *w;

	put("f", data, UNIT + 1, 1);
	w = begin("f", 50, 0);
	write_units(w, data, 50);
	after_put = remove_plain;
	cr_expect_eq(ckpt_commit(w, NULL, &err), -ESTALE, "%s", err.msg);
	ckpt_writer_free(w);
	put("f", data + 1, 50, 0);
	expect_file("f", data + 1, 50);
}
