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
 * ends.  NULL: the file is read all the same. */
static char *map_file(int fd, size_t size)
{
	void *map = size > 0 && n_kept < KEEP_MAX
			    ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0)
			    : MAP_FAILED;

	if (map == MAP_FAILED)
		return NULL;
	n_kept++;
	return map;
}

/* Map the pages of `n` bytes from `at` on, which were read just now: at the end of a file that is
 * larger than memory its first pages are gone, and would be read a second time.  A file that became
 * shorter is no fault, and kernels before 5.14 leave the pages unmapped. */
static void keep_pages(char *map, size_t size, size_t at, size_t n)
{
	size_t from = at & ~((size_t)sysconf(_SC_PAGESIZE) - 1);

	if (at < size)
		(void)madvise(map + from,
			      (n < size - at ? at + n : size) - from,
			      MADV_POPULATE_READ);
}

static int read_file(const char *path, const struct stat *st, int kind,
		     struct FTW *at)
{
	AUTO_CLOSE int fd = kind == FTW_F && S_ISREG(st->st_mode)
				    ? open(path, O_RDONLY | O_CLOEXEC)
				    : -1;
	size_t size = (size_t)st->st_size, done = 0;
	char *map;
	ssize_t n;

	if (fd < 0)
		return 0;
	map = map_file(fd, size);
	for (; (n = read(fd, room, READ_SIZE)) > 0; done += (size_t)n)
		if (map)
			keep_pages(map, size, done, (size_t)n);
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
