// SPDX-License-Identifier: Apache-2.0
/* The entries of the target folders. */
#ifndef BOOTSEER_ENVCACHE_SCAN_H
#define BOOTSEER_ENVCACHE_SCAN_H

#include <sys/stat.h>

#include "envcache/envcache.h"

#define ENV_ENTRIES_MAX 4000000u
#define ENV_DEPTH_MAX 512u
#define ENV_SCAN_THREADS 8u
/* Folders of restores under way in a target begin so; no scan sees them. */
#define ENV_STAGING ".bootseer-env."

struct env_entry {
	const char *path; /* absolute; the scan's, as is the link */
	const char *link; /* of a symlink: where it leads */
	uint32_t mode;    /* S_IF* and permission bits */
	uint32_t uid, gid, nlink;
	uint64_t size, ino, dev, rdev;
	int64_t mtime_ns, ctime_ns;
	bool has_content; /* it was hashed, as its times could lie */
	struct digest content;
};

/* Sorted as a walk that takes names in byte order: env_path_compare(). */
struct env_scan {
	struct env_entry *entries;
	size_t n;
	/* Mounts in the targets, folders and files: they are not the targets' own, and
	 * what they cover was not looked at. */
	const char **mounts;
	size_t n_mounts, cap_mounts;
	struct scan_texts *texts; /* what paths and links point into */
};

/* A path comes before what is below it, and that before its next sibling. */
int env_path_compare(const char *a, const char *b);

/* Was nothing seen of the path, as it is mounted, or in what is? */
bool env_scan_is_covered(const struct env_scan *s, const char *path);

/* As fs_openat2(), of a path of any length, which is opened by steps. */
int env_open_long(int root, const char *path, uint64_t flags, uint64_t resolve);

/* Look at the name in the folder, also of a symlink itself; "": at what `dir` has open.
 * -errno. It leaves path, link and content as they are. */
int env_entry_look(int dir, const char *name, struct env_entry *ret,
		   bool *ret_is_mount) MUST_CHECK;
/* -E2BIG, as a scan has ENV_ENTRIES_MAX names at most. */
int env_scan_is_full(struct error *err) MUST_CHECK;

/* The same thing with the same attributes, as far as stat(2) tells? */
bool env_entry_is_same(const struct env_entry *a, const struct env_entry *b);
/* The file behind the entry, open with these flags; -ESTALE: it is another by now. */
int env_entry_open(const struct env_entry *e, int *ret_fd,
		   struct error *err) MUST_CHECK;
/* Is what `fd` has open still as the entry says? */
bool env_entry_is_still(const struct env_entry *e, int fd);
int env_entry_hash(const struct env_entry *e, struct digest *ret,
		   struct error *err) MUST_CHECK;

/* A digest of names, kinds, sizes, owners, permissions and times of files: two nodes
 * with the same one had the same before the command. */
int env_scan_digest(const struct env_scan *s, const struct env_targets *t,
		    struct digest *ret, struct error *err) MUST_CHECK;
/* A target with nothing in it, which is as good as none: a restore that was killed, or another
 * command, makes such. */
bool env_scan_is_empty_target(const struct env_scan *s,
			      const struct env_targets *t, size_t entry);

/* Are they of the same things, also the times that only the kernel sets? */
bool env_scan_is_same(const struct env_scan *a, const struct env_scan *b);

#endif
