// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fs.h"

/* openat2(2) fails with EAGAIN when a rename anywhere on the machine coincides with a `..`; under
 * constant renames one call in ten failed. */
#define OPEN_TRIES 128

int fs_openat2(int root, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC,
				.resolve = resolve };
	int fd = -1;

	for (int i = 0; i < OPEN_TRIES; i++) {
		fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd;
}
