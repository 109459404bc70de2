// SPDX-License-Identifier: Apache-2.0
/*
 * The folder in a target where a restore prepares things and puts aside what it
 * replaces, with a log of what it did: whatever is in the log can be taken back, by this
 * process or, after a kill, by the next one.  One thread.
 *
 * ENV_STAGING<hex>/new  what is to be put in its place
 *                 /old  what was there before, numbered
 *                 /log  records that end with a NUL byte, each written before its deed:
 *                       "N SEC NSEC INODE PATH"  something was put at PATH, which was made
 *                                       at that time (0 0: unknown) and has that number
 *                       "P PATH"        the same, as it was written before
 *                       "O N PATH"      what was at PATH became old/N
 *                       "R PATH"        the folder PATH was removed, empty
 *                       "A MODE UID GID SEC NSEC PATH"  attributes of the folder PATH
 *                                       before they were set
 *                       "X NAME VALUE PATH"  an extended attribute of the folder PATH before
 *                                       it was set, both in hex; VALUE is - where it had none
 *                       "L PATH"        the folder PATH, of another target's part of this
 *                                       restore, says by `done` that all was done
 *     /done             of several targets all was done: the folders of the others, each
 *                       with a NUL byte; nothing is taken back, whatever logs are left
 *     /failed           the log, once some of it could not be taken back, or its place is
 *                       others': what is in old/ is kept for people, and nothing is gone
 *                       on with, as others have worked in the target since
 */
#ifndef BOOTSEER_ENVCACHE_STAGE_H
#define BOOTSEER_ENVCACHE_STAGE_H

#include "envcache/scan.h"
#include "image/tree.h"

#define STAGE_LOOK_NS \
	(50 * INT64_C(1000000)) /* who waits for a lock looks so often */

struct stage {
	int root;   /* the target */
	int dir;    /* its folder in it, locked */
	int new_fd; /* what is in it */
	int old_fd;
	int log_fd;
	char name[40]; /* of the folder */
	uint32_t n_old;
	bool has_kept; /* `old` has a file whose place another process has taken */
};

/* Lock the folder of a target for a restore; it ends with the descriptor.  -EBUSY. */
int stage_lock(int fd, int64_t deadline_ns, struct error *err) MUST_CHECK;

/* -1 in each descriptor: what stage_open() and stage_close() can take. */
void stage_init(struct stage *s);
/* In the target `path`, which is there.  One at a time has a target: others are waited
 * for, until `deadline_ns` (CLOCK_MONOTONIC): -EBUSY. */
int stage_open(struct stage *s, const char *path, int64_t deadline_ns,
	       struct error *err) MUST_CHECK;
/* Remove the folder, and with it what was put aside; NULL-like ones are let be. */
void stage_close(struct stage *s);

/* Write down that `name` in `from` is about to be put at `path`, relative to the target. */
int stage_log_put(struct stage *s, int from, const char *name, const char *path,
		  struct error *err) MUST_CHECK;
/* Keep the attributes that the folder `fd` has. */
int stage_log_attributes(struct stage *s, int fd, const char *path,
			 struct error *err) MUST_CHECK;
/* Keep what the folder `fd` has of the extended attributes that `i` has. */
int stage_log_xattrs(struct stage *s, int fd, const struct inode *i,
		     const char *path, struct error *err) MUST_CHECK;
/* Put aside what is at `name` in `dir`, which `path` leads to; nothing is no error. */
int stage_put_aside(struct stage *s, int dir, const char *name,
		    const char *path, struct error *err) MUST_CHECK;
/* The same of what a rename(2) will replace: until then it is at its place, too, where that is
 * possible, so that a library is never gone for who needs it. */
int stage_keep_aside(struct stage *s, int dir, const char *name,
		     const char *path, struct error *err) MUST_CHECK;

/* All is done: from here on nothing is taken back. */
int stage_commit(struct stage *s, struct error *err) MUST_CHECK;
/* A restore into several targets is done in one moment: when the first says so.  The others
 * follow it from their beginning; `others` has their folders. */
int stage_follow(struct stage *s, const char *leader,
		 struct error *err) MUST_CHECK;
int stage_commit_leader(struct stage *s, const struct buf *others,
			struct error *err) MUST_CHECK;
/* Take back all that the log has.  What others have put at one of its places since stays
 * where `keeps_others`, and what was there before stays in the folder, with that; else it
 * goes, as it was made by what was run to check all this.  When it fails the folder
 * stays, and the message says where. */
int stage_undo(struct stage *s, bool keeps_others,
	       struct error *err) MUST_CHECK;

#endif
