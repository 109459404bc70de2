// SPDX-License-Identifier: Apache-2.0
/* Environments that are unpacked of blocks that bootseerd has, or gets of other nodes. */
#ifndef BOOTSEER_CLI_ENV_GIVE_H
#define BOOTSEER_CLI_ENV_GIVE_H

#include "cli/env_mount.h"
#include "cli/node_socket.h"

/* Have bootseerd, or the pod's socket, bring the snapshot of the job.  -ENOENT with an empty
 * message: there is none for us; -ENOSYS: it is one of before. */
int env_give_open(const struct env_mount_job *job, struct env_giver **ret,
		  struct error *err) MUST_CHECK;
/* Have bootseerd bring all of the snapshot, which goes on when this has returned: for whoever has
 * it mounted, or unpacks it, within five minutes. */
int env_give_order(const struct env_mount_job *job,
		   struct error *err) MUST_CHECK;
void env_give_close(struct env_giver *g); /* NULL is allowed */

/* Serve the blocks of one snapshot to whoever is at the other end of `fd`, until it leaves.
 * `params` are those of bootseerd's environment.open, with the name of what it opens; they are
 * taken, and NULL when memory is short.  `seconds` is how long the other end may be silent. */
int env_give_serve(const struct node_options *node, int fd, json_t *params,
		   unsigned int seconds, struct error *err) MUST_CHECK;

#endif
