// SPDX-License-Identifier: Apache-2.0
/*
 * Kills a program, as it is shipped, before one of its steps:
 *
 *	LD_PRELOAD=.../test-kill-at.so KILL_AT=N KILL_STEPS=FILE program
 *
 * A step is a call that changes names or makes bytes durable, and one that sends a server a
 * request that changes something, or the second piece of what follows; the first is 1.  FILE
 * holds 8 bytes, the number of steps that were begun, and is made by the test.  Threads take
 * steps in the order in which they come to them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "next.h"

static atomic_uint_fast64_t *steps;
static uint64_t kill_at;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("KILL_STEPS"), *at = getenv("KILL_AT");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0 || !at)
		abort();
	p = mmap(NULL, sizeof(*steps), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	if (p == MAP_FAILED)
		abort();
	(void)close(fd);
	kill_at = strtoull(at, NULL, 10);
	steps = p;
}

static void step(void)
{
	int saved = errno;

	if (steps && atomic_fetch_add(steps, 1) + 1 == kill_at) {
		(void)kill(getpid(), SIGKILL);
		for (;;)
			(void)pause();
	}
	errno = saved;
}

/* The function of this name that would be called without us. */
#define STEP(type, name) \
	type *real; \
	void *found = next(#name); \
	*(void **)&real = found; \
	step()

typedef int rename_fn(const char *, const char *);
int rename(const char *from, const char *to)
{
	STEP(rename_fn, rename);
	return real(from, to);
}

typedef int renameat_fn(int, const char *, int, const char *);
int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	STEP(renameat_fn, renameat);
	return real(from_fd, from, to_fd, to);
}

typedef int renameat2_fn(int, const char *, int, const char *, unsigned int);
int renameat2(int from_fd, const char *from, int to_fd, const char *to,
	      unsigned int flags)
{
	STEP(renameat2_fn, renameat2);
	return real(from_fd, from, to_fd, to, flags);
}

typedef int linkat_fn(int, const char *, int, const char *, int);
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	STEP(linkat_fn, linkat);
	return real(from_fd, from, to_fd, to, flags);
}

typedef int unlinkat_fn(int, const char *, int);
int unlinkat(int fd, const char *path, int flags)
{
	STEP(unlinkat_fn, unlinkat);
	return real(fd, path, flags);
}

typedef int mkdirat_fn(int, const char *, mode_t);
int mkdirat(int fd, const char *path, mode_t mode)
{
	STEP(mkdirat_fn, mkdirat);
	return real(fd, path, mode);
}

typedef int fsync_fn(int);
int fsync(int fd)
{
	STEP(fsync_fn, fsync);
	return real(fd);
}

typedef int ftruncate_fn(int, off_t);
int ftruncate64(int fd, off_t size)
{
	STEP(ftruncate_fn, ftruncate64);
	return real(fd, size);
}

typedef int futimens_fn(int, const struct timespec[2]);
int futimens(int fd, const struct timespec times[2])
{
	STEP(futimens_fn, futimens);
	return real(fd, times);
}

typedef ssize_t pwrite_fn(int, const void *, size_t, off_t);
ssize_t pwrite64(int fd, const void *data, size_t len, off_t off)
{
	STEP(pwrite_fn, pwrite64);
	return real(fd, data, len, off);
}

#define FDS_MAX 1024

/* Pieces until the middle of a body. */
static atomic_uint pieces_left[FDS_MAX];

static bool begins(const void *data, size_t len, const char *method)
{
	return len > strlen(method) &&
	       memcmp(data, method, strlen(method)) == 0;
}

static bool is_step(int fd, const void *data, size_t len)
{
	if ((unsigned int)fd >= FDS_MAX)
		return false;
	if (begins(data, len, "PUT ") || begins(data, len, "POST ") ||
	    begins(data, len, "DELETE ")) {
		pieces_left[fd] = 2;
		return true;
	}
	if (begins(data, len, "GET ") || begins(data, len, "HEAD "))
		pieces_left[fd] = 0;
	return pieces_left[fd] && --pieces_left[fd] == 0;
}

typedef ssize_t send_fn(int, const void *, size_t, int);
ssize_t send(int fd, const void *data, size_t len, int flags)
{
	void *found = next("send");
	send_fn *real;

	*(void **)&real = found;
	if (is_step(fd, data, len))
		step();
	return real(fd, data, len, flags);
}
