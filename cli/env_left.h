// SPDX-License-Identifier: Apache-2.0
/* Processes that a command leaves running: a snapshot only has files, so these processes will be
 * missing where it is restored. */
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

/* Turn adoption on or off: orphaned descendants become children of this process. */
void env_left_adopt(bool is_on);
/* List our children that run now; empty where the kernel has no such list. */
void env_left_list(struct env_left *ret);
/* Describe those of `was` that still run: "2 processes (redis-server, sleep)".  Checking twice
 * skips our own helpers, which are short-lived.  Returns their number. */
size_t env_left_describe(const struct env_left *was, char ret[ENV_LEFT_ROOM]);

#endif
