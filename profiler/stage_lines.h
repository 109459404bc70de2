// SPDX-License-Identifier: Apache-2.0
/* Splits a log that comes in pieces into lines, and finds their events. Pure. */
#ifndef BOOTSEER_PROFILER_STAGE_LINES_H
#define BOOTSEER_PROFILER_STAGE_LINES_H

#include "profiler/stage_event.h"

/* Bytes of a line that are buffered. A longer line is searched in pieces, and an event across their
 * ends is lost. */
#define STAGE_LINES_MAX 65536u

/* Called with an event and the offset where its line began; texts are borrowed for the call. A
 * result other than 0 ends the reading, and is returned. */
typedef int stage_lines_fn(void *arg, const struct stage_event *e,
			   uint64_t offset);

struct stage_lines {
	char *line;
	size_t len;
	uint64_t offset; /* offset of `line` in the log */
	uint64_t events, junk;
	struct buf plain;   /* the line without colours */
	struct buf last;    /* the previous event, without its time */
	bool last_is_trace; /* the previous event was in a shell's trace */
};

int stage_lines_init(struct stage_lines *l, struct error *err) MUST_CHECK;
void stage_lines_fini(struct stage_lines *l);

/* Feed the next bytes of the log; calls `each` for each event of the complete lines. */
int stage_lines_feed(struct stage_lines *l, const char *data, size_t len,
		     stage_lines_fn *each, void *arg) MUST_CHECK;

/* End the log; its last line may have no newline. */
int stage_lines_end(struct stage_lines *l, stage_lines_fn *each,
		    void *arg) MUST_CHECK;

#endif
