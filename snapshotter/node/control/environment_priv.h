// SPDX-License-Identifier: Apache-2.0
/* Parts that the files of environments share. */
#ifndef BOOTSEER_NODE_ENVIRONMENT_PRIV_H
#define BOOTSEER_NODE_ENVIRONMENT_PRIV_H

#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/images/images.h"

#define NAME_HEX 32

/* NAME_HEX hex digits? */
bool environment_is_name(const char *s);
/* ROOT/environments/NAME, of "" the folder of all; the caller's, NULL without memory. */
char *environment_work(const struct environments *envs, const char *name);
/* Make that folder, as of this boot. */
int environment_make_work(const char *work, struct error *err) MUST_CHECK;
/*
 * Writes into the environment go to a file system of its own, whose size is
 * --env-write-max: a writer meets its end (ENOSPC), and nobody else does. It is
 * a file in the folder of the name, whose space is allocated at once, mounted
 * by a loop device at RUN/environments/NAME. It outlives bootseerd.
 *
 * make: nothing is done where it is there. -EDQUOT, -ENOSPC: there is no room
 * for it.
 */
int environment_upper_make(const struct environments *envs, const char *name,
			   struct error *err) MUST_CHECK;
/* Unmount it; overlays that have it keep it until they end. */
void environment_upper_end(const struct environments *envs, const char *name);
/* RUN/environments/NAME; the caller's, NULL without memory. */
char *environment_upper_path(const struct environments *envs, const char *name);
/* At start: make the folder of these mounts. */
int environment_uppers_open(const struct environments *envs,
			    struct error *err) MUST_CHECK;
/* The user of images by that name; the caller's, NULL without memory. */
char *environment_user(const char *name);
/* A use of the snapshot's image, which is fetched when it is not here; what is asked is
 * looked at first. */
int environment_find(const struct environments *envs,
		     const struct environment_query *q, struct image **ret,
		     struct error *err) MUST_CHECK;

#endif
