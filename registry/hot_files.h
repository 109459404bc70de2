// SPDX-License-Identifier: Apache-2.0
/*
 * Describes a hot list: its size, its files, and how it grows in the course of a start. Pure.
 */
#ifndef BOOTSEER_REGISTRY_HOT_FILES_H
#define BOOTSEER_REGISTRY_HOT_FILES_H

#include "recorder/trace.h"

/* steps into which the time until the last entry is divided */
#define HOT_STEPS 40u

/* A file and how much of it is read. The stored bytes of a block that several files share count for
 * the file that is read first. */
struct hot_file {
	const char *path; /* borrowed from the trace */
	uint64_t bytes;   /* read bytes of the file */
	uint64_t stored;  /* stored bytes of its blocks */
	uint32_t blocks, first_ms;
	uint16_t confidence; /* of its most certain entry */
};

/* Sums over a hot list. Entries of confidence TRACE_HOT, read in half of the runs, are counted in
 * full; of the others ("rare") only numbers and stored bytes. */
struct hot_summary {
	uint64_t bytes, stored, rare_stored;
	uint32_t entries, blocks, rare_entries, rare_blocks;
	uint32_t last_ms;
	/* stored bytes from the beginning to the end of each step */
	uint64_t by_time[HOT_STEPS];
	struct hot_file *files; /* most stored bytes first */
	size_t n_files;
};

/* Sum up `t`, which must stay valid as long as the summary. -ENOMEM. */
int hot_summary_make(const struct trace *t, struct hot_summary *ret,
		     struct error *err) MUST_CHECK;
void hot_summary_fini(struct hot_summary *s);

#endif
