// SPDX-License-Identifier: Apache-2.0
#include "cli/job_read.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/cleanup.h"

#define READ_SIZE (4 * MIB)
#define FOLDERS_OPEN 16
#define OTHER_FILES 64 /* descriptors that are left for them */
#define KEEP_MAX 1024  /* files: each costs the mount some memory */

/* nftw() has no argument of its own; this process does nothing else. */
static char *room;
static rlim_t may_keep; /* so many files more */

static int read_file(const char *path, const struct stat *st, int kind,
		     struct FTW *at)
{
	int fd = kind == FTW_F && S_ISREG(st->st_mode)
			 ? open(path, O_RDONLY | O_CLOEXEC)
			 : -1;

	if (fd < 0)
		return 0;
	while (read(fd, room, READ_SIZE) > 0)
		;
	if (may_keep)
		may_keep--;
	else
		(void)close(fd);
	return 0;
}

int job_read_main(const char *pid, char *const *paths)
{
	AUTO_CLOSE int job = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	struct pollfd p = { .fd = job, .events = POLLIN };
	struct rlimit files;

	room = malloc(READ_SIZE);
	if (job < 0 || !room || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return EXIT_FAILURE;
	if (files.rlim_cur > OTHER_FILES)
		may_keep = files.rlim_cur - OTHER_FILES;
	if (may_keep > KEEP_MAX)
		may_keep = KEEP_MAX;
	for (; *paths; paths++)
		(void)nftw(*paths, read_file, FOLDERS_OPEN, FTW_PHYS);
	/* Without a deadline: they are kept for as long as the job. */
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	free(room);
	return EXIT_SUCCESS;
}
