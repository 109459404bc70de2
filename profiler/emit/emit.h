// SPDX-License-Identifier: Apache-2.0
/*
 * How a process of BootSeer says what stage of a start it is in: every one by these
 * functions, so that all events have the same clocks, boot and ids.
 */
#ifndef BOOTSEER_PROFILER_EMIT_H
#define BOOTSEER_PROFILER_EMIT_H

#include "common/cleanup.h"
#include "common/error.h"
#include "profiler/stage_event.h"

/* Where bootseer-events looks for the events of this node's own processes. */
#define STAGE_EMIT_DIR "/run/bootseer-events"
#define STAGE_EMIT_SUFFIX ".events"

/* This machine as events name it: $BOOTSEER_NODE, or its host name; "" if that is no
 * name.  Kept until the next call. */
const char *stage_this_node(void);
/* The attempt that the environment says; `*ret` stays when it says none. */
void stage_this_attempt(int64_t *ret);
/* The boot that CLOCK_MONOTONIC counts from; 0: unknown. */
uint64_t stage_this_boot(void);

/* An event that happened at `mono_ns` (clock_now_ns(); 0: now): both times, the boot
 * and an id of its own; nothing about whose it is.  `name` is borrowed. */
void stage_make(const char *name, enum stage_ev ev, int64_t mono_ns,
		struct stage_event *ret);

/* Set the owner of the event by $BOOTSEER_JOB, _ATTEMPT and _RANK or $RANK. Wrong values
 * are left out: a start never fails because it is measured. */
void stage_own_by_env(struct stage_event *e);

/* A number of an option or the environment: at most 9 digits. */
bool stage_read_count(const char *s, int64_t *ret);

struct stage_emitter;

/*
 * Events go to DIR/`name`.events, for bootseer-events.  The file is bounded: one that
 * has grown to 1 MiB is renamed to NAME.events.1, and what was there is gone.
 *   -ENOENT  the folder is not there: nobody follows events on this node
 */
int stage_emitter_new(const char *dir, const char *name,
		      struct stage_emitter **ret, struct error *err) MUST_CHECK;
void stage_emitter_free(struct stage_emitter *e); /* NULL is allowed */
DEFINE_AUTO(stage_emitter)

/* Write one event, whole or not at all.  Any thread; it waits for the disk's cache
 * alone.  False: it could not be written.  NULL is allowed. */
bool stage_emit(struct stage_emitter *e, const struct stage_event *ev);

#endif
