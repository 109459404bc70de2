// SPDX-License-Identifier: Apache-2.0
/*
 * The message in which a save's first node sends the others all tables, and the file that it
 * found at the path. Pure: docs/formats/group-save.md has the format.
 */
#ifndef BOOTSEER_GROUPIO_SAVE_BUNDLE_H
#define BOOTSEER_GROUPIO_SAVE_BUNDLE_H

#include "ckpt-fuse/ckpt.h"
#include "common/buf.h"
#include "groupio/save_plan.h"

/* Longest table or part that a node sends by itself; larger ones are fetched from it. */
#define SAVE_TOLD_MAX (64u << 10)

/* The file at the path when the save began. */
struct save_seen {
	struct ckpt_version version;
	/* User id of the file's owner; -1: there was no file. */
	int64_t owner;
	/* Another save of that path was running then, and has changed the file or will. */
	bool is_behind;
};

/* texts: table of each node, as save_table_encode() made it; tables longer than
 * SAVE_TOLD_MAX are left out. */
int save_bundle_encode(const struct buf *texts, size_t n,
		       const struct save_seen *seen, struct buf *ret,
		       struct error *err) MUST_CHECK;

/* Decode the tables of all of `n` nodes but `self`; *ret_absent has a bit for each table
 * that is left out. Decoded tables are in `ret` also after a failure. */
int save_bundle_decode(const char *data, size_t len, size_t n, size_t self,
		       struct save_table *ret, uint64_t *ret_absent,
		       struct save_seen *ret_seen,
		       struct error *err) MUST_CHECK;

#endif
