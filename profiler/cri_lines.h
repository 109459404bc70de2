// SPDX-License-Identifier: Apache-2.0
/*
 * A container's log as CRI runtimes write it: "TIME stdout|stderr P|F TEXT".  A long
 * line comes in pieces tagged P, the last one tagged F; those of stdout and stderr lie
 * between each other.  Pure.
 */
#ifndef BOOTSEER_PROFILER_CRI_LINES_H
#define BOOTSEER_PROFILER_CRI_LINES_H

#include "common/buf.h"
#include "profiler/stage_event.h"

/* Bytes that are kept of a line in pieces; what is longer is looked through in parts
 * of that size. */
#define CRI_LINE_MAX 65536u

/* A whole line of the container, with the runtime's time before it; `offset` is where
 * its first piece began in the log.  Not 0 ends the reading. */
typedef int cri_line_fn(void *arg, const char *line, size_t len,
			uint64_t offset);

struct cri_piece {
	struct buf
		line; /* the line so far: the header of its first piece, the text */
	size_t header; /* bytes of it */
	uint64_t offset;
};

struct cri_lines {
	struct cri_piece pieces[2]; /* stdout, stderr */
	uint64_t lines, foreign;    /* foreign: no lines of CRI, skipped */
};

void cri_lines_fini(struct cri_lines *c);

/* Feed a line of the log without its newline, at `offset`. */
int cri_lines_feed(struct cri_lines *c, const char *line, size_t len,
		   uint64_t offset, cri_line_fn *each, void *arg) MUST_CHECK;

/* Where the oldest piece that waits for its rest began, or `offset`: whoever begins to
 * read there misses nothing. */
uint64_t cri_lines_begin(const struct cri_lines *c, uint64_t offset);

#endif
