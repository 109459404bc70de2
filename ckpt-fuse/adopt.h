// SPDX-License-Identifier: Apache-2.0
/* Files that are there, made striped or plain. */
#ifndef BOOTSEER_CKPT_FUSE_ADOPT_H
#define BOOTSEER_CKPT_FUSE_ADOPT_H

#include "objects/store.h"

struct ckpt_progress;

struct ckpt_adopt {
	bool to_plain;
	uint64_t threshold; /* plain files that are longer are made striped */
	uint32_t columns;   /* 1..64; 0: by the size; striped files stay */
	uint32_t uid, gid;  /* of files that were plain, which say nothing */
	/* Permissions, owner and extended attributes of what is made plain may go. */
	bool may_lose;
	bool dry_run;
	/* Results: */
	bool is_changed; /* or, in a dry run, would be */
	uint64_t size;   /* of the file */
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
