// SPDX-License-Identifier: Apache-2.0
/*
 * The folder in a target where a restore prepares things and puts aside what it
 * replaces, with a log of what it did: whatever is in the log can be taken back, by this
 * process or, after a kill, by the next one.  One thread.
 *
 * ENV_STAGING<hex>/new  what is to be put in its place
 *                 /old  what was there before, numbered
 *                 /log  records that end with a NUL byte, each written before its deed:
 *                       "P PATH"        something was put at PATH
 *                       "O N PATH"      what was at PATH became old/N
 *                       "R PATH"        the folder PATH was removed, empty
 *                       "A MODE UID GID SEC NSEC PATH"  attributes of the folder PATH
 *                                       before they were set
 */
#ifndef BOOTSEER_ENVCACHE_STAGE_H
#define BOOTSEER_ENVCACHE_STAGE_H

#include "envcache/scan.h"
#include "image/tree.h"

struct stage {
	int root;   /* the target */
	int dir;    /* its folder in it, locked */
	int new_fd; /* what is in it */
	int old_fd;
	int log_fd;
	char name[40]; /* of the folder */
	uint32_t n_old;
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

/* Write down what is about to be put at `path`, relative to the target. */
int stage_log_put(struct stage *s, const char *path,
		  struct error *err) MUST_CHECK;
/* Keep the attributes that the folder `fd` has. */
int stage_log_attributes(struct stage *s, int fd, const char *path,
			 struct error *err) MUST_CHECK;
/* Put aside what is at `name` in `dir`, which `path` leads to; nothing is no error. */
int stage_put_aside(struct stage *s, int dir, const char *name,
		    const char *path, struct error *err) MUST_CHECK;

/* All is done: from here on nothing is taken back. */
int stage_commit(struct stage *s, struct error *err) MUST_CHECK;
/* Take back all that the log has. */
int stage_undo(struct stage *s, struct error *err) MUST_CHECK;

#endif
