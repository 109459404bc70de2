// SPDX-License-Identifier: Apache-2.0
/* Attributes of many striped files, each of which is in a manifest of its own. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_MANIFESTS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_MANIFESTS_H

#include "ckpt-fuse/mount/listed.h"

/*
 * Ask the store, side by side, for the striped files that a young list of the folder
 * showed from the name `from` on, `most` at most, and tell `listed` of them.  Blocks
 * until all are there.  What fails is not told: it is asked for again when it is looked
 * up, and says why then.
 */
void manifests_ask(struct object_store *store, struct listed *listed,
		   const char *folder, const char *from, size_t most);

#endif
