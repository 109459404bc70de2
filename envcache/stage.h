// SPDX-License-Identifier: Apache-2.0
/*
 * The staging folder in a target, where a restore prepares files and moves replaced files, with a
 * log of its steps.  All logged steps can be undone, by this process or, after a kill, by the next
 * one.  One thread.
 *
 * ENV_STAGING<hex>/new  files to be moved to their places
 *                 /old  files that were replaced, numbered
 *                 /log  records that end with a NUL byte, each written before its step:
 *                       "N SEC NSEC INODE PATH"  a file was put at PATH, with this birth time
 *                                       (0 0: unknown) and inode number
 *                       "P PATH"        older form of N
 *                       "O N PATH"      the file at PATH was moved to old/N
 *                       "R PATH"        the empty folder PATH was removed
 *                       "A MODE UID GID SEC NSEC PATH"  old attributes of the folder PATH
 *                       "X NAME VALUE PATH"  old extended attribute of the folder PATH, both in
 *                                       hex; VALUE is - if it was not set
 *                       "L PATH"        this target is not the first of the restore: the file
 *                                       `done` in the folder PATH says whether it is complete
 *                 /done             the restore of several targets is complete: the staging
 *                       folders of the others, each with a NUL byte; remaining logs are not undone
 *                 /failed           the log, renamed after some of it could not be undone, or
 *                       places were taken by others: old/ is kept for people, and the log is not
 *                       used again, as other programs have changed the target since
 */
#ifndef BOOTSEER_ENVCACHE_STAGE_H
#define BOOTSEER_ENVCACHE_STAGE_H

#include "envcache/scan.h"
#include "image/tree.h"

#define STAGE_LOOK_NS \
	(50 * INT64_C(1000000)) /* pause between attempts to get a lock */

struct stage {
	int root;   /* the target */
	int dir;    /* the staging folder in the target, locked */
	int new_fd; /* its subfolder `new` */
	int old_fd;
	int log_fd;
	char name[40]; /* name of the staging folder */
	uint32_t n_old;
	bool has_kept; /* `old` has a file whose place was taken */
};

/* Lock the folder of a target for a restore, until the descriptor is closed.  -EBUSY: the deadline
 * passed. */
int stage_lock(int fd, int64_t deadline_ns, struct error *err) MUST_CHECK;

/* Set all descriptors to -1, as stage_open() and stage_close() expect. */
void stage_init(struct stage *s);
/* Create a staging folder in the existing target `path`.  Only one process may have one in a
 * target: others are waited for until `deadline_ns` (CLOCK_MONOTONIC): -EBUSY. */
int stage_open(struct stage *s, const char *path, int64_t deadline_ns,
	       struct error *err) MUST_CHECK;
/* Remove the staging folder with all replaced files.  No effect on a stage that is not open. */
void stage_close(struct stage *s);

/* Log that `name` in `from` will be put at `path`, relative to the target. */
int stage_log_put(struct stage *s, int from, const char *name, const char *path,
		  struct error *err) MUST_CHECK;
/* Log the attributes of the folder `fd`. */
int stage_log_attributes(struct stage *s, int fd, const char *path,
			 struct error *err) MUST_CHECK;
/* Log the old values of those extended attributes of the folder `fd` that `i` has. */
int stage_log_xattrs(struct stage *s, int fd, const struct inode *i,
		     const char *path, struct error *err) MUST_CHECK;
/* Move the entry `name` in `dir`, whose path is `path`, to `old`.  A missing entry is no error. */
int stage_put_aside(struct stage *s, int dir, const char *name,
		    const char *path, struct error *err) MUST_CHECK;
/* stage_put_aside() for an entry that a rename(2) will replace: if possible it stays in place
 * until then, so that for example a library is never missing. */
int stage_keep_aside(struct stage *s, int dir, const char *name,
		     const char *path, struct error *err) MUST_CHECK;

/* Commit: from now on nothing can be undone. */
int stage_commit(struct stage *s, struct error *err) MUST_CHECK;
/* A restore into several targets is committed at one moment: by the first target.  The others name
 * it as their leader at the beginning; `others` has their staging folders. */
int stage_follow(struct stage *s, const char *leader,
		 struct error *err) MUST_CHECK;
int stage_commit_leader(struct stage *s, const struct buf *others,
			struct error *err) MUST_CHECK;
/* Undo all that is logged.  If another process has put something at a place since, it stays with
 * `keeps_others`, and the old file is kept in the staging folder; otherwise it is removed, as the
 * restore's own check made it.  On failure the staging folder is kept; the message names it. */
int stage_undo(struct stage *s, bool keeps_others,
	       struct error *err) MUST_CHECK;

#endif
