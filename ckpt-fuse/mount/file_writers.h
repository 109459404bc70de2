// SPDX-License-Identifier: Apache-2.0
/*
 * Which processes wrote to a file since it was stored last, and whether one that opened it,
 * too, was killed: then what is there is half of something.  Pure; under the node's lock
 * `seen`.
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_FILE_WRITERS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_FILE_WRITERS_H

#include <stdbool.h>
#include <sys/types.h>

#define FILE_WRITERS_MAX \
	8u /* when there are more, whoever asks is one of them */

struct file_writers {
	/* Who wrote last, also before that; what the kernel numbers so may be another by
	 * now. */
	pid_t thread, process;
	pid_t all[FILE_WRITERS_MAX];
	unsigned int n;
	bool is_torn;
};

bool file_writers_has(const struct file_writers *w, pid_t process);
/* Was it noted that the thread is the last that wrote? */
bool file_writers_knows(const struct file_writers *w, pid_t thread);
/* The thread, of that process (0: it is not seen), writes. */
void file_writers_note(struct file_writers *w, pid_t thread, pid_t process);
/* The process, which opened the file, was killed before it closed it. */
void file_writers_killed(struct file_writers *w, pid_t process);
/* Is what is there to be stored when that process closes it?  One that wrote to it knows what
 * it does; a child that only inherited it does not. */
bool file_writers_may_store(const struct file_writers *w, pid_t process);
/* All is stored, or begins anew. */
void file_writers_clear(struct file_writers *w);

#endif
