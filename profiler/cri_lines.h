// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a container's log in the format of CRI runtimes: "TIME stdout|stderr P|F TEXT". A long line
 * comes in pieces tagged P, the last one tagged F; pieces of stdout and stderr may be mixed. Pure.
 */
#ifndef BOOTSEER_PROFILER_CRI_LINES_H
#define BOOTSEER_PROFILER_CRI_LINES_H

#include "common/buf.h"
#include "profiler/stage_event.h"

/* Bytes of a line that is joined from pieces; a longer line is passed on in parts of that size. */
#define CRI_LINE_MAX 65536u

/* Called with a whole line of the container, behind the runtime's header; `offset` is where the
 * line's first piece began in the log. A result other than 0 ends the reading. */
typedef int cri_line_fn(void *arg, const char *line, size_t len,
			uint64_t offset);

struct cri_piece {
	/* the line so far: header of its first piece, then the text */
	struct buf line;
	size_t header; /* bytes of the header in `line` */
	uint64_t offset;
};

struct cri_lines {
	struct cri_piece pieces[2]; /* stdout, stderr */
	/* foreign: skipped lines that are not in the CRI format */
	uint64_t lines, foreign;
};

void cri_lines_fini(struct cri_lines *c);

/* Feed a line of the log without its newline, at `offset`. */
int cri_lines_feed(struct cri_lines *c, const char *line, size_t len,
		   uint64_t offset, cri_line_fn *each, void *arg) MUST_CHECK;

/* Where the oldest incomplete line began, or `offset` if there is none: a restart that reads from
 * there loses nothing. */
uint64_t cri_lines_begin(const struct cri_lines *c, uint64_t offset);

#endif
