// SPDX-License-Identifier: Apache-2.0
/* Finds facts about a close that the kernel does not report: by which process, and whether it was
 * the last descriptor. They are read from /proc; about a process that is not visible (in another
 * PID namespace) nothing is known. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H
#define BOOTSEER_CKPT_FUSE_MOUNT_CLOSING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct closer {
	pid_t thread, group; /* group 0: the process is not visible */
	/* a signal killed the process, which is why its files are closed */
	bool is_killed;
	/* this process had no free descriptor to read /proc: nothing is known */
	bool is_unread;
};

struct closer closing_look(pid_t thread);
#define CLOSING_NAME_MAX 32 /* bytes, terminating NUL included */
/* Read the thread's name; "?": the thread is not visible. */
void closing_name(pid_t thread, char ret[CLOSING_NAME_MAX]);
/* Count the process's descriptors that can write to the file with this inode number. Other mounts
 * may have files of the same number; `dev` 0: this mount's device is unknown. Sets `c->is_unread`
 * too. */
unsigned int closing_count_open(struct closer *c, dev_t dev, uint64_t ino);

#endif
