// SPDX-License-Identifier: Apache-2.0
/* Files without a name for what is on its way to a store. */
#ifndef BOOTSEER_COMMON_TEMP_FILE_H
#define BOOTSEER_COMMON_TEMP_FILE_H

#include "common/error.h"

/* End of the message about a full disk of temporary files: another way out. */
#define TEMP_CURE ", or name a folder on another disk with --temp-dir"

/* A nameless file in `dir` (NULL: $TMPDIR or /var/tmp), open for reading and
 * writing; the descriptor is the caller's. */
int temp_file(const char *dir, int *ret_fd, struct error *err) MUST_CHECK;

#endif
