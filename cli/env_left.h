// SPDX-License-Identifier: Apache-2.0
/* Processes that a command leaves behind: a snapshot has files only, so they are not there
 * where it is restored. */
#ifndef BOOTSEER_CLI_ENV_LEFT_H
#define BOOTSEER_CLI_ENV_LEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ENV_LEFT_MAX 64
#define ENV_LEFT_ROOM 256

struct env_left {
	pid_t pids[ENV_LEFT_MAX];
	size_t n;
};

/* While it is on, processes whose parent ends become this process's own. */
void env_left_adopt(bool is_on);
/* Those that live now; none where the kernel keeps no list of them. */
void env_left_list(struct env_left *ret);
/* Their number and names, "2 processes (redis-server, sleep)", of those in `was` that live
 * still: a helper of our own does not last from one look to the next.  0: none. */
size_t env_left_describe(const struct env_left *was, char ret[ENV_LEFT_ROOM]);

#endif
