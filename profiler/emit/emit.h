// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the stage events of BootSeer's own processes. All processes use these functions, so that
 * all events have the same clocks, boot and kind of id.
 */
#ifndef BOOTSEER_PROFILER_EMIT_H
#define BOOTSEER_PROFILER_EMIT_H

#include "common/cleanup.h"
#include "common/error.h"
#include "profiler/stage_event.h"

/* Folder where bootseer-events reads the events of this node's own processes. */
#define STAGE_EMIT_DIR "/run/bootseer-events"
#define STAGE_EMIT_SUFFIX ".events"

/* The name of this machine in events: $BOOTSEER_NODE, or its host name; "": the name is not valid
 * in an event. The text is valid until the next call. */
const char *stage_this_node(void);
/* Read the attempt from the environment; `*ret` is unchanged if the environment has none. */
void stage_this_attempt(int64_t *ret);
/* A number for the boot since which CLOCK_MONOTONIC counts; 0: unknown. */
uint64_t stage_this_boot(void);

/* Make an event that happened at `mono_ns` (clock_now_ns(); 0: now), with both times, the boot and
 * a new id, but without job, attempt and rank. `name` is borrowed. */
void stage_make(const char *name, enum stage_ev ev, int64_t mono_ns,
		struct stage_event *ret);

/* Set the event's job, attempt and rank from $BOOTSEER_JOB, _ATTEMPT and _RANK or $RANK. Invalid
 * values are ignored: measuring must never make a start fail. */
void stage_own_by_env(struct stage_event *e);

/* Read a number from an option or the environment: at most 9 digits. */
bool stage_read_count(const char *s, int64_t *ret);

struct stage_emitter;

/*
 * Create an emitter that writes to the file DIR/`name`.events, which bootseer-events reads. At 1
 * MiB the file is renamed to NAME.events.1, which replaces the older file of that name.
 *   -ENOENT  the folder is not there: no bootseer-events runs on this node
 */
int stage_emitter_new(const char *dir, const char *name,
		      struct stage_emitter **ret, struct error *err) MUST_CHECK;
void stage_emitter_free(struct stage_emitter *e); /* NULL is allowed */
DEFINE_AUTO(stage_emitter)

/* Append one event, completely or not at all. Any thread; writes to the page cache, and does not
 * wait for the disk. False: the write failed. `e` NULL: no emitter, nothing happens. */
bool stage_emit(struct stage_emitter *e, const struct stage_event *ev);

#endif
