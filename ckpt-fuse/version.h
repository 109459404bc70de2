// SPDX-License-Identifier: Apache-2.0
/*
 * The version of a file at one moment. A writer keeps the version it found, and its commit
 * compares: docs/decisions/0017-two-writers.md.
 */
#ifndef BOOTSEER_CKPT_FUSE_VERSION_H
#define BOOTSEER_CKPT_FUSE_VERSION_H

#include "objects/store.h"

struct ckpt_stat;
struct ckpt_file;

struct ckpt_version {
	bool is_known;     /* false: the store was not asked */
	bool knows_hidden; /* `plain` is known also where `striped` exists */
	/* Tags of the manifest and of the plain object; "": does not exist. */
	char striped[OBJECT_TAG_MAX];
	char plain[OBJECT_TAG_MAX];
	/* Values of the manifest. */
	uint64_t generation;
	uint64_t bytes_id; /* unchanged if only attributes change */
};

/* Look at what is at a path now, and in *ret at its attributes, which may be NULL.  *ret_version is
 * known also of these:
 *   -ENOENT   nothing is there
 *   -EISDIR   nothing but a folder is
 *   -EBADMSG  its manifest is damaged */
int ckpt_look(struct object_store *s, const char *path,
	      struct ckpt_version *ret_version, struct ckpt_stat *ret,
	      struct error *err) MUST_CHECK;

/* Get the complete version of an open file, with the plain object that it hides. */
int ckpt_file_version(const struct ckpt_file *f,
		      struct ckpt_version *ret_version,
		      struct error *err) MUST_CHECK;

#endif
