// SPDX-License-Identifier: Apache-2.0
/* Sources for tests: an object in memory, and a filter that does damage. */
#ifndef BOOTSEER_TESTS_FAKES_FAULT_SOURCE_H
#define BOOTSEER_TESTS_FAKES_FAULT_SOURCE_H

#include <pthread.h>

#include "blockstore/blockstore.h"

#define FAULT_LOG_MAX 4096

/* `data` is borrowed.  Passes on pieces of at most `piece` bytes. */
struct source *memory_source_new(const void *data, size_t len, size_t piece);

/* What to do to reads; set before use or with fault_lock(). */
struct fault_plan {
	unsigned int n_fail;  /* so many reads fail ... */
	int fail_rc;          /* ... with this -errno ... */
	uint64_t fail_after;  /* ... after so many bytes of the read */
	unsigned int n_wrong; /* so many times the byte ... */
	uint64_t wrong_at;    /* ... at this offset is flipped */
	uint64_t hold_at;     /* with `held`: bytes from this offset on wait */
	bool held;            /* until fault_release() */
	bool heeds_pace;      /* or until its pace says stop */
};

struct fault_source {
	struct source base;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	struct fault_plan plan;
	unsigned int n_waiting; /* reads that are held */
	size_t n_reads;
	uint64_t n_bytes; /* passed on */
	struct {
		uint64_t off, len;
		enum source_priority priority;
	} log[FAULT_LOG_MAX];
};

/* Takes `next`.  Freed through its base, as every source. */
struct fault_source *fault_source_new(struct source *next);

void fault_set(struct fault_source *f, const struct fault_plan *plan);
/* Wait until `n` reads are held. */
void fault_wait_held(struct fault_source *f, unsigned int n);
/* Wait until `n` reads have begun. */
void fault_wait_reads(struct fault_source *f, size_t n);
void fault_release(struct fault_source *f);
size_t fault_reads(struct fault_source *f);

#endif
