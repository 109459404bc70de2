// SPDX-License-Identifier: Apache-2.0
/*
 * Kills a program that serves a FUSE mount, as it is shipped, when it has done what a
 * request asked for and before it says so:
 *
 *	LD_PRELOAD=.../test-kill-answer.so KILL_OPCODES=N,N KILL_ONCE=FILE program
 *
 * N are kinds of requests, as in linux/fuse.h.  Nobody is killed while FILE is not there;
 * it is removed with the kill, so that a successor answers.
 */
#include <linux/fuse.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "next.h"

/* Numbers of such requests that were read and not answered. */
static atomic_uint_fast64_t waiting[64];

static bool is_wanted(uint32_t opcode)
{
	const char *at = getenv("KILL_OPCODES");
	char *end;

	while (at && *at) {
		if (strtoul(at, &end, 10) == opcode)
			return true;
		at = *end ? end + 1 : end;
	}
	return false;
}

static bool swap(uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < sizeof(waiting) / sizeof(*waiting); i++) {
		uint_fast64_t was = from;

		if (atomic_compare_exchange_strong(&waiting[i], &was, to))
			return true;
	}
	return false;
}

typedef ssize_t read_fn(int, void *, size_t);
ssize_t read(int fd, void *data, size_t len)
{
	static read_fn *real;
	struct fuse_in_header in;
	ssize_t n;

	if (!real)
		*(void **)&real = next("read");
	n = real(fd, data, len);
	if (n < (ssize_t)sizeof(in))
		return n;
	memcpy(&in, data, sizeof(in));
	if (in.len == (uint32_t)n && in.unique && is_wanted(in.opcode))
		(void)swap(0, in.unique);
	return n;
}

typedef ssize_t writev_fn(int, const struct iovec *, int);
ssize_t writev(int fd, const struct iovec *iov, int n)
{
	static writev_fn *real;
	const char *once = getenv("KILL_ONCE");
	struct fuse_out_header out;

	if (!real)
		*(void **)&real = next("writev");
	if (n > 0 && iov->iov_len == sizeof(out)) {
		memcpy(&out, iov->iov_base, sizeof(out));
		if (out.unique && swap(out.unique, 0) && !out.error && once &&
		    unlink(once) == 0) {
			(void)kill(getpid(), SIGKILL);
			for (;;)
				(void)pause();
		}
	}
	return real(fd, iov, n);
}
