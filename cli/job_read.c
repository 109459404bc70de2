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

#include "common/array.h"
#include "common/bytes.h"
#include "common/cleanup.h"

#define READ_SIZE (4 * MIB)
#define FOLDERS_OPEN 16
/* files that are kept mapped: each costs the mount some memory */
#define KEEP_MAX 1024
#define WAIT_MS 30000 /* how long to wait for the container's start */

/* Global, as nftw() passes no argument; this process does nothing else. */
static char *room;
static unsigned int n_kept;
static int job; /* pidfd of the job's process */

/* End this process if the job has ended: reading on would load data that is not used, over a link
 * that others share. */
static void end_when_job_ended(int wait_ms, int go)
{
	struct pollfd p[] = { { .fd = job, .events = POLLIN },
			      { .fd = go, .events = POLLIN } };

	if (poll(p, ARRAY_SIZE(p), wait_ms) > 0 && p[0].revents)
		exit(EXIT_SUCCESS);
}

/* Map a file, to keep it open and its pages in memory longer: the kernel reclaims unmapped pages
 * first, and the program may use them a minute later.  NULL: the file is only read. */
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

/* Map the pages of `n` bytes from `at`, just after they were read: by the end of a file larger
 * than memory its first pages are gone, and mapping would read them again.  A file that became
 * shorter is no error, and before Linux 5.14 the pages stay unmapped. */
static void map_read_pages(char *map, size_t size, size_t at, size_t n)
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
	AUTO_CLOSE int fd = -1;
	size_t size = (size_t)st->st_size, done = 0;
	char *map;
	ssize_t n;

	end_when_job_ended(0, -1);
	if (kind == FTW_F && S_ISREG(st->st_mode))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	map = map_file(fd, size);
	for (; (n = read(fd, room, READ_SIZE)) > 0; done += (size_t)n) {
		if (map)
			map_read_pages(map, size, done, (size_t)n);
		end_when_job_ended(0, -1);
	}
	return 0;
}

int job_read_main(const char *pid, const char *go, char *const *paths)
{
	struct pollfd p = { .events = POLLIN };
	int go_fd = atoi(go);

	p.fd = job = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	room = malloc(READ_SIZE);
	if (job < 0 || !room)
		return EXIT_FAILURE;
	/* Wait for the container's start: the checkpoint uses many connections, beside which the
	 * blocks of the container's first commands would get little of the link. */
	if (go_fd > 0)
		end_when_job_ended(WAIT_MS, go_fd);
	for (; *paths; paths++)
		(void)nftw(*paths, read_file, FOLDERS_OPEN, FTW_PHYS);
	/* Keep the files mapped, without a deadline, as long as the job runs. */
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	free(room);
	return EXIT_SUCCESS;
}
