// SPDX-License-Identifier: Apache-2.0
/*
 * Contents of a hot list: its size, its files, and how it grows with the time of the
 * start. Pure.
 */
#ifndef BOOTSEER_REGISTRY_HOT_FILES_H
#define BOOTSEER_REGISTRY_HOT_FILES_H

#include "recorder/trace.h"

#define HOT_STEPS 40u /* of the time until the last entry */

/* A file with what is read of it; of a block that several files lie in, the one that is
 * read first has the stored bytes. */
struct hot_file {
	const char *path; /* the trace's */
	uint64_t bytes;   /* of the file */
	uint64_t stored;  /* of blocks */
	uint32_t blocks, first_ms;
	uint16_t confidence; /* of its most certain entry */
};

/* Hot is what half of the runs had (TRACE_HOT); the rest is only counted. */
struct hot_summary {
	uint64_t bytes, stored, rare_stored;
	uint32_t entries, blocks, rare_entries, rare_blocks;
	uint32_t last_ms;
	uint64_t by_time[HOT_STEPS]; /* stored bytes until the step's end */
	struct hot_file *files;      /* most stored bytes first */
	size_t n_files;
};

/* `t` outlives it.  -ENOMEM. */
int hot_summary_make(const struct trace *t, struct hot_summary *ret,
		     struct error *err) MUST_CHECK;
void hot_summary_fini(struct hot_summary *s);

#endif
