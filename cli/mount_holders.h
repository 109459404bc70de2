/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that keep a mount from being unmounted. */
#ifndef BOOTSEER_CLI_MOUNT_HOLDERS_H
#define BOOTSEER_CLI_MOUNT_HOLDERS_H

#include "common/buf.h"

/*
 * Append to `ret` who uses the mount at `dir` (canonical): mounts below it, and
 * processes by their working folder, root, program, mapped and open files, as in
 * "sleep (pid 123), the mount '/mnt/proc' and 2 more".  Nothing is appended when
 * nobody is found.  Looks no longer than two seconds.
 */
void mount_holders(const char *dir, struct buf *ret);

#endif
