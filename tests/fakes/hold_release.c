// SPDX-License-Identifier: Apache-2.0
/*
 * Has a program that serves a FUSE mount, as it is shipped, be slow with what follows a
 * close:
 *
 *	LD_PRELOAD=.../test-hold-release.so HOLD_RELEASE=FILE program
 *
 * The first FUSE_RELEASE that comes while FILE is there is handled when FILE is gone; so is
 * another one, when FILE is there again after that.
 */
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "next.h"

#define LOOK_NS 10000000

static atomic_bool has_held;

static bool is_wanted(void)
{
	const char *path = getenv("HOLD_RELEASE");

	return path && access(path, F_OK) == 0;
}

typedef ssize_t read_fn(int, void *, size_t);
ssize_t read(int fd, void *data, size_t len)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	static read_fn *real;
	struct fuse_in_header in;
	ssize_t n;

	if (!real)
		*(void **)&real = next("read");
	n = real(fd, data, len);
	if (n < (ssize_t)sizeof(in))
		return n;
	memcpy(&in, data, sizeof(in));
	if (in.len != (uint32_t)n || in.opcode != FUSE_RELEASE ||
	    !is_wanted() || atomic_exchange(&has_held, true))
		return n;
	while (is_wanted())
		(void)nanosleep(&look, NULL);
	has_held = false;
	return n;
}
