// SPDX-License-Identifier: Apache-2.0
#include "common/temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"

int temp_file(const char *dir, int *ret_fd, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	int fd;

	if (!dir)
		dir = secure_getenv("TMPDIR");
	if (!dir || !*dir)
		dir = "/var/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		if (buf_printf(&path, "%s/bootseer.XXXXXX", dir) < 0)
			return error_nomem(err);
		fd = mkostemp(path.data, O_CLOEXEC);
		if (fd >= 0)
			(void)unlink(path.data);
	}
	if (fd < 0)
		return error_set(err, errno,
				 "make a temporary file in '%s': %s: name "
				 "another folder with --temp-dir",
				 dir, strerror(errno));
	*ret_fd = fd;
	return 0;
}
