// SPDX-License-Identifier: Apache-2.0
/* Mapped files on a disk that has faults. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/images/map_file.h"

Test(map_file, what_cannot_be_read_is_damaged_and_ends_nothing)
{
	static char content[5 * 4096];
	char path[] = "/tmp/map-file.XXXXXX";
	struct map_file f = MAP_FILE_INIT;
	struct error err = ERROR_INIT;
	struct digest d;
	int fd = mkstemp(path);

	memset(content, 7, sizeof(content));
	cr_assert_eq(digest_of(content, sizeof(content), &d), 0);
	cr_assert_eq(fs_pwrite_full(fd, content, sizeof(content), 0), 0);
	cr_assert_eq(map_file_open(path, &f, &err), 0, "%s", err.msg);
	cr_expect_eq(map_file_check(&f, &d, path, &err), 0, "%s", err.msg);
	/* The kernel treats a page after the end of the file like an unreadable one. */
	cr_assert_eq(ftruncate(fd, 4 * 4096), 0);
	cr_expect_eq(map_file_check(&f, &d, path, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "cannot be read"), "%s", err.msg);
	map_file_close(&f);
	(void)close(fd);
	(void)unlink(path);
}
