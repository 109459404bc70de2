// SPDX-License-Identifier: Apache-2.0
/* Nameless temporary files, for data on its way to a store. */
#ifndef BOOTSEER_COMMON_TEMP_FILE_H
#define BOOTSEER_COMMON_TEMP_FILE_H

#include "common/error.h"

/* Last part of the message when the disk of temporary files is full. */
#define TEMP_CURE ", or name a folder on another disk with --temp-dir"

/* Open a nameless file in `dir` (NULL: $TMPDIR or /var/tmp) for reading and writing; the caller
 * owns the descriptor. */
int temp_file(const char *dir, int *ret_fd, struct error *err) MUST_CHECK;

#endif
