// SPDX-License-Identifier: Apache-2.0
/* Reads the attributes of many striped files, each from its manifest. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_MANIFESTS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_MANIFESTS_H

#include "ckpt-fuse/mount/listed.h"

/*
 * Read, in parallel, the manifests of up to `most` striped files that a young list of the folder
 * showed, from the name `from` on, and store their attributes in `listed`. Blocks until all are
 * read. Failures are ignored: a later look-up asks again and reports the error.
 */
void manifests_ask(struct object_store *store, struct listed *listed,
		   const char *folder, const char *from, size_t most);

#endif
