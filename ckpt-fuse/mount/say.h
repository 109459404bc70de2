// SPDX-License-Identifier: Apache-2.0
/* Emits a mount's stage events, which become part of its job's start. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_SAY_H
#define BOOTSEER_CKPT_FUSE_MOUNT_SAY_H

#include "ckpt-fuse/mount/mount.h"
#include "profiler/emit/emit.h"

struct ckpt_say {
	/* NULL: the mount has no job, or no bootseer-events runs */
	struct stage_emitter *to;
	uint64_t loaded, saved; /* bytes at the end of the last phase */
	/* waits at the end of the last phase of each kind */
	struct ckpt_waits waits;
};

/* Interval for calls of ckpt_say_phases(), milliseconds; -1: never. */
int ckpt_say_interval(const struct ckpt_say *s);

/* Initialise from $BOOTSEER_JOB and $BOOTSEER_EVENTS; errors are ignored, because measuring must
 * not make a start fail. */
void ckpt_say_init(struct ckpt_say *s);
void ckpt_say_fini(struct ckpt_say *s);

/* Emit the begin or end of opening the mount. */
void ckpt_say_open(struct ckpt_say *s, enum stage_ev ev, int64_t status);
/* Emit phases in which programs load and save; `is_last`: the mount ends. */
void ckpt_say_phases(struct ckpt_say *s, struct ckpt_mount *m, bool is_last);

#endif
