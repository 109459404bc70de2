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
	char *upper; /* upperdir of an overlay; NULL: none */
};

/* Split a line of mountinfo in place, and undo octal escapes.  False: it is malformed. */
bool mount_row_parse(char *line, struct mount_row *ret);

/* Call `fn` for each mount, in mount order, until it returns other than 0, which is returned. */
typedef int mount_row_fn(void *arg, const struct mount_row *row);
int mount_table_each(mount_row_fn *fn, void *arg, struct error *err) MUST_CHECK;
/* mount_table_each() for another process's opened mount table. */
int mount_table_read(FILE *f, mount_row_fn *fn, void *arg) MUST_CHECK;

#endif
