// SPDX-License-Identifier: Apache-2.0
/* The mounts of this mount namespace. */
#ifndef BOOTSEER_ENVCACHE_MOUNT_TABLE_H
#define BOOTSEER_ENVCACHE_MOUNT_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"

struct mount_row {
	char *path; /* mount point */
	char *fstype;
	char *source;
	char *upper; /* of an overlay: its upperdir; NULL: it has none */
};

/* Take a line of mountinfo apart, in place, octal escapes undone.  False: it is none. */
bool mount_row_parse(char *line, struct mount_row *ret);

/* Tell of each, as they were mounted, until `fn` does not return 0; that is returned. */
typedef int mount_row_fn(void *arg, const struct mount_row *row);
int mount_table_each(mount_row_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* The same, of an open table of another process. */
int mount_table_read(FILE *f, mount_row_fn *fn, void *arg) MUST_CHECK;

#endif
