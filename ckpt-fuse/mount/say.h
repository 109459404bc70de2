// SPDX-License-Identifier: Apache-2.0
/* Events of a mount for whoever follows those of its job. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_SAY_H
#define BOOTSEER_CKPT_FUSE_MOUNT_SAY_H

#include "ckpt-fuse/mount/mount.h"
#include "profiler/emit/emit.h"

struct ckpt_say {
	struct stage_emitter *to; /* NULL: it has no job, or nobody follows */
	uint64_t loaded, saved;   /* bytes, as of the last end of a phase */
	struct ckpt_waits waits;  /* as of then, each of its own phases */
};

/* How often ckpt_say_phases() is to be called, milliseconds; -1: never. */
int ckpt_say_interval(const struct ckpt_say *s);

/* By $BOOTSEER_JOB and $BOOTSEER_EVENTS; a start never fails because of it. */
void ckpt_say_init(struct ckpt_say *s);
void ckpt_say_fini(struct ckpt_say *s);

/* Say that the mount is being opened, and that it was. */
void ckpt_say_open(struct ckpt_say *s, enum stage_ev ev, int64_t status);
/* Say the phases in which programs load and save; `is_last`: the mount is gone. */
void ckpt_say_phases(struct ckpt_say *s, struct ckpt_mount *m, bool is_last);

#endif
