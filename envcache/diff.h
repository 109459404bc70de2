// SPDX-License-Identifier: Apache-2.0
/*
 * Differences between two snapshots of a store. Their metadata is fetched; of contents
 * only blocks that digests do not answer for: those that a changed file shares with
 * others, or whose cuts lie elsewhere.
 */
#ifndef BOOTSEER_ENVCACHE_DIFF_H
#define BOOTSEER_ENVCACHE_DIFF_H

#include "envcache/envcache.h"

/* In what a thing differs that both snapshots have. */
enum env_differs_in {
	ENV_DIFFERS_TYPE = 1, /* alone: the rest is not compared then */
	ENV_DIFFERS_CONTENT = 2,
	ENV_DIFFERS_MODE = 4, /* permissions */
	ENV_DIFFERS_OWNER = 8,
	ENV_DIFFERS_TIME = 16, /* of modification */
	ENV_DIFFERS_TARGET = 32,
	ENV_DIFFERS_XATTR = 64,
	ENV_DIFFERS_DEVICE = 128,
	ENV_DIFFERS_LINKS = 256, /* it is another file's hard link */
};

/* A thing in one of them; of symlinks `target`, else NULL. */
struct env_thing {
	uint32_t
		mode; /* S_IF* and permissions; 0: the snapshot deletes the name */
	uint32_t uid, gid;
	uint32_t major, minor;
	uint32_t mtime_nsec;
	int64_t mtime;
	uint64_t size; /* bytes of regular files, else 0 */
	const char *target;
};

struct env_difference {
	const char *path; /* absolute; bytes that ASCII does not print, and
	                            * backslashes, as \xNN */
	const struct env_thing *a; /* NULL: it is in B only */
	const struct env_thing *b; /* NULL: it is in A only */
	unsigned int in; /* enum env_differs_in; 0 of what one has only */
	const char *const
		*xattrs; /* names of those that differ, NULL at the end */
};

/* Returns 0, or -errno, which env_diff() then returns.  All is borrowed. */
typedef int env_diff_fn(void *arg, const struct env_difference *d,
			struct error *err);

struct env_diff {
	bool no_times; /* times of modification do not count */
	env_diff_fn *fn;
	void *arg;
	/* Set by env_diff(). */
	uint64_t n_removed, n_added, n_changed;
	uint64_t removed_bytes, added_bytes; /* of regular files, by name */
	uint64_t fetched;                    /* bytes of blocks, unpacked */
};

/*
 * Call `d->fn` for each path that differs, in byte order of names, a folder before what is
 * in it.  Memory is that of the two trees (as of a restore) and of two blocks.  What was
 * told before a failure is right.
 */
int env_diff(struct object_store *s, const struct env_snapshot *a,
	     const struct env_snapshot *b, struct env_diff *d,
	     struct error *err) MUST_CHECK;

#endif
