// SPDX-License-Identifier: Apache-2.0
/*
 * The message of a save's first node to the others once it has the tables of all: those tables, and
 * what it found at the file's path.  Pure: docs/formats/group-save.md has the format.
 */
#ifndef BOOTSEER_GROUPIO_SAVE_BUNDLE_H
#define BOOTSEER_GROUPIO_SAVE_BUNDLE_H

#include "ckpt-fuse/ckpt.h"
#include "common/buf.h"
#include "groupio/save_plan.h"

/* Bytes of a table or of a part that a node sends unasked; larger ones are fetched from it. */
#define SAVE_TOLD_MAX (64u << 10)

/* The file that was at the path when the save began. */
struct save_seen {
	struct ckpt_version version;
	/* The user whose file it is; -1: there was none. */
	int64_t owner;
	/* Another save of that path was under way then, and has changed it, or will. */
	bool is_behind;
};

/* texts: each node's table, as save_table_encode() made it; those above SAVE_TOLD_MAX are left
 * out. */
int save_bundle_encode(const struct buf *texts, size_t n,
		       const struct save_seen *seen, struct buf *ret,
		       struct error *err) MUST_CHECK;

/* Decode the tables of all of `n` nodes but `self`; *ret_absent has a bit for each that is left
 * out.  Tables that were decoded are in `ret` also where it fails. */
int save_bundle_decode(const char *data, size_t len, size_t n, size_t self,
		       struct save_table *ret, uint64_t *ret_absent,
		       struct save_seen *ret_seen,
		       struct error *err) MUST_CHECK;

#endif
