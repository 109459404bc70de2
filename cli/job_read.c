// SPDX-License-Identifier: Apache-2.0
#include "cli/job_read.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/cleanup.h"

#define READ_SIZE (4 * MIB)
#define FOLDERS_OPEN 16
#define KEEP_MAX 1024 /* files: each costs the mount some memory */

/* nftw() has no argument of its own; this process does nothing else. */
static char *room;
static unsigned int n_kept;

/* A file that is mapped stays open, and its pages are taken back after those that nobody has
 * mapped: the program may come to them a minute later.  The mapping is this process's until it
 * ends. */
static void keep_mapped(int fd, off_t size)
{
	if (size > 0 && n_kept < KEEP_MAX &&
	    mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd,
		 0) != MAP_FAILED)
		n_kept++;
}

static int read_file(const char *path, const struct stat *st, int kind,
		     struct FTW *at)
{
	AUTO_CLOSE int fd = kind == FTW_F && S_ISREG(st->st_mode)
				    ? open(path, O_RDONLY | O_CLOEXEC)
				    : -1;

	if (fd < 0)
		return 0;
	while (read(fd, room, READ_SIZE) > 0)
		;
	keep_mapped(fd, st->st_size);
	return 0;
}

int job_read_main(const char *pid, char *const *paths)
{
	AUTO_CLOSE int job = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	struct pollfd p = { .fd = job, .events = POLLIN };

	room = malloc(READ_SIZE);
	if (job < 0 || !room)
		return EXIT_FAILURE;
	for (; *paths; paths++)
		(void)nftw(*paths, read_file, FOLDERS_OPEN, FTW_PHYS);
	/* Without a deadline: they are kept for as long as the job. */
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	free(room);
	return EXIT_SUCCESS;
}
