/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that keep a mount from being unmounted. */
#ifndef BOOTSEER_CLI_MOUNT_HOLDERS_H
#define BOOTSEER_CLI_MOUNT_HOLDERS_H

#include "common/buf.h"

/*
 * Append to `ret` what uses the mount at `dir` (canonical): mounts below it, and processes by
 * their working folder, root, program, mapped and open files, as in "sleep (pid 123), the mount
 * '/mnt/proc' and 2 more".  Appends nothing when nothing is found.  Takes at most two seconds.
 */
void mount_holders(const char *dir, struct buf *ret);

#endif
