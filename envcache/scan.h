// SPDX-License-Identifier: Apache-2.0
/* The entries in the target folders. */
#ifndef BOOTSEER_ENVCACHE_SCAN_H
#define BOOTSEER_ENVCACHE_SCAN_H

#include <sys/stat.h>

#include "envcache/envcache.h"

#define ENV_ENTRIES_MAX 4000000u
#define ENV_DEPTH_MAX 512u
#define ENV_SCAN_THREADS 8u
/* Prefix of staging folders of restores; scans skip them. */
#define ENV_STAGING ".bootseer-env."

struct env_entry {
	const char *path; /* absolute; both texts belong to the scan */
	const char *link; /* target of a symlink */
	uint32_t mode;    /* S_IF* and permission bits */
	uint32_t uid, gid, nlink;
	uint64_t size, ino, dev, rdev;
	int64_t mtime_ns, ctime_ns;
	bool has_content; /* the content was hashed, as the times alone may
	                   * hide a change */
	struct digest content;
};

/* The result of a scan, sorted by env_path_compare(). */
struct env_scan {
	struct env_entry *entries;
	size_t n;
	/* Mounts inside the targets, on folders and files.  They are not part of the targets, and
	 * what they cover was not scanned. */
	const char **mounts;
	size_t n_mounts, cap_mounts;
	struct scan_texts *texts; /* memory of paths and links */
};

/* Order of a walk: a path comes before all paths below it, and those before its next sibling. */
int env_path_compare(const char *a, const char *b);

/* Is the path unknown to the scan because it is a mount, or inside one? */
bool env_scan_is_covered(const struct env_scan *s, const char *path);

/* fs_openat2() for a path of any length, which is opened step by step. */
int env_open_long(int root, const char *path, uint64_t flags, uint64_t resolve);

/* Get the entry `name` in the folder, without following a symlink; "": `dir` itself.  Path, link
 * and content are not set.  Returns -errno. */
int env_entry_look(int dir, const char *name, struct env_entry *ret,
		   bool *ret_is_mount) MUST_CHECK;
/* Set -E2BIG: a scan has at most ENV_ENTRIES_MAX names. */
int env_scan_is_full(struct error *err) MUST_CHECK;

/* Is it the same file with the same attributes, according to stat(2)? */
bool env_entry_is_same(const struct env_entry *a, const struct env_entry *b);
/* Open the entry's file with these flags; -ESTALE: it was replaced by another file. */
int env_entry_open(const struct env_entry *e, int *ret_fd,
		   struct error *err) MUST_CHECK;
/* Is the open file still as the entry describes it? */
bool env_entry_is_still(const struct env_entry *e, int fd);
int env_entry_hash(const struct env_entry *e, struct digest *ret,
		   struct error *err) MUST_CHECK;

/* Digest of names, types, sizes, owners, permissions and times of files.  Nodes with equal digests
 * had equal targets before the command. */
int env_scan_digest(const struct env_scan *s, const struct env_targets *t,
		    struct digest *ret, struct error *err) MUST_CHECK;
/* Is it an empty target?  It counts as missing, as killed restores and other commands leave
 * such. */
bool env_scan_is_empty_target(const struct env_scan *s,
			      const struct env_targets *t, size_t entry);

/* Are both scans equal, including the times that only the kernel sets? */
bool env_scan_is_same(const struct env_scan *a, const struct env_scan *b);

#endif
