// SPDX-License-Identifier: Apache-2.0
/* Environments that bootseerd mounts. */
#ifndef BOOTSEER_CLI_ENV_MOUNT_H
#define BOOTSEER_CLI_ENV_MOUNT_H

#include "envcache/join.h"
#include "envcache/restore.h"

/* Source name of an environment's overlay: this prefix and 32 hex digits. */
#define ENV_MOUNT_PREFIX "bootseer-env:"

#define ENV_MOUNT_NAME_ROOM 33
/* A name for a mount: 32 random hex digits. */
int env_mount_choose_name(char ret[ENV_MOUNT_NAME_ROOM],
			  struct error *err) MUST_CHECK;

/* Connect to bootseerd at `socket`, or at its usual path; calls time out after `timeout_ms`.
 * -ENOENT with an empty message: no bootseerd is there, and none was asked for. */
struct node_client;
int env_node_connect(const char *socket, uint32_t timeout_ms,
		     struct node_client **ret, struct error *err) MUST_CHECK;

struct env_mount_job {
	const char *socket; /* NULL: $BOOTSEER_SOCKET, else the usual path */
	const char *store;  /* URL */
	const struct env_snapshot *snap;
	const struct env_targets *targets;
	struct env_restore_check *check; /* or NULL */
	int64_t others_ns; /* deadline to wait for another process that
	                    * restores there */
	/* Set if bootseerd answered, whether or not the mount succeeded. */
	bool is_answered;
	/* Set if the targets must not be filled by unpacking either, as a failed check left a
	 * mount. */
	bool is_over;
};

/* Have bootseerd mount the snapshot and join the mount to the targets; if the check fails,
 * unmount it and return the check's error.  Returns 1 if the snapshot was in the targets
 * already, and passed the check.  -ENOENT with an empty message: no bootseerd is there for us,
 * which is normal. */
int env_mount(struct env_mount_job *job, struct error *err) MUST_CHECK;

#endif
