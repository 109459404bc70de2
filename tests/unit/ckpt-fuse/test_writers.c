// SPDX-License-Identifier: Apache-2.0
/* Tests of writing files, giving writers up, and copying whole files to and from the store. */
#include "ckpt_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

TestSuite(writers, .init = ckpt_setup, .fini = ckpt_teardown, .timeout = 240);

/* --------------------------------------------------------------------- writers --- */

Test(writers, that_are_given_up_leave_nothing)
{
	struct error err = ERROR_INIT;
	struct ckpt_writer *w = begin("f", 2 * UNIT, 2);

	ckpt_writer_free(w);
	w = begin("f", 2 * UNIT, 2);
	write_units(w, data, 2 * UNIT);
	ckpt_writer_free(w);
	w = begin("p", 5, 0);
	write_units(w, data, 5);
	ckpt_writer_free(w);
	cr_expect_eq(n_columns(), 0);
	expect_no_file("f");
	expect_no_file("p");
	ckpt_writer_free(NULL);
	/* The earlier file stays. */
	put("f", data, UNIT + 9, 0);
	w = begin("f", 2 * UNIT, 2);
	cr_assert_eq(ckpt_write_unit(w, 0, data, &err), 0, "%s", err.msg);
	ckpt_writer_free(w);
	expect_file("f", data, UNIT + 9);
}

/* Written columns are removed if the manifest cannot be put. */
Test(writers, that_cannot_appear_leave_nothing)
{
	AUTO_FREE char *path = local("f.bsm");
	struct ckpt_writer *w = begin("f", 2 * UNIT, 2);
	struct error err = ERROR_INIT;

	write_units(w, data, 2 * UNIT);
	cr_assert_eq(mkdir(path, 0755), 0);
	put_object("f.bsm/x", "", 0);
	cr_expect_lt(ckpt_commit(w, NULL, &err), 0);
	ckpt_writer_free(w);
	expect_no_file("f");
}

Test(writers, are_committed_whole_or_not_at_all)
{
	struct error err = ERROR_INIT;
	struct ckpt_writer *w = begin("f", 3 * UNIT + 1, 2);

	cr_expect_eq(ckpt_commit(w, NULL, &err), -EINVAL);
	cr_expect_eq(ckpt_write_unit(w, 2, data, &err), -EINVAL);
	cr_expect_eq(ckpt_write_unit(w, 0, data, &err), 0, "%s", err.msg);
	cr_expect_eq(ckpt_write_unit(w, 0, data, &err), -EINVAL);
	cr_expect_eq(ckpt_write_unit(w, 2, data + 2 * UNIT, &err), 0);
	cr_expect_eq(ckpt_commit(w, NULL, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "unit 1"), "%s", err.msg);
	cr_expect_eq(ckpt_write_unit(w, 1, data + UNIT, &err), 0);
	cr_expect_eq(ckpt_commit(w, NULL, &err), -EINVAL);
	cr_expect_not_null(strstr(err.msg, "unit 3"), "%s", err.msg);
	expect_no_file("f");
	cr_expect_eq(ckpt_write_unit(w, 3, data + 3 * UNIT, &err), 0);
	cr_expect_eq(ckpt_write_unit(w, 4, data, &err), -EINVAL);
	cr_expect_eq(ckpt_write_unit(w, 5, data, &err), -EINVAL);
	cr_expect_eq(ckpt_commit(w, NULL, &err), 0, "%s", err.msg);
	ckpt_writer_free(w);
	expect_file("f", data, 3 * UNIT + 1);
	w = begin("p", 5, 0);
	cr_expect_eq(ckpt_commit(w, NULL, &err), -EINVAL);
	cr_expect_eq(ckpt_write_unit(w, 1, data, &err), -EINVAL);
	ckpt_writer_free(w);
	expect_no_file("p");
}

Test(writers, are_not_larger_than_a_manifest_can_say)
{
	struct ckpt_write_options o = { .size = 1, .columns = 65 };
	struct ckpt_writer *w = NULL;
	struct error err = ERROR_INIT;

	cr_expect_eq(ckpt_write_open(store, "f", &o, &w, &err), -EINVAL);
	o = (struct ckpt_write_options){ .size = UINT64_C(1) << 50 };
	cr_expect_eq(ckpt_write_open(store, "f", &o, &w, &err), -EFBIG);
	o.size = UINT64_MAX - 1;
	cr_expect_eq(ckpt_write_open(store, "f", &o, &w, &err), -EFBIG);
	cr_expect_null(w);
}

/* ----------------------------------------------------------------- whole files --- */

