// SPDX-License-Identifier: Apache-2.0
/* Helpers that the files about environments share. */
#ifndef BOOTSEER_NODE_ENVIRONMENT_PRIV_H
#define BOOTSEER_NODE_ENVIRONMENT_PRIV_H

#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/images/images.h"

#define NAME_HEX 32

/* Is `s` a mount's name, NAME_HEX hex digits? */
bool environment_is_name(const char *s);
/* The path ROOT/environments/NAME; for "" the folder of all environments.  The caller frees it;
 * NULL without memory. */
char *environment_work(const struct environments *envs, const char *name);
/* Make that folder, with the current boot id in it. */
int environment_make_work(const char *work, struct error *err) MUST_CHECK;
/*
 * Writes into the environment go to a file system of its own, whose size is --env-write-max: a
 * writer that fills it gets ENOSPC, and no other writer does. It is a file in the folder of the
 * name, whose space is allocated at once, mounted by a loop device at RUN/environments/NAME. It
 * outlives bootseerd.
 *
 * Make it, unless it is there. -EDQUOT, -ENOSPC: there is no room for it.
 */
int environment_upper_make(const struct environments *envs, const char *name,
			   struct error *err) MUST_CHECK;
/* Unmount that file system; overlays that use it keep it until they end. */
void environment_upper_end(const struct environments *envs, const char *name);
/* The path RUN/environments/NAME; the caller frees it, NULL without memory. */
char *environment_upper_path(const struct environments *envs, const char *name);
/* Called at start: make the folder of the file systems' mount points. */
int environment_uppers_open(const struct environments *envs,
			    struct error *err) MUST_CHECK;
/* The image user that stands for the mount `name`; the caller frees it, NULL without memory. */
char *environment_user(const char *name);
/* Check the query, then take a use of the snapshot's image, which is fetched if it is not on
 * the node. */
int environment_find(const struct environments *envs,
		     const struct environment_query *q, struct image **ret,
		     struct error *err) MUST_CHECK;

#endif
