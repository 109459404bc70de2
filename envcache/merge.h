// SPDX-License-Identifier: Apache-2.0
/* Snapshots that are the union of many nodes' files: `env run --merge`. */
#ifndef BOOTSEER_ENVCACHE_MERGE_H
#define BOOTSEER_ENVCACHE_MERGE_H

#include "envcache/envcache.h"

struct inode;
struct stat;
struct tree;

/* Is it the key of a merged snapshot?  A restore of such a snapshot only fetches and adds what the
 * targets lack. */
bool env_key_merges(const struct env_key *k);
/* Remove from a snapshot's tree all that the file system has already. */
int merge_prune(struct tree *t, struct error *err) MUST_CHECK;
/* Does our file stay, rather than the snapshot's, which is not a folder? */
bool merge_keeps(const struct stat *ours, const struct inode *theirs);

#endif
