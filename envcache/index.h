// SPDX-License-Identifier: Apache-2.0
/* The object that says what a snapshot is: docs/formats/environment.md.  Pure. */
#ifndef BOOTSEER_ENVCACHE_INDEX_H
#define BOOTSEER_ENVCACHE_INDEX_H

#include "common/buf.h"
#include "envcache/envcache.h"

#define ENV_INDEX_MAX (16u << 20) /* bytes */
/* Versions: all packs are in the snapshot's folder, or some are in env/packs; by the form of
 * the key. */
#define ENV_INDEX_ALONE_1 1
#define ENV_INDEX_SHARED_1 2
#define ENV_INDEX_ALONE 3
#define ENV_INDEX_SHARED 4

int env_index_encode(const struct env_snapshot *s, struct buf *ret,
		     struct error *err) MUST_CHECK;
/* -EBADMSG says what is wrong with it, -ENOTSUP that its version is another. */
int env_index_decode(const void *data, size_t len, struct env_snapshot *ret,
		     struct error *err) MUST_CHECK;

#endif
