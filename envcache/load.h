// SPDX-License-Identifier: Apache-2.0
/* A snapshot's metadata, fetched and verified: its tree, and where contents are stored. */
#ifndef BOOTSEER_ENVCACHE_LOAD_H
#define BOOTSEER_ENVCACHE_LOAD_H

#include "blockstore/blockstore.h"
#include "envcache/restore.h"
#include "image/artifact/artifact.h"
#include "image/tree.h"

struct mapped_file {
	void *data;
	size_t len;
};

struct loaded {
	struct oci_store *blobs;
	struct artifact artifact;
	struct mapped_file meta, map_bytes;
	struct blockmap map;
	struct tree *tree;
	struct env_giver *giver; /* provides contents; may be NULL */
};

/* `giver` may be NULL; otherwise it is borrowed until loaded_free(). */
int loaded_open(struct object_store *s, const struct env_snapshot *snap,
		struct env_giver *giver, struct loaded **ret,
		struct error *err) MUST_CHECK;
void loaded_free(struct loaded *l);
DEFINE_AUTO(loaded)

#endif
