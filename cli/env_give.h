// SPDX-License-Identifier: Apache-2.0
/* Unpack environments from blocks that bootseerd has, or gets from other nodes. */
#ifndef BOOTSEER_CLI_ENV_GIVE_H
#define BOOTSEER_CLI_ENV_GIVE_H

#include "cli/env_mount.h"
#include "cli/node_socket.h"

/* Have bootseerd, or the pod's socket, provide the blocks of the job's snapshot.  -ENOENT with an
 * empty message: neither is there for us; -ENOSYS: bootseerd is too old for this. */
int env_give_open(const struct env_mount_job *job, struct env_giver **ret,
		  struct error *err) MUST_CHECK;
/* Have bootseerd fetch the whole snapshot, in the background after this returns, for a process
 * that will mount or unpack it within five minutes. */
int env_give_order(const struct env_mount_job *job,
		   struct error *err) MUST_CHECK;
void env_give_close(struct env_giver *g); /* NULL is allowed */

/* Serve the blocks of one snapshot over `fd` until the peer closes it.  `params` are those of
 * bootseerd's environment.open, with the mount's name; ownership is taken, and NULL means no
 * memory.  `seconds` is how long the peer may be silent. */
int env_give_serve(const struct node_options *node, int fd, json_t *params,
		   unsigned int seconds, struct error *err) MUST_CHECK;

#endif
