// SPDX-License-Identifier: Apache-2.0
/* Converts existing files to the striped or the plain layout. */
#ifndef BOOTSEER_CKPT_FUSE_ADOPT_H
#define BOOTSEER_CKPT_FUSE_ADOPT_H

#include "objects/store.h"

struct ckpt_progress;

struct ckpt_adopt {
	bool to_plain;
	uint64_t threshold; /* longer plain files become striped */
	/* 1..64; 0: chosen by size; striped files keep theirs */
	uint32_t columns;
	/* owner of files that were plain, since plain files have none */
	uint32_t uid, gid;
	/* A file that becomes plain may lose its permissions, owner and extended attributes. */
	bool may_lose;
	bool dry_run;
	/* Results: */
	bool is_changed; /* true also in a dry run if it would be changed */
	uint64_t size;   /* size of the file */
};

/* Write a file again in the other layout, in parallel: it is there all the time, as it was
 * or as it becomes, and keeps its time and its attributes.  What is as it should be stays.
 * Fails as ckpt_commit() does; besides:
 *   -ESTALE   somebody else wrote it meanwhile: it is as they left it
 *   -ENOTSUP  a plain object would lose its attributes */
int ckpt_adopt(struct object_store *s, const char *path, struct ckpt_adopt *a,
	       const struct ckpt_progress *progress,
	       struct error *err) MUST_CHECK;

#endif
