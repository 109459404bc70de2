// SPDX-License-Identifier: Apache-2.0
/* The index, an object that describes a snapshot: docs/formats/environment.md.  Does no I/O. */
#ifndef BOOTSEER_ENVCACHE_INDEX_H
#define BOOTSEER_ENVCACHE_INDEX_H

#include "common/buf.h"
#include "envcache/envcache.h"

#define ENV_INDEX_MAX (16u << 20) /* bytes */
/* Versions of the format, by two properties: whether all packs are in the snapshot's folder
 * (ALONE) or some in env/packs (SHARED); and the form of the key (_1: the first). */
#define ENV_INDEX_ALONE_1 1
#define ENV_INDEX_SHARED_1 2
#define ENV_INDEX_ALONE 3
#define ENV_INDEX_SHARED 4

int env_index_encode(const struct env_snapshot *s, struct buf *ret,
		     struct error *err) MUST_CHECK;
/* -EBADMSG: the message says what is wrong; -ENOTSUP: unknown version. */
int env_index_decode(const void *data, size_t len, struct env_snapshot *ret,
		     struct error *err) MUST_CHECK;

#endif
