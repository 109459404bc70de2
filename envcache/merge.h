// SPDX-License-Identifier: Apache-2.0
/* Snapshots that are the union of what many nodes have: `env run --merge`. */
#ifndef BOOTSEER_ENVCACHE_MERGE_H
#define BOOTSEER_ENVCACHE_MERGE_H

#include "envcache/envcache.h"

struct inode;
struct stat;
struct tree;

/* Is the key that of a merged snapshot?  A restore of one puts only what the targets lack,
 * and fetches no more. */
bool env_key_merges(const struct env_key *k);
/* Leave in a snapshot's tree what the file system lacks. */
int merge_prune(struct tree *t, struct error *err) MUST_CHECK;
/* Does the file system's thing stay, and not that of the snapshot, which is no folder? */
bool merge_keeps(const struct stat *ours, const struct inode *theirs);

#endif
