// SPDX-License-Identifier: Apache-2.0
/* What the kernel does not say when a file is closed: by whom, and for the last time?  It
 * is read from /proc, of processes that this one sees; of others nothing is known. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Who closes.  Of a process that is not seen all but the thread is 0. */
struct closer {
	pid_t thread, group, parent;
	bool is_killed; /* a signal ended it, and that is why it closes its files */
};

struct closer closing_look(pid_t thread);
/* The process that the thread is of; 0: it is not seen. */
pid_t closing_group(pid_t thread);
#define CLOSING_NAME_MAX 32 /* bytes, terminating NUL included */
/* Read the thread's name; "?" when the thread is not seen from here. */
void closing_name(pid_t thread, char ret[CLOSING_NAME_MAX]);
/* Has its process a descriptor to write to the file of this inode and name?  Other mounts have
 * files of the same number; `dev` 0: which mount it is of is not known. */
bool closing_has_open(pid_t thread, dev_t dev, uint64_t ino, const char *name);

#endif
