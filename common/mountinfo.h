// SPDX-License-Identifier: Apache-2.0
/* Mounts as /proc/self/mountinfo lists them; no file system is asked. */
#ifndef BOOTSEER_COMMON_MOUNTINFO_H
#define BOOTSEER_COMMON_MOUNTINFO_H

#include <stdbool.h>

#include "common/cleanup.h"
#include "common/error.h"

struct mountinfo {
	unsigned int major, minor;
	const char *root; /* folder of the file system that is mounted */
	const char *path; /* mount point */
	const char *fstype;
	const char *source;
};

/* Take a line apart, in place; `ret` borrows from it.  False: it is none. */
bool mountinfo_parse(char *line, struct mountinfo *ret);

/* Called with each mount, later ones over earlier ones, until it returns other
 * than 0. */
typedef int mountinfo_fn(void *arg, const struct mountinfo *m,
			 struct error *err);
/* 0, or what `fn` returned, or -errno: they cannot be read.  Allocates nothing, so that a
 * child of mount_isolated() may call it, and has 64 KiB on the stack. */
int mountinfo_each(mountinfo_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* The same of an open file. */
int mountinfo_read(int fd, mountinfo_fn *fn, void *arg,
		   struct error *err) MUST_CHECK;

#endif
