// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "envcache/read_ahead.h"
#include "env_fixture.h"
#include "tests/unit/failures.h"

TestSuite(env_read_ahead, .init = env_setup, .fini = env_teardown,
	  .timeout = 60);

#define N_FILES 300u /* several times the number of slots */

static struct env_scan *scan;
static struct changed_file files[N_FILES + 1];
static size_t n_files;

/* List the folder's files, in the order of a capture. */
static void list_files(void)
{
	scan = env_look();
	n_files = 0;
	for (size_t i = 0; i < scan->n; i++)
		if (S_ISREG(scan->entries[i].mode))
			files[n_files++].entry = &scan->entries[i];
}

static void write_many(void)
{
	char path[32], text[32];

	for (unsigned int i = 0; i < N_FILES; i++) {
		(void)snprintf(path, sizeof(path), "f%03u", i);
		(void)snprintf(text, sizeof(text), "content %u", i);
		env_write(path, text);
	}
}

Test(env_read_ahead, gives_files_in_their_order_whoever_reads_them)
{
	AUTO(read_ahead) r = NULL;
	struct file_ahead f;
	char text[32];

	write_many();
	list_files();
	cr_assert_eq(n_files, N_FILES);
	cr_assert_eq(read_ahead_new(files, n_files, 7, &r, NULL), 0);
	for (unsigned int i = 0; i < N_FILES; i++) {
		(void)snprintf(text, sizeof(text), "content %u", i);
		cr_assert_eq(read_ahead_next(r, &f, NULL), 0);
		cr_assert(f.data, "%u", i);
		cr_assert_eq(files[i].entry->size, strlen(text));
		cr_assert_eq(memcmp(f.data, text, strlen(text)), 0, "%u", i);
		cr_assert_not(f.has_xattrs);
		cr_assert_eq(f.fd, -1);
	}
	env_scan_free(scan);
}

Test(env_read_ahead, leaves_a_large_file_and_attributes_to_whoever_takes_it)
{
	AUTO_FREE char *large = malloc(READ_AHEAD_WHOLE + 2);
	AUTO_FREE char *path = env_path("b");
	AUTO(read_ahead) r = NULL;
	struct file_ahead f;
	char byte;

	cr_assert(large);
	memset(large, 'x', READ_AHEAD_WHOLE + 1);
	large[READ_AHEAD_WHOLE + 1] = '\0';
	env_write("a", large);
	env_write("b", "small");
	env_write("c", "");
	if (setxattr(path, "user.x", "y", 1, 0) < 0)
		cr_assert_eq(errno, ENOTSUP);
	list_files();
	cr_assert_eq(read_ahead_new(files, n_files, 2, &r, NULL), 0);
	cr_assert_eq(read_ahead_next(r, &f, NULL), 0);
	cr_expect_null(f.data);
	cr_expect_eq(pread(f.fd, &byte, 1, READ_AHEAD_WHOLE), 1);
	cr_assert_eq(read_ahead_next(r, &f, NULL), 0);
	cr_expect(f.data);
	cr_expect_eq(f.has_xattrs, f.fd >= 0);
	cr_assert_eq(read_ahead_next(r, &f, NULL), 0);
	cr_expect_null(f.data);
	cr_expect_eq(f.fd, -1);
	env_scan_free(scan);
}

Test(env_read_ahead, says_which_file_is_another_by_now)
{
	AUTO_FREE char *path = env_path("f002");
	AUTO(read_ahead) r = NULL;
	struct error err = ERROR_INIT;
	struct file_ahead f;

	write_many();
	list_files();
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(read_ahead_new(files, n_files, 3, &r, NULL), 0);
	cr_expect_eq(read_ahead_next(r, &f, &err), 0);
	cr_expect_eq(read_ahead_next(r, &f, &err), 0);
	cr_expect_eq(read_ahead_next(r, &f, &err), -ESTALE);
	cr_expect(strstr(err.msg, "f002"), "%s", err.msg);
	/* Its threads use entries of the scan, so end them first. */
	read_ahead_free(steal_ptr(&r));
	env_scan_free(scan);
}

Test(env_read_ahead, ends_early_with_nothing_left_open)
{
	AUTO_FREE char *large = malloc(READ_AHEAD_WHOLE + 2);
	unsigned int before = failures_count_fds();
	struct read_ahead *r = NULL;
	struct file_ahead f;

	cr_assert(large);
	memset(large, 'x', READ_AHEAD_WHOLE + 1);
	large[READ_AHEAD_WHOLE + 1] = '\0';
	for (char name[] = "a"; name[0] <= 'p'; name[0]++)
		env_write(name, large);
	list_files();
	cr_assert_eq(read_ahead_new(files, n_files, 4, &r, NULL), 0);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(read_ahead_next(r, &f, NULL), 0);
	read_ahead_free(r);
	cr_expect_eq(failures_count_fds(), before);
	env_scan_free(scan);
}

#define AHEAD_THREADS 4u

/* With failing calls: a slot that never had a file must not close a descriptor. */
static void begin_with_failures(struct failures *f, size_t n)
{
	while (failures_next(f)) {
		struct read_ahead *r = NULL;
		struct error err = ERROR_INIT;
		int rc = read_ahead_new(files, n, AHEAD_THREADS, &r, &err);
		bool was_hit = failures_hit(f);
		struct file_ahead a;

		if (f->kind == FAIL_MEMORY)
			cr_expect_eq(rc, was_hit ? -ENOMEM : 0, "%d", rc);
		else /* a single thread is enough */
			cr_expect_eq(rc, f->n == 1 ? -EAGAIN : 0, "%d", rc);
		cr_expect_eq(err.msg[0] != '\0', rc < 0, "%s", err.msg);
		for (size_t i = 0; rc == 0 && i < n; i++)
			cr_assert_eq(read_ahead_next(r, &a, &err), 0, "%s",
				     err.msg);
		read_ahead_free(r);
	}
}

Test(env_read_ahead, goes_on_with_one_thread_and_fails_without)
{
	struct failures f = { .kind = FAIL_THREAD };

	write_many();
	list_files();
	begin_with_failures(&f, n_files);
	cr_expect_eq(f.n, AHEAD_THREADS + 1);
	env_scan_free(scan);
}

Test(env_read_ahead, closes_nothing_of_others_when_memory_is_short)
{
	struct failures f = { .kind = FAIL_MEMORY };

	begin_with_failures(&f, 0);
	cr_expect_gt(f.n, 64);
}
