// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/ops_export.h"
#include "common/cleanup.h"
#include "common/fs.h"

TestSuite(ops_export, .timeout = 120);

/* Convert an export that begins with `text` and has `size` bytes.  Returns the result. */
static int convert_export(const char *text, off_t size, struct buf *ret)
{
	char folder[] = "/tmp/ops-export.XXXXXX";
	AUTO_CLOSE int in = memfd_create("export", MFD_CLOEXEC);
	AUTO_FREE char *path = NULL;
	int rc;

	cr_assert_not_null(mkdtemp(folder));
	path = fs_join(folder, "metrics");
	cr_assert(in >= 0 && path && ftruncate(in, size) == 0);
	cr_assert_eq(pwrite(in, text, strlen(text), 0), (ssize_t)strlen(text));
	rc = ops_export_convert(in, path, NULL);
	if (rc == 0)
		cr_assert_eq(fs_read_file(path, 1u << 20, ret, NULL), 0);
	(void)unlink(path);
	(void)rmdir(folder);
	return rc;
}

Test(ops_export, writes_samples_of_each_line)
{
	static const char text[] =
		"{\"metric\":{\"__name__\":\"up\",\"node\":\"a\"},"
		"\"values\":[1,null,2.5],\"timestamps\":[1000,2000,3001]}\n\n"
		"{\"metric\":{\"__name__\":\"up\"},\"values\":[0],"
		"\"timestamps\":[5]}";
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(convert_export(text, (off_t)strlen(text), &got), 0);
	cr_expect_str_eq(got.data, "up{node=\"a\"} 1 1.000\n"
				   "up{node=\"a\"} 2.5 3.001\n"
				   "up 0 0.005\n# EOF\n");
}

/* A line of 64 GiB is refused without reading all of it or keeping it in memory. */
Test(ops_export, refuses_a_line_without_end)
{
	AUTO_BUF got = BUF_INIT;

	cr_expect_eq(convert_export("{", (off_t)64 << 30, &got), -EFBIG);
}
