// SPDX-License-Identifier: Apache-2.0
/* What the kernel does not say when a file is closed: by whom, and for the last time?  It
 * is read from /proc, of processes that this one sees; of others nothing is known. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Does the thread close its files because a signal ended it? */
bool closing_is_killed(pid_t thread);
/* Has its process a descriptor to write to the file of this inode and name? */
bool closing_has_open(pid_t thread, uint64_t ino, const char *name);

#endif
