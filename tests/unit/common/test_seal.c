// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/seal.h"

TestSuite(seal, .timeout = 60);

struct seal_fixture {
	char dir[32];
	char *key, *file;
};

static void start(struct seal_fixture *f)
{
	strcpy(f->dir, "/tmp/seal.XXXXXX");
	cr_assert(mkdtemp(f->dir));
	f->key = fs_join(f->dir, "key");
	f->file = fs_join(f->dir, "file");
}

static void stop(struct seal_fixture *f)
{
	cr_expect_eq(fs_remove_tree(f->dir, NULL), 0);
	free(f->key);
	free(f->file);
}

Test(seal, what_was_written_is_read_and_is_not_in_the_file)
{
	static const char text[] = "hunter2 hunter2 hunter2";
	struct seal_fixture f;
	struct seal_key key, again;
	AUTO_BUF got = BUF_INIT;
	AUTO_BUF raw = BUF_INIT;
	struct stat st;

	start(&f);
	cr_assert_eq(seal_key_load(f.key, &key, NULL), 0);
	cr_assert_eq(seal_key_load(f.key, &again, NULL), 0);
	cr_expect_eq(memcmp(&key, &again, sizeof(key)), 0);
	cr_assert_eq(seal_write_file(&key, f.file, text, strlen(text), NULL),
		     0);
	cr_assert_eq(stat(f.key, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(stat(f.file, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(fs_read_file(f.file, 4096, &raw, NULL), 0);
	cr_expect_null(memmem(raw.data, raw.len, "hunter2", 7));
	cr_assert_eq(seal_read_file(&key, f.file, 4096, &got, NULL), 0);
	cr_expect_str_eq(got.data, text);
	stop(&f);
}

Test(seal, another_key_or_a_changed_byte_reads_nothing)
{
	struct seal_fixture f;
	struct seal_key key, other = { .b = { 1 } };
	AUTO_BUF raw = BUF_INIT;
	AUTO_BUF got = BUF_INIT;

	start(&f);
	cr_assert_eq(seal_key_load(f.key, &key, NULL), 0);
	cr_assert_eq(seal_write_file(&key, f.file, "text", 4, NULL), 0);
	cr_expect_eq(seal_read_file(&other, f.file, 4096, &got, NULL),
		     -EBADMSG);
	cr_assert_eq(fs_read_file(f.file, 4096, &raw, NULL), 0);
	for (size_t k = 0; k < raw.len; k++) {
		raw.data[k] ^= 1;
		cr_assert_eq(fs_replace_file(f.file, raw.data, raw.len, 0600,
					     NULL),
			     0);
		cr_expect_eq(seal_read_file(&key, f.file, 4096, &got, NULL),
			     -EBADMSG, "byte %zu", k);
		raw.data[k] ^= 1;
	}
	cr_assert_eq(fs_replace_file(f.file, raw.data, 20, 0600, NULL), 0);
	cr_expect_eq(seal_read_file(&key, f.file, 4096, &got, NULL), -EBADMSG);
	cr_expect_eq(got.len, 0);
	stop(&f);
}

Test(seal, a_key_that_others_may_read_or_that_is_none_is_refused)
{
	struct seal_fixture f;
	struct seal_key key;

	start(&f);
	cr_assert_eq(seal_key_load(f.key, &key, NULL), 0);
	cr_assert_eq(chmod(f.key, 0640), 0);
	cr_expect_eq(seal_key_load(f.key, &key, NULL), -EPERM);
	cr_assert_eq(fs_replace_file(f.key, "short", 5, 0600, NULL), 0);
	cr_expect_eq(seal_key_load(f.key, &key, NULL), -EINVAL);
	cr_assert_eq(unlink(f.key), 0);
	cr_assert_eq(rmdir(f.dir), 0);
	cr_expect_lt(seal_key_load(f.key, &key, NULL), 0);
	cr_assert_eq(mkdir(f.dir, 0700), 0);
	stop(&f);
}
