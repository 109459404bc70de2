// SPDX-License-Identifier: Apache-2.0
/*
 * Differences between two snapshots of a store.  Fetches their metadata, and only those blocks of
 * contents that cannot be compared by digest: blocks that a changed file shares with other files,
 * or that are cut differently.
 */
#ifndef BOOTSEER_ENVCACHE_DIFF_H
#define BOOTSEER_ENVCACHE_DIFF_H

#include "envcache/envcache.h"

/* How an entry differs that both snapshots have. */
enum env_differs_in {
	ENV_DIFFERS_TYPE = 1, /* alone: entries of different types are not
	                       * compared further */
	ENV_DIFFERS_CONTENT = 2,
	ENV_DIFFERS_MODE = 4, /* permissions */
	ENV_DIFFERS_OWNER = 8,
	ENV_DIFFERS_TIME = 16, /* time of modification */
	ENV_DIFFERS_TARGET = 32,
	ENV_DIFFERS_XATTR = 64,
	ENV_DIFFERS_DEVICE = 128,
	ENV_DIFFERS_LINKS = 256, /* the entry is a hard link to another file */
};

/* An entry of one of the snapshots; `target` is NULL unless it is a symlink. */
struct env_thing {
	uint32_t mode; /* S_IF* and permissions; 0: the snapshot deletes the
	                * name */
	uint32_t uid, gid;
	uint32_t major, minor;
	uint32_t mtime_nsec;
	int64_t mtime;
	uint64_t size; /* bytes of regular files, else 0 */
	const char *target;
};

struct env_difference {
	const char *path; /* absolute; unprintable bytes and backslashes as
	                   * \xNN */
	const struct env_thing *a; /* NULL: only in B */
	const struct env_thing *b; /* NULL: only in A */
	unsigned int in; /* enum env_differs_in; 0 if only one has it */
	const char *const
		*xattrs; /* names of attributes that differ, ends with NULL */
};

/* Returns 0, or -errno to end env_diff(), which returns it.  All is borrowed. */
typedef int env_diff_fn(void *arg, const struct env_difference *d,
			struct error *err);

struct env_diff {
	bool no_times; /* ignore times of modification */
	env_diff_fn *fn;
	void *arg;
	/* Set by env_diff(). */
	uint64_t n_removed, n_added, n_changed;
	uint64_t removed_bytes, added_bytes; /* sizes of regular files, for
	                                      * each name */
	uint64_t fetched;                    /* bytes of fetched blocks */
};

/*
 * Call `d->fn` for each path that differs, in byte order of names, a folder before its entries.
 * Needs memory for the two trees (as a restore does) and two blocks.  Differences reported before
 * a failure are right.
 */
int env_diff(struct object_store *s, const struct env_snapshot *a,
	     const struct env_snapshot *b, struct env_diff *d,
	     struct error *err) MUST_CHECK;

#endif
