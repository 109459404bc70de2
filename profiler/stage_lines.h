// SPDX-License-Identifier: Apache-2.0
/* A log that comes in pieces, cut into lines and these into events.  Pure. */
#ifndef BOOTSEER_PROFILER_STAGE_LINES_H
#define BOOTSEER_PROFILER_STAGE_LINES_H

#include "profiler/stage_event.h"

/* Bytes that are kept of a line; what is longer is looked through in pieces, and
 * an event that lies across their ends is lost. */
#define STAGE_LINES_MAX 65536u

/* An event and where its line began; texts are borrowed for the call.  Not 0 ends
 * the reading, and is returned. */
typedef int stage_lines_fn(void *arg, const struct stage_event *e,
			   uint64_t offset);

struct stage_lines {
	char *line;
	size_t len;
	uint64_t offset; /* in the log, of `line` */
	uint64_t events, junk;
	struct buf plain;   /* the line without colours */
	struct buf last;    /* the event before, without its time */
	bool last_is_trace; /* it was of a shell's trace */
};

int stage_lines_init(struct stage_lines *l, struct error *err) MUST_CHECK;
void stage_lines_fini(struct stage_lines *l);

/* The next bytes of the log; calls `each` for each event of the lines that are
 * whole. */
int stage_lines_feed(struct stage_lines *l, const char *data, size_t len,
		     stage_lines_fn *each, void *arg) MUST_CHECK;

/* The log is over: its last line may have no newline. */
int stage_lines_end(struct stage_lines *l, stage_lines_fn *each,
		    void *arg) MUST_CHECK;

#endif