static int local_file(uint64_t size)
{
	AUTO_FREE char *path = local(".bootseer/local.XXXXXX");
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(fs_pwrite_full(fd, data, size, 0), 0);
	return fd;
}

struct told {
	uint64_t last, total;
	bool is_wrong;
};

static void tell(void *arg, uint64_t done, uint64_t total)
{
	struct told *t = arg;

	t->is_wrong |= done <= t->last || done > total;
	t->last = done;
	t->total = total;
}

Test(writers, go_up_and_come_down)
{
	static const uint64_t sizes[] = { 0, 5, UNIT, UNIT + 1,
					  5 * UNIT + MIB + 7 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct ckpt_write_options o = { .size = sizes[i],
						.columns = 3 };
		struct told up = { .total = sizes[i] }, down = up;
		struct ckpt_progress p = { .fn = tell, .arg = &up };
		struct error err = ERROR_INIT;
		AUTO_CLOSE int fd = local_file(sizes[i]);
		AUTO_CLOSE int to = local_file(sizes[i] / 2 + 999);
		struct ckpt_stat st, stored = { .size = 1 };
		char *got = malloc(sizes[i] + 1);
		struct ckpt_file *f;
		struct stat now;

		cr_assert_not_null(got);
		cr_assert_eq(ckpt_upload(store, fd, "f", &o, &p, &stored, &err),
			     0, "%s", err.msg);
		cr_expect_eq(stored.size, sizes[i]);
		cr_expect_eq(up.last, sizes[i]);
		cr_expect_not(up.is_wrong);
		f = open_file("f");
		p.arg = &down;
		for (unsigned int t = 0; t <= 8; t += 4)
			cr_expect_eq(ckpt_download(f, -1, t, NULL, &err), 0);
		cr_expect_eq(ckpt_download(f, -1, 257, NULL, &err), -EINVAL);
		cr_assert_eq(ckpt_download(f, to, 0, &p, &err), 0, "%s",
			     err.msg);
		cr_expect_eq(down.last, sizes[i]);
		cr_expect_not(down.is_wrong);
		ckpt_close(f);
		cr_assert_eq(fstat(to, &now), 0);
		cr_assert_eq((uint64_t)now.st_size, sizes[i]);
		cr_assert_eq(fs_pread_full(to, got, sizes[i], 0), 0);
		cr_expect(memcmp(got, data, sizes[i]) == 0);
		cr_expect_eq(ckpt_stat(store, "f", &st, &err), 0);
		free(got);
	}
}

/* Change the file at the first report of progress. */
static void meddle(void *arg, uint64_t done, uint64_t total)
{
	const struct timespec times[2] = { { .tv_sec = LONG_AGO },
					   { .tv_sec = LONG_AGO } };
	int fd = *(int *)arg;

	cr_assert_eq(fs_pwrite_full(fd, "x", 1, 0), 0);
	cr_assert_eq(futimens(fd, times), 0);
}

static void shorten(void *arg, uint64_t done, uint64_t total)
{
	cr_assert_eq(ftruncate(*(int *)arg, UNIT), 0);
}

static void lengthen(void *arg, uint64_t done, uint64_t total)
{
	cr_assert_eq(ftruncate(*(int *)arg, DATA_MAX), 0);
}

Test(writers, that_change_meanwhile_do_not_go_up)
{
	static ckpt_progress_fn *const changes[] = { meddle, shorten,
						     lengthen };

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		for (uint64_t size = 5; size <= 3 * UNIT; size += UNIT) {
			AUTO_CLOSE int fd = local_file(size);
			struct ckpt_write_options o = { .size = size,
							.columns = 1 };
			struct ckpt_progress p = { .fn = changes[i],
						   .arg = &fd };
			struct error err = ERROR_INIT;

			cr_expect_eq(ckpt_upload(store, fd, "f", &o, &p, NULL,
						 &err),
				     -EBUSY, "change %zu: %s", i, err.msg);
			expect_no_file("f");
			cr_expect_eq(n_columns(), 0);
		}
}

/* The file changed after the caller read its size. */
Test(writers, of_another_length_do_not_go_up)
{
	for (int i = -1; i <= 1; i += 2) {
		AUTO_CLOSE int fd = local_file(2 * UNIT);
		struct ckpt_write_options o = {
			.size = (uint64_t)((int64_t)(2 * UNIT) + i)
		};
		struct error err = ERROR_INIT;

		cr_expect_eq(ckpt_upload(store, fd, "f", &o, NULL, NULL, &err),
			     -EBUSY, "%s", err.msg);
		expect_no_file("f");
	}
}
