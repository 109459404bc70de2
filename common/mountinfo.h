// SPDX-License-Identifier: Apache-2.0
/* Mounts in /proc/self/mountinfo; reading it sends no request to a file system. */
#ifndef BOOTSEER_COMMON_MOUNTINFO_H
#define BOOTSEER_COMMON_MOUNTINFO_H

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

struct mountinfo {
	unsigned int major, minor;
	const char *root; /* folder of the file system that is mounted there */
	const char *path; /* mount point */
	const char *fstype;
	const char *source;
};

/* Split a line in place; `ret` borrows from it.  False: the line is malformed. */
bool mountinfo_parse(char *line, struct mountinfo *ret);

/* Called with each mount, in mount order, so that a later one may cover an earlier one.  Iteration
 * ends when it returns other than 0. */
typedef int mountinfo_fn(void *arg, const struct mountinfo *m,
			 struct error *err);
/* Call `fn` with each mount.  Returns 0, what `fn` returned, or -errno when the list cannot be
 * read.  Allocates nothing (64 KiB are on the stack), so a child of mount_isolated() may call
 * it. */
int mountinfo_each(mountinfo_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* mountinfo_each() on an open file instead. */
int mountinfo_read(int fd, mountinfo_fn *fn, void *arg,
		   struct error *err) MUST_CHECK;

#endif
