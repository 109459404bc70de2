// SPDX-License-Identifier: Apache-2.0
/* Facts of a close that the kernel does not say: by whom, and for the last time? They are
 * read from the /proc of the process that closes; of one that is not seen nothing is
 * known. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct closer {
	pid_t thread, group; /* group 0: its process is not seen */
	bool is_killed; /* a signal ended it, and that is why it closes its files */
	bool is_unread; /* this process had no descriptor to look with: nothing is known */
};

struct closer closing_look(pid_t thread);
#define CLOSING_NAME_MAX 32 /* bytes, terminating NUL included */
/* Read the thread's name; "?" when the thread is not seen from here. */
void closing_name(pid_t thread, char ret[CLOSING_NAME_MAX]);
/* How many descriptors has its process to write to the file of this number?  Other mounts have
 * files of the same; `dev` 0: which mount it is of is not known.  Sets `c->is_unread`, too. */
unsigned int closing_count_open(struct closer *c, dev_t dev, uint64_t ino);

#endif
